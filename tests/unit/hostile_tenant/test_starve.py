# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to leave nothing for the others. None works where the administrator has set quotas and rates."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.hostile_tenant.tenants import (
    opened,
    red_asks,
    reds,
    serve_all,
    show,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.planning.scheduling.tenants import test_fairness
from ansible_collections.composable.infra.tests.unit.planning.scheduling.tenants.test_fairness import TestTurn as Turn
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    ask,
    claim,
    pod,
    reserved,
)


def sharing(bench: Bench, shares: Shares) -> None:
    """Settings with these shares."""
    bench.settings = bench.state.settings = replace(bench.settings, shares=shares, _by_pool={}, _by_cdi={})


def test_way_15_asks_for_all_devices(both: Bench) -> None:
    sharing(both, Shares({"*": {A100: 2}}))
    for number in range(9):
        red_asks(both, f"evil-{number}")
    both.reconcile(GatesKey())
    ask(both)
    both.reconcile(GatesKey())
    names = [name for name, _node in reserved(both)]
    assert len(names) == 3
    assert "train" in names


def test_way_16_has_devices_attached_without_pause(both: Bench) -> None:
    sharing(both, Shares(attaches={"*": 2}))
    for number in range(9):
        red_asks(both, f"evil-{number}")
    both.reconcile(GatesKey())
    ask(both)
    both.reconcile(GatesKey())
    assert sorted(name.partition("-")[0] for name, _node in reserved(both)) == ["evil", "evil", "train"]


def test_way_17_has_old_pods_wait_before_everybody_else() -> None:
    Turn().test_old_pods_of_one_namespace_do_not_go_before_all_others()


def test_way_18_gives_itself_the_priority_of_the_system() -> None:
    Turn().test_priority_is_bounded_as_that_of_users_is()


def test_way_19_has_idle_devices_of_many_models_withheld() -> None:
    test_fairness.test_one_namespace_withholds_devices_for_one_entry_only()


def test_way_20_creates_and_deletes_pods_again_and_again(both: Bench) -> None:
    """What came for the first is used by the next; the manager is not asked again."""
    for number in range(5):
        red_asks(both, f"evil-{number}")
        serve_all(both)
        both.drop(reds(pod(f"evil-{number}")), reds(claim(f"evil-{number}")))
        for reservation in both.state.reservations.all():
            raw = reds(pod(reservation.placement.pod.name))
            both.gating.pod_changed(Change("DELETED", PODS, pods.read(raw), pods.read(raw)))
        both.run(1)
        assert opened(both, f"evil-{number}", "red")
    assert len(both.fabric.attaches) == 1
    assert both.fabric.detaches == []


def test_way_21_keeps_deleted_pods_by_a_finalizer(both: Bench) -> None:
    red_asks(both, count=4)
    both.reconcile(GatesKey())
    both.run(1)
    show(both)
    raw = reds(pod("evil"))
    gone = {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z",
                                "finalizers": ["red.example/never"]}}
    both.put(gone)
    both.gating.pod_changed(Change("MODIFIED", PODS, pods.read(gone), pods.read(raw)))
    assert reserved(both) == []
    assert not any(r.hold_alive for r in node_snapshot(both.state, "node-0").resources)
    ask(both, count=4)
    serve_all(both)
    assert opened(both)
    assert len(both.fabric.attaches) == 4, "the same devices"
