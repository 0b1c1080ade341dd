# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine without hands on the nodes fails there, as it must: a fabric attaches, but a node needs somebody.

The nodes are truthful here and no agent runs: `node_operations` is `none`. These tests are kept, so that the lab never
becomes kinder than hardware.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    delete_all,
    mark,
    states,
    wait_for,
)

pytestmark = pytest.mark.e2e
NODE = "node-0"
OPTIONS: dict[str, t.Any] = {"devices": {A100: 2}, "nodes": 1, "hands": "none", "announce": 0.0}


@pytest.fixture
def bare(stage_factory: StageFactory) -> Stage:
    """A stage whose node is truthful, and which nobody can look into."""
    return stage_factory(**OPTIONS)


@pytest.fixture
def line(bare: Stage) -> t.Iterator[Timeline]:
    """What happens to claims and pods."""
    timeline = Timeline(bare)
    yield timeline
    timeline.stop()


def await_bound(stage: Stage, count: int) -> None:
    """Wait until the fabric has attached devices and the node's kernel has bound its driver to them."""
    wait_for("attached devices", lambda: len(attached(stage)) == count)
    wait_for("bound devices", lambda: len(by_hand.bound(stage.lab.node_folder(NODE))) == count)


def known_to_the_engine(stage: Stage) -> int:
    """ComposableResources whose device the manager has named."""
    found = stage.client.list(COMPOSABLE_RESOURCES).items
    return sum(1 for item in found if (item.get("status") or {}).get("cdi_device_id"))


def serve_by_hand(stage: Stage) -> None:
    """What an agent would do: use the devices once, and have the vendor's plugin look again."""
    by_hand.run(stage.lab.node_folder(NODE), "nvidia-smi")
    by_hand.restart_plugin(stage.lab, NODE)


def test_second_device_is_never_announced_and_an_idle_one_never_returns(
    bare: Stage, line: Timeline, open_process: OpenProcess
) -> None:
    open_process(front_doors.controller, bare)
    bare.pod("one", A100)
    await_bound(bare, 1)
    serve_by_hand(bare)
    await_served(bare, line, "one")
    before = by_hand.slice_spec(bare.lab, NODE)
    bare.pod("two", A100)
    await_bound(bare, 2)
    wait_for("both devices are known to the engine", lambda: known_to_the_engine(bare) == 2)
    # Not even the first use makes a running plugin look: only its restart does, by one write.
    by_hand.run(bare.lab.node_folder(NODE), "nvidia-smi")
    assert before is not None
    assert by_hand.slice_spec(bare.lab, NODE) == before
    assert not line.running("two")
    by_hand.restart_plugin(bare.lab, NODE)
    wait_for("both are announced", lambda: len(by_hand.announced(bare.lab, NODE) or []) == 2)
    after = by_hand.slice_spec(bare.lab, NODE) or {}
    assert after["pool"]["generation"] == before["pool"]["generation"] + 1
    await_served(bare, line, "two")
    since = mark(bare)
    delete_all(bare)
    for item in bare.client.list(COMPOSABLE_RESOURCES).items:
        bare.client.delete(COMPOSABLE_RESOURCES, item["metadata"]["name"])
    wait_for("the engine says why both devices stay", lambda: len(refusals(bare)) == 2)
    assert not changes_asked(bare, since)
    assert states(bare) == ["attached", "attached"]


def refusals(stage: Stage) -> list[str]:
    """Errors of devices that nobody can prove idle and remove."""
    told = [(item.get("status") or {}).get("error") or "" for item in stage.client.list(COMPOSABLE_RESOURCES).items]
    return [error for error in told if "no program can prove that a device is idle" in error]


def test_device_that_the_fabric_takes_from_a_running_node_is_lost(
    bare: Stage, line: Timeline, open_process: OpenProcess
) -> None:
    open_process(front_doors.controller, bare)
    bare.pod("one", A100)
    await_bound(bare, 1)
    serve_by_hand(bare)
    await_served(bare, line, "one")
    folder = bare.lab.node_folder(NODE)
    assert "Xid" not in by_hand.kernel_log(folder)
    (device,) = attached(bare).values()
    connect(EngineConfig.load(str(bare.config_path)).fabric).detach(machine_uuid(NODE), device["uid"])
    wait_for("Xid 79 in the kernel's log", lambda: "): 79, " in by_hand.kernel_log(folder))
    assert by_hand.gpus(folder), "a dead device stays on the bus"
