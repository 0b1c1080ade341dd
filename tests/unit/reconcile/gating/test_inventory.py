# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan makes of an inventory that comes late, is incomplete, or changes while the plan is made."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import (
    ClusterState,
    DeviceSight,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    allocated,
    ask,
    gate_names,
    reserved,
    serve,
)

HOLD = 60.0


def meanwhile(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Have something happen while a plan is made, right after the nodes were read."""
    read = KnownNodes.facts

    def facts(*args: t.Any) -> dict[str, NodeFacts]:
        found = read(*args)
        what()
        return found

    monkeypatch.setattr(KnownNodes, "facts", facts)


def snapshot_of(state: ClusterState) -> FabricSnapshot:
    """The inventory that was read last."""
    assert state.snapshot
    return state.snapshot


def show(bench: Bench, **fields: t.Any) -> None:
    """Have the last inventory show something else."""
    bench.state.snapshot = replace(snapshot_of(bench.state), **fields)


def test_first_poll_that_ends_while_the_nodes_are_read_releases_no_pod(held: Bench,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    held.state.snapshot = None
    ask(held)
    meanwhile(monkeypatch, held.look)
    held.reconcile(GatesKey())
    assert (gate_names(held), reserved(held)) == ([pods.GATE], [])
    monkeypatch.undo()
    held.reconcile(GatesKey())
    assert reserved(held) == [("train", "node-0")]


@pytest.mark.parametrize(("fields", "said"), [
    ({"machines": {}, "unconfirmed": "two readings differ"}, "two readings differ"),
    ({"free": {}, "problems": {f"{A100}/1": "fabric 1: it is busy"}}, "could not be counted: fabric 1: it is busy"),
], ids=["machines differ", "not counted"])
def test_incomplete_inventory_releases_no_pod(held: Bench, fields: t.Any, said: str) -> None:
    ask(held)
    show(held, **fields)
    held.reconcile(GatesKey())
    assert (gate_names(held), held.told("GateReleased")) == ([pods.GATE], [])
    assert said in held.gating.wait_reasons[0].waits_for
    held.look()
    held.reconcile(GatesKey())
    assert reserved(held) == [("train", "node-0")]


def test_model_that_could_not_be_counted_says_nothing_about_another(held: Bench) -> None:
    ask(held, count=5)
    show(held, problems={"T4/1": "fabric 1: it is busy"})
    held.reconcile(GatesKey())
    assert gate_names(held) == []


class TestMachineOfTheJournal:
    """An earlier process requested a device for a machine that the CDI Manager does not show."""

    @pytest.fixture
    def missing(self, held: Bench) -> Bench:
        held.put(objects.resource("gpu-a", asked=1.0, state="Attaching"), objects.request())
        ask(held)
        show(held, machines={})
        return held

    def test_pod_waits_with_the_reason(self, missing: Bench) -> None:
        missing.reconcile(GatesKey())
        assert gate_names(missing) == [pods.GATE]
        assert "does not show machine machine-0" in missing.gating.wait_reasons[0].waits_for

    def test_pod_is_released_in_the_end(self, missing: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        missing.reconcile(GatesKey())
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + HOLD + 1)
        missing.reconcile(GatesKey())
        assert gate_names(missing) == []


def test_inventory_is_confirmed_by_another_that_shows_the_same_machines(quiet: tuple[ControllerManager, Bench],
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = quiet
    looks, seen = engine.inventory_polls, list[str]()
    lists = [(), ("machine-1",), ("machine-1",), (), ()]

    def machines() -> tuple[Machine, ...]:
        bench.fabric.others = lists.pop(0)
        return FakeFabric.machines(bench.fabric)

    monkeypatch.setattr(bench.fabric, "machines", machines)
    engine.state.snapshot = None
    for _unused in range(4):
        looks.soon.clear()
        looks.look(time.time())
        seen.append(snapshot_of(engine.state).unconfirmed)
        assert looks.soon.is_set() == bool(seen[-1]), "an unconfirmed inventory is read again soon"
    assert [bool(why) for why in seen] == [True, False, True, False]


def test_unconfirmed_inventory_is_no_first_plan(held: Bench) -> None:
    """Devices that an earlier process attached for pods stay until it is known which pods they are for."""
    ask(held)
    show(held, unconfirmed="two readings differ")
    held.reconcile(GatesKey())
    assert not held.state.gated_pods_planned
    held.look()
    held.reconcile(GatesKey())
    assert held.state.gated_pods_planned


def test_claim_of_a_pool_is_not_failed_by_an_unconfirmed_inventory(bench: Bench) -> None:
    bench.put(objects.claim("train", objects.pool_result()), objects.pod("train"))
    show(bench, machines={}, unconfirmed="two readings differ")
    bench.reconcile(NodeKey("node-0"))
    assert bench.told(objects.FAILED) == []
    show(bench, unconfirmed="")
    bench.reconcile(NodeKey("node-0"))
    assert bench.told(objects.FAILED)


def test_device_that_is_requested_while_the_nodes_are_read_counts(held: Bench, monkeypatch: pytest.MonkeyPatch
                                                                  ) -> None:
    """The plan sees neither that it is free nor that it comes: it is the device of the pod before."""
    held.fabric.free_count = 2
    held.look()
    ask(held, "first")
    held.reconcile(GatesKey())
    ask(held, "second")
    meanwhile(monkeypatch, lambda: held.reconcile(NodeKey("node-0")))
    held.reconcile(GatesKey())
    assert held.told("GateReleased") == []
    assert reserved(held) == [("first", "node-0"), ("second", "node-0")]


def test_device_is_held_or_in_use_at_each_moment(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its claim is allocated, and another thread notes that, while the node is read."""
    ask(held)
    serve(held)
    (name,) = held.state.holds.all()
    read = ClusterState.sights

    def sights(state: ClusterState, node: str) -> dict[str, DeviceSight]:
        found = read(state, node)
        monkeypatch.undo()
        held.put(allocated("train", "gpu-0"))
        state.note_uses([node])
        return found

    monkeypatch.setattr(ClusterState, "sights", sights)
    (resource,) = node_snapshot(held.state, "node-0").resources
    assert held.state.holds.all() == {}
    assert (resource.name, resource.taken) == (name, True)


def test_change_while_a_plan_is_made_is_planned_once_more(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pod waited when it came, so that nobody would plan again."""
    held.reconcile(GatesKey())
    held.fabric.free_count = 0
    held.look()
    held.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Detaching", deleted=True))
    ask(held)
    before = len(held.later)

    def returned() -> None:
        held.fabric.free_count = 1
        held.look()
        held.gating.cluster_changed()

    meanwhile(monkeypatch, returned)
    held.reconcile(GatesKey())
    assert (gate_names(held), reserved(held)) == ([pods.GATE], [])
    soon = [when for key, when in held.later[before:] if key == GatesKey() and when < time.time() + 5]
    assert soon
