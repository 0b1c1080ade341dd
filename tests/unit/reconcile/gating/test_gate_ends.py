# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the choice and after the gate: what the scheduler does, who went away, what a crash leaves."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, pods
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import SchedulingPlan
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating import controller, reservation_tracker
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.planner import plan_gated_pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    GatesKey,
    NodeKey,
    NodeRecordsKey,
    PoolKey,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.pods import PodWriter
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    Json,
    allocated,
    announce,
    ask,
    bind,
    choose,
    claim,
    gate_names,
    kept_for,
    pod,
    pool,
    reserved,
    serve,
    young,
)
from ansible_collections.composable.infra.tests.unit.reconcile.gating.gate_ends_support import (
    REFUSED,
)


@pytest.fixture
def opened(held: Bench) -> Callable[..., None]:
    """A pod whose gate was opened; call with what is then seen of it."""
    ask(held)
    serve(held)
    assert reserved(held) == [("train", "node-0")]

    def see(kind: str = "MODIFIED", node: str = "", **status: t.Any) -> None:
        raw = held.api.one(PODS, "train", "default")
        spec = {**raw["spec"], "nodeName": node} if node else raw["spec"]
        new = {**raw, "spec": spec, "status": {**raw["status"], **status}}
        held.put(new)
        held.gating.pod_changed(Change(kind, PODS, pods.read(new), pods.read(raw)))

    return see


def test_bound_where_it_was_sent(held: Bench, opened: Callable[..., None]) -> None:
    opened(node="node-0")
    assert reserved(held) == []
    assert held.told("NodeMisjudged") == []


def test_bound_before_the_reply_to_the_gates_removal_has_all_its_hops(
    held: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bound_at_once(writer: PodWriter, pod: PodRef) -> bool:
        there = ungate(writer, pod)
        bind(held, pod.name)
        return there

    ungate = PodWriter.ungate
    monkeypatch.setattr(PodWriter, "ungate", bound_at_once)
    ask(held)
    serve(held)
    took = [held.metrics.observed("step_duration_seconds", step=step, handover="gated") for step in ("gate", "bind")]
    assert [len(times) for times in took] == [1, 1]
    assert held.claim_steps.began("bind", "uid-train") == 0.0, "it would go on for ever"


def test_bound_elsewhere_is_counted_and_frees_the_device(held: Bench, opened: Callable[..., None]) -> None:
    opened(node="node-7")
    assert held.metrics.get("gate_misjudged_total", reason="elsewhere") == 1
    assert held.told("NodeMisjudged") == ["node node-0 was chosen, but the scheduler placed the pod on node node-7"]
    assert not node_snapshot(held.state, "node-0").resources[0].hold_alive


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal counts at once."""
    monkeypatch.setattr(reservation_tracker, "PATIENCE", 0.0)


def test_refusal_counts_only_if_it_lasts(held: Bench, opened: Callable[..., None]) -> None:
    """The scheduler may look before it has seen the device."""
    opened(conditions=REFUSED)
    for _unused in range(2):
        held.later.clear()
        held.reconcile(GatesKey())
        assert reserved(held) == [("train", "node-0")]
        assert [key for key, _when in held.later] == [GatesKey()], "of two appointments the queue keeps the earlier"
    opened(node="node-0", conditions=[])
    assert held.metrics.get("gate_misjudged_total", reason="unschedulable") == 0


@pytest.mark.usefixtures("impatient")
def test_device_of_a_refused_pod_is_anybodys_also_where_the_hold_is_written(
    held: Bench, opened: Callable[..., None]
) -> None:
    (raw,) = held.api.of(COMPOSABLE_RESOURCES)
    assert cohdi.read_hold(raw)[0] == "uid-train"
    opened(conditions=REFUSED)
    held.reconcile(GatesKey())
    assert not node_snapshot(held.state, "node-0").resources[0].hold_alive
    held.reconcile(NodeRecordsKey("node-0"))
    assert cohdi.read_hold(held.api.of(COMPOSABLE_RESOURCES)[0])[0] == ""


@pytest.mark.usefixtures("impatient")
def test_refused_by_the_scheduler_is_counted_with_its_words(held: Bench, opened: Callable[..., None]) -> None:
    opened(conditions=REFUSED)
    held.reconcile(GatesKey())
    assert held.metrics.get("gate_misjudged_total", reason="unschedulable") == 1
    assert "0/1 nodes: no room" in held.told("NodeMisjudged")[0]
    assert reserved(held) == []


def test_not_yet_looked_at_by_the_scheduler_waits(held: Bench, opened: Callable[..., None]) -> None:
    opened(conditions=[{**REFUSED[0], "reason": "SchedulingGated"}])
    assert reserved(held) == [("train", "node-0")]


@pytest.mark.parametrize(("kind", "status"), [("DELETED", {}), ("MODIFIED", {"phase": "Failed"})])
def test_ended_pod_frees_the_device(held: Bench, opened: Callable[..., None], kind: str, status: Json) -> None:
    opened(kind, **status)
    assert reserved(held) == []
    assert NodeKey("node-0") in held.keys


def test_gate_removed_by_somebody_else_ends_the_booking(held: Bench) -> None:
    ask(held)
    held.reconcile(GatesKey())
    raw = held.api.one(PODS, "train", "default")
    free = {**raw, "spec": {**raw["spec"], "schedulingGates": None}}
    held.gating.pod_changed(Change("MODIFIED", PODS, pods.read(free), pods.read(raw)))
    assert reserved(held) == []


def test_new_held_pod_is_planned_soon(held: Bench) -> None:
    held.gating.pod_changed(Change("ADDED", PODS, pods.read(pod("train")), None))
    assert [key for key, _when in held.later] == [GatesKey()]


def test_nothing_is_decided_before_the_manager_was_seen(held: Bench) -> None:
    held.state.snapshot = None
    ask(held)
    held.reconcile(GatesKey())
    assert (gate_names(held), reserved(held)) == ([pods.GATE], [])
    held.later.clear()
    held.gating.cluster_changed()
    assert [key for key, _when in held.later] == [GatesKey()]


def test_device_of_a_held_pod_stays_until_the_pod_is_planned_again(held: Bench) -> None:
    """An earlier engine had it attached; its hold time is over when this one begins."""
    held.put(objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=5000, created=5000), objects.request(),
             objects.local_slice("GPU-d9"))
    ask(held)
    held.reconcile(NodeRecordsKey("node-0"))
    held.reconcile(NodeKey("node-0"))
    (resource,) = held.api.of(COMPOSABLE_RESOURCES)
    assert "deletionTimestamp" not in resource["metadata"]
    held.reconcile(GatesKey())
    assert NodeKey("node-0") in held.keys
    held.run(1)
    assert (gate_names(held), held.fabric.attaches) == ([], [])


def test_device_of_a_held_pod_stays_when_its_plan_did_not_see_the_fabric(held: Bench,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """It is seen in the midst of the first plan, which knew of no device."""
    held.put(objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=5000, created=5000), objects.request(size=0),
             claim("train"), young("train"))
    fabric, held.state.snapshot = held.state.snapshot, None

    def seen_meanwhile(*args: t.Any) -> SchedulingPlan:
        plan = plan_gated_pods(*args)
        held.state.snapshot = fabric
        return plan

    monkeypatch.setattr(controller, "plan_gated_pods", seen_meanwhile)
    held.reconcile(GatesKey())
    held.reconcile(NodeKey("node-0"))
    assert (reserved(held), ["deletionTimestamp" in each["metadata"] for each in held.api.of(COMPOSABLE_RESOURCES)]) \
        == ([], [False])
    held.reconcile(GatesKey())
    held.reconcile(NodeKey("node-0"))
    assert reserved(held) == [("train", "node-0")]
    assert [(each["metadata"]["name"], "deletionTimestamp" in each["metadata"])
            for each in held.api.of(COMPOSABLE_RESOURCES)] == [("gpu-a", False)]


def test_claim_that_was_given_a_pool_device_gets_the_one_that_was_attached_for_it(held: Bench) -> None:
    """The scheduler heard of the removed gate before it heard of the device."""
    ask(held)
    serve(held)
    (device,) = held.fabric.attached.values()
    held.put({**objects.claim("train", objects.pool_result()), "spec": claim("train")["spec"]})
    held.run(2)
    (given,) = held.api.one(CLAIMS, "train", "default")["status"]["devices"]
    assert [each["type"] for each in given["conditions"]] == [objects.RESCHEDULE]
    assert (kept_for(held, "train"), len(held.fabric.attaches)) == (device.serial, 1)


def test_changes_matter_only_while_a_pod_waits(held: Bench) -> None:
    held.reconcile(GatesKey())
    held.gating.cluster_changed()
    assert held.later == []
    held.put(young("train"))
    held.reconcile(GatesKey())
    held.later.clear()
    held.gating.cluster_changed()
    assert [key for key, _when in held.later] == [GatesKey()]


def test_crash_after_the_attach_finds_the_device_again(held: Bench) -> None:
    """All bookings are lost; the pod is planned anew onto the device that is there."""
    ask(held)
    held.reconcile(GatesKey())
    held.run(1)
    held.state.reservations.drop("pod-train")
    announce(held)
    held.reconcile(GatesKey())
    held.run(1)
    assert (gate_names(held), len(held.fabric.attaches), len(held.api.of(COMPOSABLE_RESOURCES))) == ([], 1, 1)


@pytest.mark.parametrize("bound_first", [False, True], ids=["the claim is seen first", "the pod is seen first"])
def test_pods_that_take_each_others_devices_keep_both(held: Bench, bound_first: bool) -> None:
    """A third pod waits for its own; it must not be let go for a device that the second is about to take."""
    for name in ("a", "b", "c"):
        ask(held, name)
    choose(held)
    held.run(1)
    serials = [str(d.serial) for d in held.fabric.attached.values()]
    held.put(objects.local_slice(*serials[:2]))
    held.run(1)
    gone = [name for name in ("a", "b", "c") if not gate_names(held, name)]
    assert len(gone) == 2
    first, second = (kept_for(held, name) for name in gone)
    if bound_first:
        bind(held, gone[0])
    held.put(allocated(gone[0], f"gpu-{serials.index(second)}"))
    held.run(1)
    assert kept_for(held, gone[1]) == first
    assert sum(bool(gate_names(held, name)) for name in ("a", "b", "c")) == 1
    assert len(held.fabric.attaches) == 3


def test_pool_is_looked_at_when_a_booking_ends(held: Bench) -> None:
    ask(held)
    held.reconcile(GatesKey())
    assert pool(held) == 3
    held.keys.clear()
    held.gating.ends.unreserve("pod-train")
    assert set(held.keys) == {NodeKey("node-0"), PoolKey(A100, 1)}
    for key in held.keys:
        held.reconcile(key)
    assert pool(held) == 4


def test_device_that_was_given_to_its_pod_is_wanted_no_more(held: Bench) -> None:
    ask(held)
    serve(held)
    held.put(allocated("train", "gpu-0"))
    held.reconcile(PoolKey(A100, 1))
    assert pool(held) == 4, "the fake manager has four besides"
    assert reserved(held) == [("train", "node-0")]
