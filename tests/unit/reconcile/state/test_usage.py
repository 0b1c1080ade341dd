# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each namespace has of the fabric, and which claims of the pools are beyond its quota."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import FAILED_CONDITION
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.usage import usage
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    allocated,
    ask,
    bind,
    gate_names,
    reserved,
    serve,
)


@pytest.fixture
def bounded(held: Bench) -> Bench:
    """Each namespace may have two A100s."""
    shares = Shares({"*": {A100: 2}})
    held.settings = held.state.settings = replace(held.settings, shares=shares, _by_pool={}, _by_cdi={})
    return held


def test_device_counts_once_from_the_choice_to_its_use(held: Bench) -> None:
    assert usage(held.state) == {}
    ask(held, count=2)
    held.reconcile(GatesKey())
    assert usage(held.state) == {("default", A100): 2}
    serve(held)
    assert usage(held.state) == {("default", A100): 2}
    used = allocated("train", "gpu-0")
    held.put(used)
    held.run(1)
    bind(held, "train")
    assert usage(held.state) == {("default", A100): 1}, "the claim was given one device only"


def test_held_pod_waits_for_its_namespaces_quota(bounded: Bench) -> None:
    ask(bounded, "a")
    ask(bounded, "b")
    bounded.reconcile(GatesKey())
    ask(bounded, "c")
    bounded.reconcile(GatesKey())
    assert gate_names(bounded, "c")
    assert [name for name, _node in reserved(bounded)] == ["a", "b"]
    assert "namespace_quotas" in bounded.gating.wait_reasons[0].waits_for


def test_claim_of_a_pool_is_refused_beyond_it(bounded: Bench) -> None:
    """The oldest come first, wherever they are."""
    for number in range(3):
        bounded.put(objects.claim(f"c{number}", objects.pool_result(device=f"d{number}")))
    over = node_snapshot(bounded.state, "node-0").over_quota
    assert list(over) == ["uid-c2"]
    bounded.reconcile(NodeKey("node-0"))
    assert len(bounded.fabric.attaches) <= 2
    bounded.idle()
    (device,) = bounded.api.one(CLAIMS, "c2", "default")["status"]["devices"]
    assert [condition["type"] for condition in device["conditions"]] == [FAILED_CONDITION]
    assert "namespace_quotas" in device["conditions"][0]["message"]
