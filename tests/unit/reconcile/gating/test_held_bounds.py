# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No pod is held for ever: what is missing has a time, and what was chosen is judged again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating import controller
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes, Read
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.pass_record import PassRecord
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.upcoming_supply import returning
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.pods import PodWriter
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    Json,
    announce,
    ask,
    claim,
    gate_names,
    node,
    opted_in,
    pod,
    reserved,
    serve,
)

HOLD, PLACEMENT = 60.0, 300.0


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass."""
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])

    def wait(seconds: float) -> None:
        ahead[0] += seconds

    return wait


def foreign(name: str = "nic") -> tuple[Json, Json]:
    """A held pod whose claim the fabric does not serve."""
    raw = claim(name)
    raw["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "rdma.example.com"
    return raw, pod(name)


def test_annotation_of_one_pod_stops_no_other(held: Bench) -> None:
    ask(held, "good")
    ask(held, "evil", group="g", size=1)
    held.put({**pod("evil"), "metadata": {**pod("evil", group="g")["metadata"],
                                          "annotations": {pods.GROUP_SIZE: "1" * 4301}}})
    held.reconcile(GatesKey())
    assert (reserved(held), gate_names(held, "evil")) == ([("good", "node-0")], [])
    assert "has no valid size" in held.told("GateReleased")[0]


def test_pod_that_cannot_be_read_stops_no_other(held: Bench) -> None:
    ask(held, "good")
    held.put({**pod("evil"), "status": {"resourceClaimStatuses": [7]}})
    held.reconcile(GatesKey())
    assert (reserved(held), gate_names(held, "evil")) == ([("good", "node-0")], [])


def test_group_beyond_the_bound_is_let_go(held: Bench) -> None:
    ask(held, group="g", size=257)
    held.reconcile(GatesKey())
    assert (gate_names(held), "max_group_size" in held.told("GateReleased")[0]) == ([], True)


class TestManagerThatWasNeverSeen:
    """A restart during its outage."""

    def test_claim_of_a_foreign_class_is_let_go_at_once(self, held: Bench) -> None:
        held.state.snapshot = None
        held.put(*foreign())
        held.reconcile(GatesKey())
        assert gate_names(held, "nic") == []

    def test_ours_waits_with_the_reason_and_is_let_go_in_the_end(self, held: Bench,
                                                                 later: Callable[[float], None]) -> None:
        held.state.snapshot, held.state.fabric_problem = None, "it does not answer"
        ask(held)
        held.reconcile(GatesKey())
        assert gate_names(held) == [pods.GATE]
        said = "no poll of the CDI Manager has succeeded yet: it does not answer"
        assert said in held.gating.wait_reasons[0].waits_for
        assert held.later[-1][1] == pytest.approx(time.time() + HOLD, abs=5.0)
        later(HOLD)
        held.reconcile(GatesKey())
        assert gate_names(held) == []
        assert "(waited 60 s)" in held.told("GateReleased")[0]

    def test_time_counts_from_when_this_process_saw_the_pod(self, held: Bench) -> None:
        """Its creation is by the clock of another host."""
        held.state.snapshot = None
        ask(held)
        held.put(pod("train") | {"metadata": {**pod("train")["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z"}})
        held.reconcile(GatesKey())
        assert gate_names(held) == [pods.GATE]


class TestNodeIsJudgedAgain:
    """While its devices are on their way."""

    def change(self, held: Bench, **spec: object) -> None:
        raw = node()
        held.put({**raw, "spec": {**raw["spec"], **spec}})
        held.gating.node_changed("node-0")
        assert held.later[-1][0] == GatesKey()
        held.reconcile(GatesKey())

    @pytest.mark.parametrize("spec", [
        {"unschedulable": True},
        {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}], ids=["cordoned", "not ready"])
    def test_pod_gets_another_node(self, held: Bench, spec: Json) -> None:
        held.fabric.others = ("machine-1",)
        held.look()
        held.put(node("node-1", "machine-1"))
        ask(held)
        held.reconcile(GatesKey())
        ((_name, first),) = reserved(held)
        raw = node(first, f"machine-{first[-1]}")
        held.put({**raw, "spec": {**raw["spec"], **spec}})
        held.reconcile(GatesKey())
        held.reconcile(GatesKey())
        assert reserved(held) == [("train", "node-1" if first == "node-0" else "node-0")]
        assert len(held.told("NodeGivenUp")) == 1

    def test_pod_is_let_go_where_no_node_is_left(self, held: Bench) -> None:
        ask(held)
        held.reconcile(GatesKey())
        self.change(held, unschedulable=True)
        assert (reserved(held), gate_names(held)) == ([], [])

    def test_node_that_is_gone(self, held: Bench) -> None:
        ask(held)
        held.reconcile(GatesKey())
        held.drop(node())
        held.reconcile(GatesKey())
        assert (reserved(held), gate_names(held)) == ([], [])

    def test_gate_that_is_open_is_left_to_the_scheduler(self, held: Bench) -> None:
        ask(held)
        serve(held)
        self.change(held, unschedulable=True)
        assert reserved(held) == [("train", "node-0")]


class TestDeviceThatIsNeverSeen:
    """It is attached, and the node does not show it."""

    def test_another_node_is_chosen_then_the_pod_is_let_go(self, held: Bench, later: Callable[[float], None]) -> None:
        held.fabric.others = ("machine-1",)
        held.look()
        held.put(node("node-1", "machine-1"))
        ask(held)
        held.reconcile(GatesKey())
        held.run(1)
        ((_name, first),) = reserved(held)
        later(PLACEMENT + 1)
        held.reconcile(GatesKey())
        ((_name, second),) = reserved(held)
        assert first != second
        assert "ResourceSlice" in held.told("NodeGivenUp")[0]
        later(PLACEMENT + 1)
        held.reconcile(GatesKey())
        assert (reserved(held), gate_names(held)) == ([], [])
        assert "the devices of the pod did not arrive on 2 nodes" in held.told("GateReleased")[0]

    def test_pass_comes_when_the_first_is_overdue(self, held: Bench) -> None:
        ask(held)
        for _unused in range(2):
            held.reconcile(GatesKey())
            key, when = held.later[-1]
            assert key == GatesKey()
            assert when == pytest.approx(time.time() + PLACEMENT, abs=5.0)

    def test_group_is_given_up_together(self, held: Bench, later: Callable[[float], None]) -> None:
        ask(held, "a", group="g", size=2)
        ask(held, "b", group="g", size=2)
        held.reconcile(GatesKey())
        held.run(1)
        held.put(objects.local_slice(str(next(iter(held.fabric.attached.values())).serial)))
        held.run(1)
        later(PLACEMENT + 1)
        held.reconcile(GatesKey())
        assert reserved(held) == []

    def test_device_that_comes_in_time_is_served(self, held: Bench, later: Callable[[float], None]) -> None:
        ask(held)
        held.reconcile(GatesKey())
        held.run(1)
        later(PLACEMENT - 10)
        held.reconcile(GatesKey())
        announce(held)
        held.run(1)
        assert gate_names(held) == []


def test_node_that_refuses_again_and_again_is_not_asked_for_ever(held: Bench) -> None:
    ask(held)
    for _unused in range(8):
        held.reconcile(GatesKey())
        (reservation,) = held.state.reservations.all()
        held.gating.ends.give_up(reservation, "refused")
    held.reconcile(GatesKey())
    assert (reserved(held), gate_names(held)) == ([], [])


class TestPassThatFails:
    """Nobody is held for ever, and no new pod is held."""

    def test_pods_are_let_go_when_no_plan_can_be_made(self, held: Bench, later: Callable[[float], None],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*args: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(controller, "plan_gated_pods", fail)
        ask(held)
        with pytest.raises(ZeroDivisionError):
            held.reconcile(GatesKey())
        assert gate_names(held) == [pods.GATE]
        assert held.gating.passes.problem() == "gated pods were not planned yet: a bug"
        later(HOLD + 1)
        with pytest.raises(ZeroDivisionError):
            held.reconcile(GatesKey())
        assert gate_names(held) == []
        assert "could not be planned for 60 s: a bug" in held.told("GateReleased")[0]

    def test_pods_are_let_go_when_the_pool_cannot_be_written(self, held: Bench, later: Callable[[float], None]) -> None:
        ask(held)
        held.api.fail("create", SLICES, Forbidden(403, "Forbidden", "slices may not be created"))
        held.reconcile(GatesKey())
        later(HOLD + 1)
        held.reconcile(GatesKey())
        assert (gate_names(held), reserved(held)) == ([], [])

    def test_gate_that_cannot_be_removed_keeps_no_other_pod_waiting(self, held: Bench) -> None:
        held.put(*foreign())
        held.api.fail("strategic_patch", PODS, ApiError(500, "InternalError", "etcd is away"))
        ask(held)
        held.reconcile(GatesKey())
        assert reserved(held) == [("train", "node-0")]
        assert any(key == GatesKey() for key, _when in held.later), "it is tried again"
        assert held.gating.passes.problem() == ""

    def test_gates_that_may_not_be_removed_are_not_set(self, held: Bench) -> None:
        held.put(*foreign())
        held.api.fail("strategic_patch", PODS, Forbidden(403, "Forbidden", "pods may not be patched"))
        held.reconcile(GatesKey())
        assert "pods may not be patched" in held.gating.passes.problem()


def test_record_of_passes() -> None:
    now = [0.0]
    record = PassRecord(lambda: now[0])
    assert record.problem() == "gated pods were not planned yet"
    record.succeeded(1.0)
    now[0] = 15.0
    record.failed("a passing trouble")
    assert (record.problem(), record.age()) == ("", 15.0)
    now[0] = 15.1
    assert record.problem() == "gated pods were last planned 15 s ago: a passing trouble"
    record.succeeded(10.0)
    now[0] = 45.0
    assert record.problem() == "", "a slow plan has its time"


class TestFirstPlanThatTakesLong:
    """A new leader reads thousands of nodes for it."""

    @pytest.fixture
    def slow(self, held: Bench, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> Bench:
        """Nodes take longer to read than a pod may wait."""
        facts = KnownNodes.facts

        def read(known: KnownNodes, state: ClusterState, of_node: Read) -> dict[str, NodeFacts]:
            later(HOLD + 1)
            return facts(known, state, of_node)

        monkeypatch.setattr(KnownNodes, "facts", read)
        return held

    def test_pod_is_not_let_go_for_that(self, slow: Bench) -> None:
        slow.fabric.free_count = 0
        slow.look()
        raw = objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=60, state="Detaching")
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        slow.put(raw)
        ask(slow)
        slow.reconcile(GatesKey())
        assert gate_names(slow) == [pods.GATE], "it waits for the device that is on its way back"

    def test_pods_are_gated_once_it_is_made(self, slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]
        monkeypatch.setattr(slow.gating, "passes", PassRecord(lambda: clock[0]))
        ask(slow)
        assert slow.gating.passes.problem() == "gated pods were not planned yet", "before, no new pod is held"
        slow.reconcile(GatesKey())
        assert (slow.gating.passes.problem(), reserved(slow)) == ("", [("train", "node-0")])


def test_new_reservation_is_looked_at_by_its_node(held: Bench) -> None:
    ask(held)
    held.reconcile(GatesKey())
    assert NodeKey("node-0") in held.keys


class TestDeviceOnItsWayBack:
    """The pods of a second burst find the fabric empty for a moment."""

    @pytest.fixture
    def leaving(self, held: Bench) -> Json:
        """A device that its node has not let go yet; the fabric has no other."""
        held.fabric.free_count = 0
        held.look()
        raw = objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=60, state="Detaching")
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        held.put(raw)
        return raw

    def test_pod_waits_and_gets_it(self, held: Bench, leaving: Json) -> None:
        ask(held)
        held.reconcile(GatesKey())
        assert (gate_names(held), reserved(held)) == ([pods.GATE], [])
        held.state.note_return(held.seen(leaving))
        held.drop(leaving)
        held.reconcile(GatesKey())
        assert gate_names(held) == [pods.GATE], "the look at the fabric is older"
        held.fabric.free_count = 1
        held.look()
        held.reconcile(GatesKey())
        assert reserved(held) == [("train", "node-0")]

    def test_pod_is_let_go_when_the_device_is_stuck(self, held: Bench, leaving: Json) -> None:
        held.put({**leaving, "status": {**leaving["status"], "error": "not detached: no agent"}})
        ask(held)
        held.reconcile(GatesKey())
        assert gate_names(held) == []

    def test_pod_is_let_go_in_the_end(self, held: Bench, leaving: Json, later: Callable[[float], None]) -> None:
        ask(held)
        held.reconcile(GatesKey())
        later(HOLD + 1)
        held.reconcile(GatesKey())
        assert gate_names(held) == []


def test_engine_notes_a_device_that_came_back(quiet: tuple[ControllerManager, Bench]) -> None:
    engine, bench = quiet
    raw = objects.resource("gpu-a", device="", asked=60, state="Deleting")
    engine.dispatch.watched("DELETED", COMPOSABLE_RESOURCES, bench.seen(raw), None)
    assert engine.state.snapshot is not None
    assert dict(returning(engine.state, engine.state.snapshot)) == {("A100 40G", 1): 1}
    bench.look()
    assert engine.state.snapshot is not None
    assert not returning(engine.state, engine.state.snapshot)


class TestNamespaceThatDidNotOptIn:
    """Anybody who may create pods there can write our gate, label and annotation into a spec."""

    @pytest.fixture
    def stranger(self, held: Bench) -> Bench:
        """The namespace has no label."""
        held.put({"apiVersion": "v1", "kind": "Namespace", "metadata": objects.meta("default")})
        return held

    def test_its_pods_are_let_go_and_nothing_is_attached(self, stranger: Bench, later: Callable[[float], None]) -> None:
        ask(stranger)
        ask(stranger, "member", group="g", size=9)
        stranger.reconcile(GatesKey())
        assert reserved(stranger) == []
        later(2.1)
        stranger.reconcile(GatesKey())
        assert (gate_names(stranger), gate_names(stranger, "member"), reserved(stranger)) == ([], [], [])
        assert stranger.told("GateReleased")[0] == "namespace default has no label composable.infra/gated=true"

    def test_label_that_comes_after_the_pod_counts(self, stranger: Bench) -> None:
        ask(stranger)
        stranger.reconcile(GatesKey())
        assert gate_names(stranger) == [pods.GATE]
        stranger.put({"apiVersion": "v1", "kind": "Namespace", "metadata": opted_in("default")})
        stranger.reconcile(GatesKey())
        assert reserved(stranger) == [("train", "node-0")]

    def test_configuration_counts_too(self, stranger: Bench) -> None:
        stranger.state.settings = replace(stranger.settings, handover_namespaces={"default": "gated"}, _by_pool={},
                                          _by_cdi={})
        ask(stranger)
        stranger.reconcile(GatesKey())
        assert reserved(stranger) == [("train", "node-0")]


class TestGateThatStays:
    """It was to be removed, and the pod has it still."""

    def test_error_that_nobody_expects_is_followed_by_another_turn(self, held: Bench, monkeypatch: pytest.MonkeyPatch
                                                                   ) -> None:
        def ungate(_writer: PodWriter, _pod: PodRef) -> bool:
            monkeypatch.undo()
            raise KeyError("metadata")

        ask(held)
        held.reconcile(GatesKey())
        held.run(1)
        announce(held)
        monkeypatch.setattr(PodWriter, "ungate", ungate)
        with pytest.raises(KeyError):
            held.reconcile(NodeKey("node-0"))
        assert gate_names(held) == [pods.GATE]
        held.reconcile(NodeKey("node-0"))
        assert (gate_names(held), len(held.fabric.attaches)) == ([], 1)

    def test_pod_is_planned_again_when_its_time_is_over(self, held: Bench, later: Callable[[float], None]) -> None:
        ask(held)
        held.reconcile(GatesKey())
        held.state.reservations.make_ready("pod-train")
        held.state.reservations.take_ready(dict)
        held.reconcile(GatesKey())
        assert held.told("NodeGivenUp") == []
        later(PLACEMENT)
        held.reconcile(GatesKey())
        assert len(held.told("NodeGivenUp")) == 1
