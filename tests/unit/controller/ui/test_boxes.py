# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boxes of a fabric: what is free in them and what machines have of them, and nothing where no box is told."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.composable.infra.controller.ui.device_counts import DeviceCounts
from ansible_collections.composable.infra.controller.ui.rows import IDLE, IN_USE, DeviceRow, NodeRow
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]


def look(looked: Looked, free: dict[str, int], attached: dict[str, str | None]) -> None:
    """The fabric was looked at: free devices by box, and the boxes of attached ones."""
    looked.bench.fabric.free_in_boxes = {(A100, 1, box): number for box, number in free.items()}
    looked.bench.fabric.attached = {uid: device(uid, box=box) for uid, box in attached.items()}
    looked.bench.look()
    looked.view.refresh()


def rows(looked: Looked) -> dict[str, Json]:
    found: dict[str, Json] = json.loads(looked.view.snapshot(EVERYTHING))["rows"]
    return found


def boxes(looked: Looked) -> dict[str, tuple[Json, Json]]:
    """(free, states) by box."""
    return {row["box"]: (row.get("free", {}), row.get("states", {}))
            for key, row in rows(looked).items() if key.startswith("box/")}


def node(*devices: tuple[str, str]) -> NodeRow:
    """A node with devices in these boxes and states."""
    return NodeRow("node-0", fabric=1, devices=tuple(DeviceRow(f"gpu-{n}", A100, state, box=box)
                                                     for n, (box, state) in enumerate(devices)))


def test_where_no_box_is_told_there_is_none(looked: Looked) -> None:
    look(looked, {}, {"d1": None})
    assert boxes(looked) == {}
    assert "box" not in rows(looked)["node/node-0"]["devices"][0]


def test_a_box_has_its_free_devices_and_those_of_machines(looked: Looked) -> None:
    look(looked, {"box-a": 2, "box-b": 1}, {"d1": "box-a", "d2": "box-a"})
    assert boxes(looked) == {"box-a": ({A100: 2}, {"unmanaged": 2}), "box-b": ({A100: 1}, {})}


def test_a_device_with_an_object_is_in_its_box_too(looked: Looked) -> None:
    looked.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"))
    look(looked, {}, {"d1": "box-a"})
    assert rows(looked)["node/node-0"]["devices"][0]["box"] == "box-a"
    assert boxes(looked) == {"box-a": ({}, {"idle": 1})}


def test_a_change_of_a_device_sends_its_box_and_no_other(looked: Looked) -> None:
    looked.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"))
    look(looked, {"box-b": 1}, {"d1": "box-a"})
    looked.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Detaching"))
    change = looked.view.refresh()
    assert change is not None
    assert sorted(change.rows) == ["box/1/box-a", "fabric/1", "node/node-0"]
    assert change.rows["box/1/box-a"]["states"] == {"leaving": 1}


def test_a_box_without_devices_is_gone(looked: Looked) -> None:
    look(looked, {"box-a": 1, "box-b": 1}, {"d1": "box-c"})
    look(looked, {"box-b": 1}, {})
    assert boxes(looked) == {"box-b": ({A100: 1}, {})}


def test_free_devices_that_moved_between_boxes_are_sent(looked: Looked) -> None:
    """Though the sum of the fabric is what it was."""
    look(looked, {"box-a": 2}, {})
    look(looked, {"box-a": 1, "box-b": 1}, {})
    assert boxes(looked) == {"box-a": ({A100: 1}, {}), "box-b": ({A100: 1}, {})}


def test_a_namespace_is_shown_no_box(looked: Looked) -> None:
    look(looked, {"box-a": 1}, {})
    assert "box-a" not in looked.view.snapshot(MINE)
    assert looked.stories.of("box/1/box-a", MINE, looked.view) is None


def test_the_story_of_a_box_is_its_row(looked: Looked) -> None:
    look(looked, {"box-a": 1}, {})
    told = looked.stories.of("box/1/box-a", EVERYTHING, looked.view)
    assert told is not None
    assert told["row"] == {"fabric": 1, "box": "box-a", "free": {A100: 1}}
    assert looked.stories.of("box/1/box-z", EVERYTHING, looked.view) is None


def test_switch_of_a_device_is_what_its_driver_publishes(looked: Looked) -> None:
    """The same attribute by which devices of one claim are near to each other."""
    published = objects.local_slice("GPU-d1", "GPU-d2")
    published["spec"]["devices"][0]["attributes"]["gpu.example.com/switch"] = {"string": "0000:80:00.0"}
    looked.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"),
               objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"), published)
    told = [looked.stories.of(f"device/{name}", EVERYTHING, looked.view) or {} for name in ("gpu-a", "gpu-b")]
    assert [each["evidence"].get("switch") for each in told] == ["0000:80:00.0", None]


def test_counts_follow_rows() -> None:
    counts = DeviceCounts()
    assert counts.count("node/node-0", node(("box-a", IDLE), ("box-a", IN_USE), ("", IDLE)))
    assert not counts.count("node/node-0", node(("box-a", IDLE), ("box-a", IN_USE), ("", IDLE)))
    assert (+counts.models[1, A100], +counts.boxes[1, "box-a"]) == ({IDLE: 2, IN_USE: 1}, {IDLE: 1, IN_USE: 1})
    assert counts.changed() == [(1, "box-a")]
    assert counts.count("node/node-0", node(("box-b", IDLE)))
    assert counts.changed() == [(1, "box-a"), (1, "box-b")]
    assert counts.count("node/node-0", None)
    assert not +counts.models[1, A100] + +counts.boxes[1, "box-b"]
    assert counts.changed() == [(1, "box-b")]
    counts.seen([(1, "box-c")])
    assert counts.changed() == [(1, "box-a"), (1, "box-b"), (1, "box-c")]
