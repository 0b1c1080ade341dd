# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who belongs to a group, when it is complete, and that it is served whole whatever the handover of its models is."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.queue import SIZE_RULE
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, PoolKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    announce,
    ask,
    choose,
    claim,
    gate_names,
    pod,
    reserved,
)

Json = dict[str, t.Any]


def member(name: str, job: str = "run", **status: t.Any) -> Json:
    """A held pod of a Job of two pods."""
    raw = pod(name, group=pods.OF_JOB, size=2)
    raw["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}",
                                           "controller": True}]
    return raw | ({"status": status} if status else {})


def pool_size(bench: Bench) -> int:
    """Devices that the pool shows."""
    (pool,) = [s for s in bench.api.of(SLICES) if s["spec"]["pool"]["name"] == "a100-fabric1"]
    return len(pool["spec"]["devices"])


def left(raw: Json) -> Json:
    """The same without its gate."""
    return {**raw, "spec": {**raw["spec"], "schedulingGates": []}}


def test_label_without_a_size_is_told(held: Bench) -> None:
    raw = pod("train", group="g", size=1)
    del raw["metadata"]["annotations"]
    held.put(claim("train"), raw)
    held.reconcile(GatesKey())
    assert gate_names(held) == []
    assert held.told("GateReleased") == [f"group default/g has no valid size: {SIZE_RULE}"]


def test_pods_of_a_job_wait_for_each_other_and_not_for_another_run(held: Bench) -> None:
    held.put(claim("a"), member("a"), claim("b"), member("b", job="later"))
    held.reconcile(GatesKey())
    assert reserved(held) == []
    held.put(claim("c"), member("c"))
    held.reconcile(GatesKey())
    assert [name for name, _node in reserved(held)] == ["a", "c"]


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_restarted_pod_of_a_job_does_not_wait_for_ever(held: Bench, phase: str) -> None:
    held.put(left(member("done", phase=phase)), left(member("lost", phase="Failed")), claim("again"), member("again"))
    held.reconcile(GatesKey())
    assert [name for name, _node in reserved(held)] == ["again"]


def test_job_whose_pods_all_failed_is_complete_anew_before_it_is_served(held: Bench) -> None:
    held.put(left(member("x", phase="Failed")), left(member("y", phase="Failed")), claim("a"), member("a"))
    held.reconcile(GatesKey())
    assert reserved(held) == []


def test_launcher_without_claims_starts_no_group(held: Bench) -> None:
    launcher = left(pod("launcher", group="g", size=3))
    launcher["spec"] = {**launcher["spec"], "resourceClaims": []}
    held.put(launcher)
    ask(held, "a", group="g", size=3)
    held.reconcile(GatesKey())
    assert reserved(held) == []
    ask(held, "b", group="g", size=3)
    held.reconcile(GatesKey())
    assert [name for name, _node in reserved(held)] == ["a", "b"]


def test_group_is_held_though_the_model_is_direct_and_a_single_pod_is_not(held: Bench) -> None:
    held.state.settings = replace(held.settings, handover_models={A100: "direct"}, _by_pool={}, _by_cdi={})
    ask(held, "alone")
    ask(held, "a", group="g", size=2)
    ask(held, "b", group="g", size=2)
    choose(held)
    shown = pool_size(held)
    held.run(1)
    held.reconcile(PoolKey(A100, 1))
    assert (shown, pool_size(held)) == (2, 2), "what was asked for is taken off once"
    announce(held)
    held.run(1)
    assert held.told("GateReleased") == ["claim alone, request r: no model of device_info satisfies it"]
    assert len(held.told("GateOpened")) == 2
