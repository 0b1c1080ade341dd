# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to hold up what is not the tenant's own: other pods, nodes and devices. None works."""

from __future__ import annotations

import time

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.hostile_tenant.tenants import (
    gates_of_red,
    opened,
    red_asks,
    reds,
    serve_all,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.tenants import test_poison
from ansible_collections.composable.infra.tests.unit.planning.scheduling.tenants.poison_support import (
    POISON,
)
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    ask,
    claim,
    node,
    pod,
    reserved,
)
from ansible_collections.composable.infra.tests.unit.reconcile.gating.gate_ends_support import (
    REFUSED,
)


@pytest.mark.parametrize("size", ["1" * 4301, "-1", "1e9", "", "9999"])
def test_way_01_writes_a_group_size_that_cannot_be_read(both: Bench, size: str) -> None:
    ask(both)
    evil = reds(pod("evil", group="g"), **{pods.GROUP_SIZE: size})
    both.put(reds(claim("evil")), evil)
    both.reconcile(GatesKey())
    assert reserved(both) == [("train", "node-0")]
    assert gates_of_red(both) == []
    assert both.gating.passes.problem() == ""


@pytest.mark.parametrize("what", [name for name in POISON if "digits" in name or "chain" in name])
def test_way_02_writes_a_selector_that_is_too_long_to_read(what: str) -> None:
    test_poison.test_selector_of_one_pod_stops_no_other(POISON[what])


@pytest.mark.parametrize("what", [name for name in POISON if "pattern" in name])
def test_way_03_writes_a_pattern_that_is_searched_for_for_ever(what: str) -> None:
    test_poison.test_selector_of_one_pod_stops_no_other(POISON[what])


def test_way_04_gates_pods_in_a_namespace_that_did_not_opt_in(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(held)
    red_asks(held)
    held.reconcile(GatesKey())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3)
    held.reconcile(GatesKey())
    assert reserved(held) == [("train", "node-0")]
    assert gates_of_red(held) == []


def test_way_05_has_devices_wait_for_a_group_that_is_never_complete(both: Bench) -> None:
    for number in range(3):
        red_asks(both, f"evil-{number}", group="g", size=256)
    ask(both, count=4)
    serve_all(both)
    assert opened(both)
    assert len(both.fabric.attaches) == 4, "it got all that there are"


def test_way_06_joins_the_group_of_another_tenant(both: Bench) -> None:
    """With a larger size the others would wait for ever; with the same they would start without one of their own."""
    ask(both, "a", group="g", size=2)
    red_asks(both, group="g", size=2)
    both.reconcile(GatesKey())
    assert reserved(both) == []
    ask(both, "b", group="g", size=2)
    red_asks(both, "more", group="g", size=9999)
    serve_all(both)
    assert (opened(both, "a"), opened(both, "b")) == (True, True)


def test_way_07_keeps_devices_for_a_pod_that_has_another_gate(both: Bench) -> None:
    both.put(reds(claim("evil", 4)), reds(pod("evil", pods.GATE, "red.example/never")))
    ask(both, count=4)
    serve_all(both)
    assert opened(both)


@pytest.mark.usefixtures("impatient")
def test_way_08_makes_its_pod_unfit_once_the_devices_are_there(both: Bench) -> None:
    """A node selector may be added while a pod is held; the scheduler then finds no node for it."""
    red_asks(both, count=4)
    both.reconcile(GatesKey())
    raw = both.api.one(PODS, "evil", "red")
    both.put({**raw, "spec": {**raw["spec"], "nodeSelector": {"no": "where"}}})
    serve_all(both)
    before = both.api.one(PODS, "evil", "red")
    after = {**before, "status": {**before["status"], "conditions": REFUSED}}
    both.put(after)
    both.gating.pod_changed(Change("MODIFIED", PODS, pods.read(after), pods.read(before)))
    both.reconcile(GatesKey())
    assert reserved(both) == []
    assert not any(r.hold_alive for r in node_snapshot(both.state, "node-0").resources)
    ask(both, count=4)
    both.reconcile(GatesKey())
    both.run(1)
    assert opened(both)
    assert len(both.fabric.attaches) == 4, "the same devices serve the other"


def test_way_09_is_refused_by_node_after_node(both: Bench) -> None:
    """Each time its devices would be asked for anew."""
    both.put(node("node-1", "machine-1"))
    both.fabric.others = ("machine-1",)
    both.look()
    red_asks(both)
    for _unused in range(9):
        both.reconcile(GatesKey())
        for reservation in both.state.reservations.all():
            both.gating.ends.give_up(reservation, "refused")
    both.reconcile(GatesKey())
    assert (reserved(both), gates_of_red(both)) == ([], [])
