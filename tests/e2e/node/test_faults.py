# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong on a node is told where people look, and holds up nothing else of this node or of another.

Each test has a node of its own, on which a pod with another device runs all the time.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.support import by_hand, node_evidence
from ansible_collections.composable.infra.tests.e2e.support.node_evidence import errors
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    all_free,
    attached,
    await_served,
    changes_asked,
    delete_all,
    mark,
    wait_for,
)

ELSEWHERE = "node-5"
STAGE: dict[str, t.Any] = {"devices": {A100: 7, H100: 7}, "nodes": 6, "handover": "gated", "attach": 0.1, "hold": 0.3}


@pytest.fixture(scope="module", autouse=True)
def controller(stage: Stage) -> Iterator[front_doors.Process]:
    """One for all tests, and agents that give up sooner."""
    stage.lab.start_agents(patience=2.0, search_patience=4.0)
    process = OPENED.add(front_doors.controller(stage))
    yield process
    OPENED.stop(process)


@pytest.fixture
def steady(stage: Stage, timeline: Timeline, request: pytest.FixtureRequest) -> Iterator[str]:
    """The node of a test, on which a pod runs before; it still does at the end."""
    node = str(request.param)
    stage.pod("steady", H100, 1, node)
    await_served(stage, timeline, "steady")
    before = on_machine(stage, node, H100)
    yield node
    for kind in stage.lab.faults().get(node, ()):
        stage.lab.switch_fault(node, kind, False)
    assert timeline.running("steady")
    assert before <= on_machine(stage, node, H100)
    delete_all(stage)
    wait_for("all devices are free", lambda: all_free(stage))


def on_machine(stage: Stage, node: str, model: str) -> set[str]:
    """UUIDs of the devices of a model that the manager has attached to a node."""
    where = (machine_uuid(node), model)
    return {serial for serial, d in attached(stage).items() if (d["machine"], d["model"]) == where}


def go_on(stage: Stage, timeline: Timeline, node: str) -> None:
    """Claims of another node, and of this one for another model, are served."""
    stage.pod("elsewhere", A100, 1, ELSEWHERE)
    stage.pod("beside", H100, 1, node)
    await_served(stage, timeline, "elsewhere", "beside")


def gone_bad(stage: Stage, node: str, kind: str, reason: str) -> str:
    """A claim's device meets a fault of its node, which is over when the agent has told it; the agent's words."""
    stage.lab.switch_fault(node, kind)
    stage.pod("bad", A100, 1, node)
    told = wait_for(f"{reason} is told", partial(node_evidence.event, stage, node, reason))
    stage.lab.switch_fault(node, kind, False)
    wait_for("the device is returned", lambda: not on_machine(stage, node, A100))
    return told


def assert_refused(stage: Stage, timeline: Timeline, node: str, told: str, since: int) -> None:
    """The pod is told why; its device was attached once and returned once; the kernel lost nothing."""
    assert not timeline.running("bad")
    said = f"{A100} cannot be attached to node {node}: {told}"
    wait_for("the pod is told", lambda: said in node_evidence.event(stage, "bad", "NodeGivenUp"))
    mine = [e for e in changes_asked(stage, since) if e["machine"] == machine_uuid(node)]
    (device,) = {e["device"] for e in mine if e["model"] == A100 and e["method"] == "PATCH"}
    assert [e["method"] for e in mine if e["device"] == device] == ["PATCH", "DELETE"]
    assert "Xid" not in by_hand.kernel_log(stage.lab.node_folder(node))


def waits_for(stage: Stage, name: str) -> str:
    """What claim_info says."""
    return str(node_evidence.claim_told(stage, name)["waits_for"])


def node_troubles(stage: Stage, name: str) -> list[str]:
    """Troubles of a claim's devices on their node, as claim_info has them."""
    steps = node_evidence.claim_told(stage, name)["evidence"].get("node_steps") or []
    return [each["trouble"] for each in steps if "trouble" in each]


@pytest.mark.parametrize("steady", ["node-0"], indirect=True)
def test_no_room_for_the_memory_windows(stage: Stage, timeline: Timeline, steady: str) -> None:
    since = mark(stage)
    told = gone_bad(stage, steady, faults.NO_ROOM, "NoRoomForBars")
    assert "got no address for its memory windows (BAR 0, 1, 3)" in told
    assert "Set the kernel parameters" in told
    go_on(stage, timeline, steady)
    assert_refused(stage, timeline, steady, told, since)


@pytest.mark.parametrize("steady", ["node-1"], indirect=True)
def test_driver_that_does_not_bind(stage: Stage, timeline: Timeline, steady: str) -> None:
    since = mark(stage)
    told = gone_bad(stage, steady, faults.NO_BIND, "DriverNotBound")
    assert "bind driver nvidia" in told
    assert "failed with error -1" in told
    go_on(stage, timeline, steady)
    assert_refused(stage, timeline, steady, told, since)


@pytest.mark.parametrize("steady", ["node-2"], indirect=True)
def test_narrower_link_is_a_warning(stage: Stage, timeline: Timeline, steady: str) -> None:
    stage.lab.switch_fault(steady, faults.NARROW_LINK)
    stage.pod("slow", A100, 1, steady)
    await_served(stage, timeline, "slow")
    stage.lab.switch_fault(steady, faults.NARROW_LINK, False)
    (found,) = node_evidence.evidence(stage, steady, A100)
    assert found.link is not None
    assert (found.link.width, found.link.max_width, found.phase) == (4, 16, "Ready")
    told = wait_for("the warning is told", partial(node_evidence.event, stage, steady, "LinkDegraded"))
    assert "has 4 lanes of 16" in told
    assert node_troubles(stage, "slow") == [told]
    go_on(stage, timeline, steady)


@pytest.mark.parametrize("steady", ["node-3"], indirect=True)
def test_device_that_the_fabric_takes_from_a_claim(stage: Stage, timeline: Timeline, steady: str) -> None:
    stage.pod("lost", A100, 1, steady)
    await_served(stage, timeline, "lost")
    (uid,) = [d["uid"] for d in attached(stage).values() if d["model"] == A100]
    connect(EngineConfig.load(str(stage.config_path)).fabric).detach(machine_uuid(steady), uid)
    told = wait_for("the loss is told", partial(node_evidence.event, stage, steady, "LostOnBus"))
    assert "Xid" in told
    assert "79" in told
    assert node_troubles(stage, "lost") == [told]
    wait_for("the ComposableResource says so", lambda: told in errors(stage, steady))
    # The vendor's plugin does not start beside a lost device, so nothing is attached here until that one is gone.
    stage.pod("beside", H100, 1, steady)
    stage.pod("elsewhere", A100, 1, ELSEWHERE)
    await_served(stage, timeline, "elsewhere")
    wait_for("it is told why the node gets nothing", lambda: told in waits_for(stage, "beside"))
    assert len(on_machine(stage, steady, H100)) == 1
    stage.delete_pod("lost")
    await_served(stage, timeline, "beside")
    assert not node_evidence.resources(stage, steady, A100)


@pytest.mark.parametrize("steady", ["node-4"], indirect=True)
def test_removal_that_hangs(stage: Stage, timeline: Timeline, steady: str) -> None:
    """It holds the kernel's lock, so nothing new is attached to the node until it ends; what is there is used."""
    stage.pod("beside", H100, 1, steady)
    stage.pod("last", A100, 1, steady)
    await_served(stage, timeline, "beside", "last")
    since = mark(stage)
    stage.lab.switch_fault(steady, faults.REMOVAL_HANGS)
    stage.delete_pod("last")
    told = wait_for("it is told", partial(node_evidence.event, stage, steady, "RemovalHung"))
    assert "reboot the node" in told
    hangs = told.partition(" hangs in the kernel")[0]
    assert hangs.startswith("the removal of 0000:")
    wait_for("the ComposableResource says so", lambda: f"not detached: {hangs}" in str(errors(stage, steady)))
    stage.pod("elsewhere", A100, 1, ELSEWHERE)
    stage.pod("later", A100, 1, steady)
    await_served(stage, timeline, "elsewhere")
    # While a slice still shows the device that hangs, that is the reason. Then it is the hanging removal.
    reasons = (hangs, f"cannot be removed from node {steady} now, and the scheduler could still choose it")
    wait_for("claim_info names the reason", lambda: any(
        reason in waits_for(stage, "later") for reason in reasons))
    assert {e["machine"] for e in changes_asked(stage, since)} == {machine_uuid(ELSEWHERE)}
    stage.lab.switch_fault(steady, faults.REMOVAL_HANGS, False)
    await_served(stage, timeline, "later")
    assert timeline.running("beside")
    assert "Xid" not in by_hand.kernel_log(stage.lab.node_folder(steady))
