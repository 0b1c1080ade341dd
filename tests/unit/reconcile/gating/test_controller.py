# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Held pods on a fake cluster: a node is chosen, devices leave the pool and are attached, the gate opens."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.gate_opener import GateOpener
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.runtime.threads import Stopped
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    announce,
    ask,
    claim,
    gate_names,
    pod,
    reserved,
    serve,
    young,
)


def test_burst_of_pods_is_planned_at_its_end(held: Bench) -> None:
    ask(held)
    held.gating.pod_changed(Change("ADDED", PODS, pods.read(pod("train")), None))
    held.reconcile(GatesKey())
    assert (reserved(held), [key for key, _when in held.later]) == ([], [GatesKey(), GatesKey()])
    held.wait(lambda: time.time() > held.later[-1][1], "the end of the burst")
    held.reconcile(GatesKey())
    assert reserved(held) == [("train", "node-0")]


@pytest.mark.parametrize(("took", "ago", "rest"), [
    (1.0, 0.0, 2.0), (1.0, 0.5, 1.5), (1.0, 60.0, 0.0), (0.05, 0.0, 0.0),
], ids=["at once", "a moment ago", "a minute ago", "a plan of few nodes"])
def test_after_a_plan_of_many_nodes_others_work_for_twice_as_long(held: Bench, took: float, ago: float, rest: float
                                                                  ) -> None:
    """A pod that was bound would have all that wait planned anew at once; in a burst one follows the other."""
    ask(held)
    held.reconcile(GatesKey())
    held.gating._took, held.gating._planned = took, time.monotonic() - ago
    now, before = time.time(), len(held.later)
    held.gating.node_changed("node-0")
    held.gating.ends.forget(held.state.reservations.all()[0].placement.pod.uid)
    moments = [when - now for key, when in held.later[before:] if key == GatesKey()]
    assert moments == [pytest.approx(rest, abs=0.24)] * 2


def test_device_leaves_the_pool_before_it_is_asked_for(held: Bench) -> None:
    ask(held)
    held.reconcile(GatesKey())
    (pool,) = [s for s in held.api.of(SLICES) if s["spec"]["pool"]["name"] == "a100-fabric1"]
    assert len(pool["spec"]["devices"]) == 3
    assert held.fabric.attaches == []


def test_pool_that_cannot_be_written_books_nothing(held: Bench) -> None:
    ask(held)
    held.api.fail("create", SLICES, Forbidden(403, "Forbidden", "slices may not be created"))
    held.reconcile(GatesKey())
    assert reserved(held) == []
    assert any(key == GatesKey() for key, _when in held.later)
    held.api.heal()
    held.reconcile(GatesKey())
    assert reserved(held) == [("train", "node-0")]


def test_device_is_held_for_the_pods_claim(held: Bench) -> None:
    ask(held)
    serve(held)
    (resource,) = node_snapshot(held.state, "node-0").resources
    assert (resource.held_for, resource.hold_alive) == ("uid-train", True)


def test_idle_device_is_used_before_one_is_attached(held: Bench) -> None:
    held.put(objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=60, state="Online"), objects.request(),
             objects.local_slice("GPU-d9"))
    ask(held)
    held.reconcile(GatesKey())
    held.run(1)
    assert held.fabric.attaches == []
    assert gate_names(held) == []


def test_several_devices_of_one_claim_are_attached_together(held: Bench) -> None:
    ask(held, count=3)
    serve(held)
    assert (len(held.fabric.attaches), gate_names(held)) == (3, [])


def test_pod_that_cannot_be_served_is_let_go_with_the_reason(held: Bench) -> None:
    ask(held, count=5)
    held.reconcile(GatesKey())
    assert (gate_names(held), reserved(held)) == ([], [])
    assert "0/1 nodes" in held.told("GateReleased")[0]
    assert held.metrics.get("gate_released_total", reason="unserved") == 1


def test_pod_that_cannot_be_judged_is_let_go(held: Bench) -> None:
    held.put(claim("train", cel='device.attributes["other.example"].size > 3'), pod("train"))
    held.reconcile(GatesKey())
    assert gate_names(held) == []
    assert held.metrics.get("gate_released_total", reason="not_judged") == 1


def test_pod_without_its_claim_yet_is_held(held: Bench) -> None:
    held.put(young("train"))
    held.reconcile(GatesKey())
    assert (gate_names(held), reserved(held)) == ([pods.GATE], [])
    assert held.gating.wait_reasons


def test_gate_of_somebody_else_is_left_alone(held: Bench) -> None:
    held.put(claim("train"), pod("train", "other.example/gate", pods.GATE))
    held.reconcile(GatesKey())
    assert (gate_names(held), reserved(held)) == (["other.example/gate", pods.GATE], [])


def test_namespace_with_another_handover_is_let_go(held: Bench) -> None:
    held.state.settings = replace(held.settings, handover_namespaces={"default": "reschedule"}, _by_pool={}, _by_cdi={})
    ask(held)
    held.reconcile(GatesKey())
    assert gate_names(held) == []
    assert held.told("GateReleased") == ["namespace default has the handover reschedule, not gated"]


def test_refused_attach_gives_the_node_up(held: Bench) -> None:
    ask(held)
    held.fabric.answers = [Refused("E02: out of order")]
    held.reconcile(GatesKey())
    held.run(2)
    assert reserved(held) == []
    assert "E02: out of order" in held.told("NodeGivenUp")[0]
    assert any(key == GatesKey() for key, _when in held.later)


def test_group_opens_together(held: Bench) -> None:
    ask(held, "a", group="g", size=2)
    held.reconcile(GatesKey())
    assert reserved(held) == []
    ask(held, "b", group="g", size=2)
    serve(held)
    assert (gate_names(held, "a"), gate_names(held, "b")) == ([], [])


def test_group_gives_up_together(held: Bench) -> None:
    ask(held, "a", group="g", size=2)
    ask(held, "b", group="g", size=2)
    held.fabric.answers = [Refused("E02: out of order")]
    held.reconcile(GatesKey())
    assert len(reserved(held)) == 2
    held.run(2)
    assert reserved(held) == []


def test_gate_that_cannot_be_removed_is_tried_again(held: Bench) -> None:
    ask(held)
    held.api.fail("strategic_patch", PODS, ApiError(500, "InternalError", "etcd is away"))
    serve(held)
    assert gate_names(held) == [pods.GATE]
    held.api.heal()
    held.run(1)
    assert (gate_names(held), len(held.fabric.attaches)) == ([], 1)


def test_pod_that_went_away_meanwhile_frees_its_device(held: Bench) -> None:
    ask(held)
    held.reconcile(GatesKey())
    held.run(1)
    held.drop(pod("train"))
    announce(held)
    held.run(1)
    assert reserved(held) == []
    assert not node_snapshot(held.state, "node-0").resources[0].hold_alive


def test_a_pass_that_the_end_cut_short_did_not_fail(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(held)

    def ended(self: GateOpener) -> None:
        raise Stopped("the rest was not begun")

    monkeypatch.setattr(GateOpener, "open_ready", ended)
    with pytest.raises(Stopped):
        held.gating.reconcile(GatesKey())
    assert held.gating.passes.problem() == "gated pods were not planned yet"
