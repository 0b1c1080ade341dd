# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bookings from the choice of a node to the open gate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import Placement
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.reservations import (
    OPEN,
    RESERVED,
    Reservations,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, settings


def placement(name: str = "a", node: str = "node-0", group: str = "",
              needs: dict[str, int] | None = None) -> Placement:
    """A booking of one claim, by default for one A100."""
    return Placement(PodRef("ns", name, f"pod-{name}"), node, {f"claim-{name}": needs or {A100: 1}}, 5.0,
                     {"metadata": {"name": name, "namespace": "ns"}, "spec": {}}, group=group)


def claims(found: Reservations, node: str = "node-0") -> list[str]:
    """Claims that wait on a node."""
    return [c.name for c in found.claims(node, 1, settings(), lambda uid: uid)]


def ready(found: Reservations, *names: str) -> list[str]:
    """Pods whose gates may be opened once these have their devices, too."""
    for name in names:
        found.make_ready(f"pod-{name}")
    return sorted(b.pod.name for b in found.take_ready(lambda: {"ns": {}}))


def test_claims_wait_on_their_node_once_reserved() -> None:
    found, one = Reservations(), placement()
    found.add([one])
    assert claims(found) == []
    found.reserve([one])
    assert (claims(found), claims(found, "node-1")) == (["claim-a"], [])
    (claim,) = found.claims("node-0", 1, settings(), lambda uid: uid)
    assert (claim.phase, claim.need(), claim.pods, claim.allocated_at) == ("gated", {A100: 1}, (one.pod,), 5.0)


def test_ready_pod_waits_for_nothing_more() -> None:
    found = Reservations()
    found.add([placement()], RESERVED)
    assert ready(found, "a") == ["a"]
    assert claims(found) == []
    assert ready(found, "a") == []


def test_gate_that_could_not_be_removed() -> None:
    found = Reservations()
    found.add([placement()], RESERVED)
    assert ready(found, "a") == ["a"]
    found.not_ready("pod-a")
    assert claims(found) == ["claim-a"]
    assert ready(found, "a") == ["a"]


def test_group_goes_when_the_last_of_it_is_ready() -> None:
    found = Reservations()
    found.add([placement("a", group="ns/g"), placement("b", "node-1", group="ns/g"), placement("c")], RESERVED)
    assert ready(found, "a") == []
    assert ready(found, "b") == ["a", "b"]


def test_chosen_member_keeps_its_group_waiting() -> None:
    found, late = Reservations(), placement("b", group="ns/g")
    found.add([placement("a", group="ns/g")], RESERVED)
    found.add([late])
    assert ready(found, "a") == []
    found.reserve([late])
    assert ready(found, "b") == ["a", "b"]


def test_member_that_went_before_is_not_waited_for() -> None:
    found = Reservations()
    found.add([placement("a", group="ns/g"), placement("b", group="ns/g")], RESERVED)
    found.opened("pod-a")
    assert ready(found, "b") == ["b"]
    reservation = found.get("pod-a")
    assert reservation is not None
    assert reservation.phase == OPEN


def test_dropped_booking_is_forgotten() -> None:
    found = Reservations()
    found.add([placement()], RESERVED)
    assert found.holds_for("claim-a")
    dropped = found.drop("pod-a")
    assert dropped is not None
    assert dropped.pod.name == "a"
    assert not found.holds_for("claim-a")
    assert (found.get("pod-a"), found.all(), claims(found), found.drop("pod-a")) == (None, [], [], None)


def test_what_is_wanted_where() -> None:
    found = Reservations()
    found.add([placement("a", needs={A100: 2}), placement("b", "node-1", needs={A100: 1, H100: 1}), placement("c")],
              RESERVED)
    assert (found.wanted(A100), found.wanted(H100)) == ({"node-0": 3, "node-1": 1}, {"node-1": 1})


def test_nothing_happens_to_a_pod_without_a_reservation() -> None:
    found = Reservations()
    found.opened("pod-x")
    found.not_ready("pod-x")
    found.reserve([placement("x")])
    assert (ready(found, "x"), found.group(""), found.all()) == ([], [], [])


def particular(name: str, **spec: object) -> Placement:
    """A booking of a pod labelled ``app=x`` that has more to say about its neighbours."""
    raw = {"metadata": {"name": name, "namespace": "ns", "labels": {"app": "x"}}, "spec": spec}
    return replace(placement(name), raw=raw)


SELECTED = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
SPREAD = {"topologySpreadConstraints": [{**SELECTED, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}
NEAR = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELECTED]}}}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELECTED]}}}


@pytest.mark.parametrize(("first", "second", "waits"), [
    ({}, {}, False), ({}, SPREAD, True), (SPREAD, {}, True), ({}, NEAR, True), (NEAR, {}, False), (APART, APART, False),
], ids=["plain", "spread after", "spread before", "near after", "near before", "apart"])
def test_pod_waits_for_those_it_was_planned_after(first: dict[str, object], second: dict[str, object],
                                                  waits: bool) -> None:
    found = Reservations()
    found.add([particular("a", **first), particular("b", **second)], RESERVED)
    assert ready(found, "b") == ([] if waits else ["b"])
    assert ready(found, "a") == ["a"], "whoever was planned first waits for nobody"
    assert ready(found) == []
    found.drop("pod-a")
    assert ready(found) == (["b"] if waits else [])


@pytest.mark.parametrize(("first", "second", "elsewhere", "hinders"), [
    ({}, {}, False, False), (SPREAD, {}, False, True), ({}, SPREAD, False, True), (SPREAD, {}, True, False),
], ids=["plain", "one that is spread", "spread itself", "on another node"])
def test_pod_is_in_the_way_of_one_planned_before_it_on_its_node(first: dict[str, object], second: dict[str, object],
                                                                elsewhere: bool, hinders: bool) -> None:
    found, late = Reservations(), particular("b", **second)
    found.add([particular("a", **first), replace(late, node="node-9") if elsewhere else late], RESERVED)
    assert found.in_the_way("pod-b", dict) == hinders
    assert not found.in_the_way("pod-a", dict), "whoever was planned first is in nobody's way"
    found.drop("pod-a")
    assert not found.in_the_way("pod-b", dict), "the other is bound"
