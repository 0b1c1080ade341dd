# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of nodes, devices apart: taints, selectors, affinity, room, host ports."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.node_affinity import (
    node_selector_term_matches,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.taint_toleration import (
    tolerates,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.label_selector import (
    selects,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    assumed,
    gated,
    node,
    nodes_by_pod,
    plan,
    raw_pod,
    release,
)

Json = dict[str, t.Any]
LABELS = {"zone": "a", "cores": "64", "empty": ""}


def needs(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(("expression", "holds"), [
    (needs("zone", "In", "a", "b"), True), (needs("zone", "In", "b"), False), (needs("gone", "In", "a"), False),
    (needs("zone", "NotIn", "b"), True), (needs("zone", "NotIn", "a"), False), (needs("gone", "NotIn", "a"), True),
    (needs("zone", "Exists"), True), (needs("gone", "Exists"), False), (needs("empty", "Exists"), True),
    (needs("zone", "DoesNotExist"), False), (needs("gone", "DoesNotExist"), True), (needs("cores", "Gt", "63"), True),
    (needs("cores", "Gt", "64"), False), (needs("cores", "Lt", "65"), True), (needs("cores", "Lt", "64"), False),
    (needs("zone", "Gt", "1"), False), (needs("gone", "Gt", "1"), False), (needs("cores", "Gt", "x"), False),
    (needs("zone", "Unheard"), False), (needs("empty", "In", ""), True)])
def test_requirement(expression: Json, holds: bool) -> None:
    assert node_selector_term_matches({"matchExpressions": [expression]}, "n", LABELS) is holds


@pytest.mark.parametrize(("term", "holds"), [
    ({}, False), ({"matchExpressions": []}, False), ({"matchFields": [needs("metadata.name", "In", "n")]}, True),
    ({"matchFields": [needs("metadata.name", "In", "m")]}, False),
    ({"matchFields": [needs("metadata.name", "NotIn", "m")]}, True),
    ({"matchFields": [needs("metadata.name", "In", "n")], "matchExpressions": [needs("zone", "In", "b")]}, False),
    ({"matchExpressions": [needs("zone", "In", "a"), needs("gone", "Exists")]}, False)])
def test_node_selector_term(term: Json, holds: bool) -> None:
    assert node_selector_term_matches(term, "n", LABELS) is holds


@pytest.mark.parametrize(("selector", "holds"), [
    (None, False), ({}, True), ({"matchLabels": {"zone": "a"}}, True), ({"matchLabels": {"zone": "b"}}, False),
    ({"matchLabels": {"zone": "a"}, "matchExpressions": [needs("gone", "Exists")]}, False),
    ({"matchExpressions": [needs("zone", "In", "a"), needs("gone", "DoesNotExist")]}, True)])
def test_label_selector(selector: Json | None, holds: bool) -> None:
    assert selects(selector, LABELS) is holds


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(("toleration", "tolerated"), [
    ({"key": "gpu", "value": "yes"}, True), ({"key": "gpu", "operator": "Equal", "value": "no"}, False),
    ({"key": "gpu", "operator": "Exists"}, True), ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True), ({"operator": "Exists"}, True),
    ({"key": "cpu", "operator": "Exists"}, False), ({"key": "gpu"}, False), ({"value": "yes"}, True),
    ({"key": "gpu", "operator": "Gt", "value": "1"}, False)])
def test_toleration(toleration: Json, tolerated: bool) -> None:
    assert tolerates(toleration, TAINT) is tolerated


def required(*terms: Json) -> Json:
    """Required node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expressions(*listed: Json) -> Json:
    return {"matchExpressions": list(listed)}


ZONE_A, ZONE_B = expressions(needs("zone", "In", "a")), expressions(needs("zone", "In", "b"))
PREFERRED = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": ZONE_B}]}}
TOLERATION = {"key": "gpu", "operator": "Exists"}
FULL = raw_pod("full", cpu="7500m")
PORT: Json = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}

CASES: list[tuple[NodeFacts, Json, str]] = [
    (node("n"), {}, ""),
    (node("n", taints=[TAINT]), {}, "had untolerated taint {gpu: yes}"),
    (node("n", taints=[TAINT]), {"tolerations": [TOLERATION]}, ""),
    (node("n", taints=[{**TAINT, "effect": "NoExecute"}]), {}, "had untolerated taint {gpu: yes}"),
    (node("n", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, ""),
    (node("n", taints=[TAINT, {"key": "x", "effect": "NoSchedule"}]), {"tolerations": [TOLERATION]},
     "had untolerated taint {x: }"),
    (node("n", unschedulable=True), {}, "were unschedulable"),
    (node("n", unschedulable=True),
     {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}, ""),
    (node("n", labels={"zone": "a"}), {"nodeSelector": {"zone": "a"}}, ""),
    (node("n", labels={"zone": "b"}), {"nodeSelector": {"zone": "a"}}, "didn't match the pod's node affinity/selector"),
    (node("n"), {"nodeSelector": {"zone": "a"}}, "didn't match the pod's node affinity/selector"),
    (node("n", labels={"zone": "a"}), {"affinity": required(ZONE_A)}, ""),
    (node("n", labels={"zone": "a"}), {"affinity": required(ZONE_B)}, "didn't match the pod's node affinity/selector"),
    (node("n", labels={"zone": "a"}), {"affinity": required(ZONE_B, ZONE_A)}, ""),
    (node("n", labels={"zone": "a"}), {"affinity": required()}, "didn't match the pod's node affinity/selector"),
    (node("n", labels={"zone": "a"}), {"affinity": PREFERRED}, ""),
    (node("n", labels={"zone": "a"}), {"affinity": required(ZONE_A), "nodeSelector": {"zone": "b"}},
     "didn't match the pod's node affinity/selector"),
    (node("n", FULL), {"cpu": "500m"}, ""), (node("n", FULL), {"cpu": "501m"}, "Insufficient cpu"),
    (node("n", FULL), {"cpu": ""}, ""), (node("n", FULL, FULL), {"cpu": ""}, ""),
    (node("n", FULL), {"cpu": "", "overhead": {"cpu": "1"}}, "Insufficient cpu"),
    (node("n", raw_pod("a"), allocatable={"pods": "1"}), {}, "Too many pods"),
    (node("n", raw_pod("a"), allocatable={"pods": "2"}), {}, ""),
    (node("n"), {"containers": [{"name": "c", "resources": {"requests": {"x.io/y": "1"}}}]}, "Insufficient x.io/y"),
    (node("n"), {"containers": [{"name": "c", "resources": {"requests": {"x.io/y": "0"}}}]}, ""),
    (node("n", allocatable={"x.io/y": "1"}),
     {"containers": [{"name": "c", "resources": {"requests": {"x.io/y": "1"}}}]}, ""),
    (node("n"), {"containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "1"}}}]},
     "Insufficient ephemeral-storage"),
    (node("n", raw_pod("a", **PORT)), PORT, "didn't have free ports for the requested pod ports"),
    (node("n", raw_pod("a", **PORT)), {"containers": [{"name": "c", "ports": [{"hostPort": 81}]}]}, ""),
    (node("n", machine=None, problem="its providerID is empty"), {}, "had no machine on a fabric of the CDI Manager"),
    (node("n", fabric=None), {}, "had no machine on a fabric of the CDI Manager"),
]


@pytest.mark.parametrize(("where", "spec", "reason"), CASES)
def test_node_suits_or_the_reason_is_told(where: NodeFacts, spec: Json, reason: str) -> None:
    found = plan(where, gated("p", **spec), free=1)
    if reason:
        assert release(found, "p").reason == f"1 x A100 40G: 0/1 nodes: 1 {reason}"
        assert release(found, "p").unschedulable
    else:
        assert nodes_by_pod(found) == {"p": "n"}


def test_a_pod_placed_in_the_same_plan_takes_room_and_ports() -> None:
    found = plan(node("n"), gated("a", age=9, cpu="5"), gated("b", cpu="5"), free=2)
    assert nodes_by_pod(found) == {"a": "n"}
    found = plan(node("n"), gated("a", age=9, **PORT), gated("b", **PORT), free=2)
    assert release(found, "b").reason.endswith("didn't have free ports for the requested pod ports")


def test_a_placed_pod_takes_room_and_one_that_is_nominated_already_only_once() -> None:
    early = gated("early", cpu="4")
    taken = assumed(early, "n", {A100: 1})
    assert nodes_by_pod(plan(node("n"), taken, gated("p", cpu="4"), free=2)) == {"p": "n"}
    assert nodes_by_pod(plan(node("n", early.raw), taken, gated("p", cpu="4"), free=2)) == {"p": "n"}
    assert not nodes_by_pod(plan(node("n"), taken, gated("p", cpu="5"), free=2))


def test_one_unreadable_amount_stops_no_other_node() -> None:
    odd = node("odd", raw_pod("old", cpu="much")), node("even", allocatable={"cpu": "plenty"})
    assert nodes_by_pod(plan(*odd, node("n"), gated("p"), free=1)) == {"p": "n"}
    assert release(plan(*odd, gated("p"), free=1), "p").reason.endswith("2 Too many pods")


def test_a_cluster_without_nodes() -> None:
    assert release(plan(gated("p"), free=1), "p").reason == "1 x A100 40G: the cluster has no nodes"
