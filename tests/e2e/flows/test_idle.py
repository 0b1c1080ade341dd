# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle devices go back to the pool; one that somebody has open or a claim holds stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES, EVENTS
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    attached,
    await_served,
    changes_asked,
    delete_all,
    mark,
    pools,
    wait_for,
)

pytestmark = pytest.mark.e2e
STAGE = {"devices": {A100: 2}, "nodes": 1, "hold": 1.0}


def serve(stage: Stage, timeline: Timeline, *names: str) -> None:
    """Have pods run."""
    for name in names:
        stage.pod(name, A100)
    await_served(stage, timeline, *names)


def open_device(folder: Path, uuid: str, pid: int = 4711) -> Path:
    """A process of the node that has the device open, as its /proc shows it; the link to remove."""
    info = next(p for p in (folder / "proc/driver/nvidia/gpus").glob("*/information") if uuid in p.read_text())
    minor = next(line.split()[-1] for line in info.read_text().splitlines() if line.startswith("Device Minor"))
    handle = folder / "proc" / str(pid) / "fd" / "7"
    handle.parent.mkdir(parents=True)
    (handle.parent.parent / "comm").write_text("python3\n")
    handle.symlink_to(f"/dev/nvidia{minor}")
    return handle


def told(stage: Stage, reason: str, text: str) -> bool:
    """Whether an Event of this reason holds a text."""
    return any(e["reason"] == reason and text in e["message"] for e in stage.client.list(EVENTS).items)


def errors(stage: Stage) -> list[str]:
    """Errors on ComposableResources."""
    return [str((r.get("status") or {}).get("error", "")) for r in stage.client.list(COMPOSABLE_RESOURCES).items]


def test_idle_device_goes_back(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    open_process(front_doors.controller, stage)
    serve(stage, timeline, "one")
    since = mark(stage)
    delete_all(stage)
    wait_for("the device is free", lambda: all_free(stage))
    assert [e["method"] for e in changes_asked(stage, since)] == ["DELETE"]
    wait_for("the pool shows both", lambda: set(pools(stage).values()) == {2})


def test_open_device_stays_until_it_is_closed(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    open_process(front_doors.controller, stage)
    serve(stage, timeline, "one")
    uuid = next(iter(attached(stage)))
    handle = open_device(stage.lab.node_folder("node-0"), uuid)
    since = mark(stage)
    delete_all(stage)
    wait_for("the refusal is on the ComposableResource",
             lambda: any("pid 4711 (python3)" in e for e in errors(stage)))
    wait_for("an Event says so", lambda: told(stage, "OpenOnNode", "pid 4711"))
    assert not changes_asked(stage, since), "it was detached although it is open"
    handle.unlink()
    wait_for("the device is free", lambda: all_free(stage))


def test_device_of_a_running_pod_stays(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    """Somebody deletes the ComposableResource of a device in use: it waits for the claim."""
    open_process(front_doors.controller, stage)
    serve(stage, timeline, "one")
    since = mark(stage)
    name = stage.client.list(COMPOSABLE_RESOURCES).items[0]["metadata"]["name"]
    stage.client.delete(COMPOSABLE_RESOURCES, name)
    wait_for("the refusal is on the ComposableResource", lambda: any("default/one" in e for e in errors(stage)))
    assert not changes_asked(stage, since, "DELETE")
    delete_all(stage)
    wait_for("the device is free", lambda: all_free(stage))


def test_idle_device_is_used_before_a_new_one(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    """The pool still has a device, the node an idle one: no attach is asked for."""
    open_process(front_doors.controller, stage)
    serve(stage, timeline, "one")
    since = mark(stage)
    stage.delete_pod("one")
    serve(stage, timeline, "next")
    assert not changes_asked(stage, since, "PATCH")
    delete_all(stage)
    wait_for("the device is free", lambda: all_free(stage))
