# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loops of Cluster Autoscaler's stand-in: a node instead of a device, calls that take too long, errors
that end a loop, what it remembers, and what it asks again."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.lab.autoscaling import stand_in
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn, LoopEnded
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.conftest import Clock
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed

Asking = Callable[..., AutoscalerStandIn]
INCREASE, DELETE, NODES_OF = "NodeGroupIncreaseSize", "NodeGroupDeleteNodes", "NodeGroupNodes"


def reasons(standin: AutoscalerStandIn) -> list[str]:
    """Of its events, one for each run of equal ones."""
    found: list[str] = []
    for reason, _about, _message in standin.events:
        found += [reason] if found[-1:] != [reason] else []
    return found


def test_ok_a_node_comes_instead_of_a_device_and_the_target_is_back(
        testbed: Testbed, machines: Machines, asking: Asking) -> None:
    """Row 6: as row 1, and the node is one of the group of real nodes."""
    regroup(testbed)
    for node in ("node-0", "node-1"):
        testbed.api.client.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
    standin = asking()
    testbed.pod("train")
    testbed.sync()
    standin.loop()
    testbed.tick(1)
    standin.loop()
    assert testbed.provider.target_size("vertical") == 1
    machines.arrive("node-2")
    testbed.tick(3)
    for _unused in range(2):
        standin.loop()
    assert testbed.bound("train") == "node-2"
    assert testbed.provider.target_size("vertical") == 0
    assert reasons(standin) == ["TriggeredScaleUp", "ScaleUpFinished"]
    assert len(standin.asked(INCREASE)) == 1
    assert len(standin.members("nodes")) == standin.groups["nodes"].target == 3


def test_call_that_takes_too_long_is_an_error_there_and_one_attach_here(
        testbed: Testbed, asking: Asking, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits 5 s for every call: here less, so that the test does not."""
    monkeypatch.setattr(stand_in, "CALL_SECONDS", 2.0)
    let, ended = threading.Event(), threading.Event()
    increase = testbed.provider.increase

    def slow(group: str, delta: int) -> None:
        let.wait(5)
        increase(group, delta)
        ended.set()

    monkeypatch.setattr(testbed.provider, "increase", slow)
    standin = asking(backoff=30.0)
    testbed.pod("train")
    testbed.sync()
    standin.loop()
    ((reason, group, words),) = standin.events
    assert (reason, group) == ("FailedToScaleUpGroup", "vertical")
    assert words.startswith("DEADLINE_EXCEEDED")
    let.set()
    assert ended.wait(5), "it is carried out all the same"
    clock.now += 31
    standin.loop()
    testbed.tick()
    assert testbed.bound("train")
    assert len(testbed.fabric.attaches) == 1
    assert testbed.provider.target_size("vertical") == 0


@pytest.mark.parametrize(("method", "call"), [("target_size", "NodeGroupTargetSize"), ("running", NODES_OF)])
def test_error_of_a_read_ends_the_loop_before_anything_is_asked(
        testbed: Testbed, asking: Asking, monkeypatch: pytest.MonkeyPatch, method: str, call: str) -> None:
    standin = asking()
    testbed.pod("train")
    testbed.sync()

    def refuse(group: str) -> t.NoReturn:
        raise Refused(Kind.UNAVAILABLE, "the cluster is not read")

    with monkeypatch.context() as broken:
        broken.setattr(testbed.provider, method, refuse)
        with pytest.raises(LoopEnded, match="UNAVAILABLE: the cluster is not read"):
            standin.loop()
    assert [name for name, _request, error in standin.calls if error] == [call]
    assert standin.asked(INCREASE) == []
    standin.loop()
    assert len(standin.asked(INCREASE)) == 1, "the next loop goes on"


def test_instances_are_asked_for_every_two_minutes_and_each_loop_while_a_group_grows(
        testbed: Testbed, asking: Asking, clock: Clock) -> None:
    standin = asking()

    def asked() -> list[str]:
        before = len(standin.asked(NODES_OF))
        standin.loop()
        return [request.id for request in standin.asked(NODES_OF)[before:]]

    assert asked() == ["vertical", "nodes"]
    clock.now += 119
    assert asked() == []
    clock.now += 1
    assert asked() == ["vertical", "nodes"]
    testbed.pod("train")
    testbed.sync()
    assert asked() == []
    assert asked() == ["vertical"], "what could not be created would be seen at once"
    testbed.tick()
    standin.loop()
    assert asked() == []


def test_refused_alone_a_node_is_asked_for_again_and_again(
        testbed: Testbed, asking: Asking, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the annotation is for; the stand-in is as stubborn as the real one."""
    monkeypatch.setattr(testbed.provider.scale_downs._marks, "keep_node", lambda node: None)
    standin = asking(scale_down_unneeded_time=15.0)
    for _unused in range(8):
        standin.loop()
        testbed.tick(1)
        clock.now += 10
    asked = [request.nodes[0].name for request in standin.asked(DELETE)]
    assert asked.count("node-0") >= 2
    assert asked.count("node-1") >= 2
    assert reasons(standin) == ["ScaleDownFailed"]
