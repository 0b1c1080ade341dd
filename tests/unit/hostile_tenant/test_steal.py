# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to have devices that are somebody else's. None works."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey
from ansible_collections.composable.infra.tests.unit.hostile_tenant.tenants import (
    RED,
    gates_of_red,
    red_asks,
    reds,
    serve_all,
)
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
from ansible_collections.composable.infra.tests.unit.reconcile.state.device_holds_support import (
    kept,
    visible,
)


def test_way_10_takes_the_device_that_is_kept_for_another(bench: Bench) -> None:
    visible(bench, "a", "b")
    bench.put(reds(objects.claim("evil")), objects.claim("train"))
    bench.state.holds.keep("a", "uid-evil")
    bench.state.holds.keep("b", "uid-train")
    bench.put(reds(objects.claim("evil", objects.local_result("gpu-1"))))
    assert kept(bench) == {"a": "train"}, "its own is left to the other"


def test_way_11_shares_one_claim_among_many_pods(both: Bench) -> None:
    """Each would have the devices of the claim attached once more."""
    both.put(reds(claim("evil")))
    for number in range(5):
        raw = reds(pod(f"evil-{number}"))
        raw["spec"]["resourceClaims"][0]["resourceClaimName"] = "evil"
        both.put(raw)
    both.reconcile(GatesKey())
    both.run(1)
    assert both.fabric.attaches == []
    assert gates_of_red(both, "evil-0") == []


def test_way_12_makes_its_claim_larger_after_the_choice(both: Bench) -> None:
    """By deleting it and creating another one of that name."""
    red_asks(both)
    both.reconcile(GatesKey())
    both.drop(reds(claim("evil")))
    larger = reds(claim("evil", 4))
    larger["metadata"]["uid"] = "uid-larger"
    both.put(larger)
    serve_all(both)
    assert both.state.holds.kept_for("uid-larger") == []
    assert len(both.fabric.attaches) == 1


def test_way_13_asks_for_the_devices_of_others_as_an_administrator(both: Bench) -> None:
    raw = reds(claim("evil"))
    raw["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    both.put(raw, reds(pod("evil")))
    both.reconcile(GatesKey())
    both.run(1)
    assert (both.fabric.attaches, gates_of_red(both)) == ([], [])
    used = objects.claim("evil", {**objects.local_result(), "adminAccess": True})
    both.put(objects.local_slice("GPU-a"), objects.resource("gpu-a", device="a", serial="GPU-a"), reds(used))
    assert both.state.users("node-0") == {}, "the device counts as nobody's"


def test_way_14_gets_by_its_quota_through_the_pool(both: Bench) -> None:
    """A pod that opts out of the gate has its claim allocated to a device of a pool."""
    shares = Shares({RED: {A100: 1}})
    both.settings = both.state.settings = replace(both.settings, shares=shares, _by_pool={}, _by_cdi={})
    for number in range(3):
        both.put(reds(objects.claim(f"evil-{number}", objects.pool_result(f"a100-{number}"), age=9 - number)))
    both.reconcile(NodeKey("node-0"))
    both.idle()
    assert len(both.fabric.attaches) <= 1
    refused = [both.api.one(CLAIMS, f"evil-{n}", RED)["status"].get("devices") for n in range(3)]
    assert [bool(each) for each in refused] == [False, True, True]
    ask(both)
    both.reconcile(GatesKey())
    assert reserved(both) == [("train", "node-0")]
    assert gate_names(both)
