# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is not free yet and will be in some moments: no device is missing in any of them, and none counts twice."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.upcoming_supply import ending, returning
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    ask,
    claim,
    gate_names,
    pod,
    reserved,
)

Json = dict[str, t.Any]


@pytest.fixture
def taken(held: Bench) -> Bench:
    """All devices of the fabric are used by the pod ``old``."""
    held.fabric.free_count = 0
    held.look()
    held.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"), shown("GPU-d1"),
             objects.claim("old", objects.local_result()), old())
    return held


def shown(*uuids: str) -> Json:
    found = objects.local_slice(*uuids)
    for device in found["spec"]["devices"]:
        device["attributes"]["productName"] = {"string": "NVIDIA A100 40G"}
    return found


def old(leaves_in: float | None = None) -> Json:
    pod = objects.pod("old", phase="Running")
    if leaves_in is not None:
        pod["metadata"]["deletionTimestamp"] = format_time(time.time() + leaves_in)
    return pod


def ends(bench: Bench) -> dict[tuple[str, int], int]:
    assert bench.state.snapshot
    return dict(ending(bench.state, bench.state.snapshot))


def test_pod_is_let_go_where_the_user_stays(taken: Bench) -> None:
    ask(taken)
    taken.reconcile(GatesKey())
    assert gate_names(taken) == []


def test_pod_waits_for_a_device_whose_pod_leaves(taken: Bench) -> None:
    taken.put(old(leaves_in=30))
    ask(taken)
    taken.reconcile(GatesKey())
    assert taken.told("GateReleased") == [] == reserved(taken)
    assert "Devices are returning to the fabric" in taken.gating.wait_reasons[0].waits_for


def test_pod_waits_for_a_device_whose_pod_has_left_when_the_nodes_were_read(taken: Bench,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan sees the device in use, and the claim without one."""
    taken.put(old(leaves_in=30))
    ask(taken)
    read = KnownNodes.facts

    def facts(*args: t.Any) -> dict[str, NodeFacts]:
        found = read(*args)
        taken.put(objects.claim("old", pods=[]))
        return found

    monkeypatch.setattr(KnownNodes, "facts", facts)
    taken.reconcile(GatesKey())
    assert taken.told("GateReleased") == [] == reserved(taken)
    monkeypatch.undo()
    taken.reconcile(GatesKey())
    assert reserved(taken) == [("train", "node-0")]


def test_pod_is_let_go_where_it_leaves_after_the_time_that_is_waited(taken: Bench) -> None:
    taken.put(old(leaves_in=3600))
    ask(taken)
    taken.reconcile(GatesKey())
    assert gate_names(taken) == []


def test_each_device_of_the_claim_counts_and_no_other(taken: Bench) -> None:
    taken.put(old(leaves_in=1))
    taken.put(objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"),
              objects.resource("gpu-c", device="d3", serial="GPU-d3", state="Online"),
              shown("GPU-d1", "GPU-d2", "GPU-d3"),
              objects.claim("old", objects.local_result(), objects.local_result("gpu-1")))
    assert ends(taken) == {(A100, 1): 2}


def test_device_that_is_being_given_up_is_not_counted_twice(taken: Bench) -> None:
    taken.put(old(leaves_in=1))
    taken.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Detaching", deleted=True))
    assert ends(taken) == {}


def test_device_of_a_node_without_a_machine_comes_back_to_no_fabric(taken: Bench) -> None:
    taken.put(old(leaves_in=1))
    taken.put(objects.node("node-0", None))
    assert ends(taken) == {}


class TestOnItsWayBack:
    """From the moment in which it is given up to the look that shows it."""

    @pytest.fixture
    def leaving(self, held: Bench) -> Bench:
        held.look()
        held.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Detaching", deleted=True))
        return held

    def count(self, bench: Bench) -> int:
        assert bench.state.snapshot
        return returning(bench.state, bench.state.snapshot)[A100, 1]

    def test_between_the_answer_of_the_manager_and_the_news_that_its_resource_is_gone(self, leaving: Bench) -> None:
        assert self.count(leaving) == 1
        (found,) = leaving.state.resources.each_value()
        leaving.state.note_return(found)
        assert self.count(leaving) == 1
        leaving.state.resources.remove(found)  # the answer to the write that ends it comes before the watch
        assert self.count(leaving) == 1

    def test_it_is_free_when_a_look_shows_it_though_its_resource_is_there_still(self, leaving: Bench) -> None:
        (found,) = leaving.state.resources.each_value()
        leaving.state.note_return(found)
        leaving.look()
        assert self.count(leaving) == 0

    def test_what_an_earlier_process_detached(self, leaving: Bench) -> None:
        leaving.put(objects.resource("gpu-a", device="", state="Deleting", deleted=True))
        assert self.count(leaving) == 1

    def test_another_resource_of_the_same_name(self, leaving: Bench) -> None:
        (found,) = leaving.state.resources.each_value()
        leaving.state.note_return(found)
        leaving.look()
        new = objects.resource("gpu-a", device="d2", serial="GPU-d2", state="Detaching", deleted=True)
        leaving.put({**new, "metadata": {**new["metadata"], "uid": "another"}})
        assert self.count(leaving) == 1

    def test_a_plan_of_the_look_before_has_it_still(self, leaving: Bench) -> None:
        before = leaving.state.snapshot
        (found,) = leaving.state.resources.each_value()
        leaving.state.note_return(found)
        leaving.state.resources.remove(found)
        leaving.state.returns.gone(found.uid)
        leaving.look()
        assert self.count(leaving) == 0
        assert before is not None
        assert returning(leaving.state, before)[A100, 1] == 1

    def test_what_is_gone_is_forgotten(self, leaving: Bench) -> None:
        (found,) = leaving.state.resources.each_value()
        uid = found.uid
        leaving.state.note_return(found)
        leaving.state.returns.since(time.time() + 3600)
        assert uid in leaving.state.returns, "its resource is there"
        leaving.state.returns.gone(uid)
        leaving.state.returns.since(time.time() + 3600)
        assert uid not in leaving.state.returns


@pytest.mark.parametrize(("leaves_in", "chosen"), [(None, []), (3600.0, []), (20.0, [("train", "node-0")])])
def test_room_of_a_pod_that_leaves_is_free_only_if_it_leaves_soon(held: Bench, leaves_in: float | None,
                                                                  chosen: list[tuple[str, str]]) -> None:
    """A tenant says how long its pods may take to end, and kube-scheduler keeps their room until they are gone."""
    large = old(leaves_in)
    large["spec"] |= {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]}
    small = pod("train")
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    held.put(large, claim("train"), small)
    held.reconcile(GatesKey())
    assert reserved(held) == chosen
