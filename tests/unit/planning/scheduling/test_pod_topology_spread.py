# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology spread constraints."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.pod_topology_spread import (
    MISSING_LABEL,
    SKEW,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    gated,
    node,
    nodes_by_pod,
    plan,
    release,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.zones import (
    ELSEWHERE,
    HOST,
    NAMESPACES,
    WEB,
    Json,
    off,
    old,
    spread,
    zone,
)

CASES: list[tuple[str, list[NodeFacts], Json, str]] = [
    ("spread even", [zone("n", old(WEB)), off("m", old(WEB, "o2"), of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("spread uneven", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, SKEW),
    ("spread with more skew", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, 2), "labels": WEB}, ""),
    ("not counted itself", [zone("n", old(WEB)), off("m", of="b")], {"topologySpreadConstraints": spread(WEB)}, ""),
    ("only preferred", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, whenUnsatisfiable="ScheduleAnyway"), "labels": WEB}, ""),
    ("node without the key", [node("n")], {"topologySpreadConstraints": spread(WEB), "labels": WEB}, MISSING_LABEL),
    ("a domain without the key does not count", [zone("n", old(WEB)), node("m", machine=None)],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("pods that leave do not count", [zone("n", {**old(WEB), "metadata": {
        **old(WEB)["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("pods of other namespaces do not count", [zone("n", ELSEWHERE), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("too few domains", [zone("n", old(WEB))],
     {"topologySpreadConstraints": spread(WEB, minDomains=2), "labels": WEB}, SKEW),
    ("enough domains", [zone("n", old(WEB)), off("m", old(WEB, "o2"), of="b")],
     {"topologySpreadConstraints": spread(WEB, minDomains=2), "labels": WEB}, ""),
    ("affinity is honoured", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB, "nodeSelector": {"zone": "a"}}, ""),
    ("affinity is ignored", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, nodeAffinityPolicy="Ignore"), "labels": WEB,
      "nodeSelector": {"zone": "a"}}, SKEW),
    ("a selector for nothing", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(None), "labels": WEB}, ""),
    ("a selector for everything counts nobody but itself", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": [{**spread(WEB)[0], "labelSelector": {}}], "labels": WEB}, ""),
    ("matchLabelKeys", [zone("n", old({**WEB, "rev": "1"})), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, matchLabelKeys=["rev", "gone"]), "labels": {**WEB, "rev": "2"}}, ""),
    ("matchLabelKeys, same value", [zone("n", old({**WEB, "rev": "1"})), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, matchLabelKeys=["rev"]), "labels": {**WEB, "rev": "1"}}, SKEW),
    ("every constraint", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, 5) + spread(WEB, 1, HOST), "labels": WEB}, SKEW),
]


@pytest.mark.parametrize(("nodes", "spec", "reason"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_other_pods(nodes: list[NodeFacts], spec: Json, reason: str) -> None:
    found = plan(*nodes, gated("p", **spec), free=1, namespaces=NAMESPACES)
    if reason:
        assert f" {reason}" in release(found, "p").reason
    else:
        assert nodes_by_pod(found) == {"p": "n"}


@pytest.mark.parametrize(("policy", "fits"), [("Honor", True), ("Ignore", False)])
def test_taints_of_domains(policy: str, fits: bool) -> None:
    tainted = zone("m", of="b", taints=[{"key": "x", "effect": "NoSchedule"}])
    constraints = spread(WEB, nodeTaintsPolicy=policy)
    found = plan(zone("n", old(WEB)), tainted, gated("p", topologySpreadConstraints=constraints, labels=WEB), free=1)
    assert bool(nodes_by_pod(found)) is fits


def test_pods_are_spread_within_a_plan() -> None:
    pods = [gated(f"p{i}", age=9 - i, labels=WEB, topologySpreadConstraints=spread(WEB)) for i in range(6)]
    found = plan(zone("a1"), zone("a2"), zone("b1", of="b"), zone("c1", of="c"), *pods, free=6)
    zones = sorted(name[0] for name in nodes_by_pod(found).values())
    assert zones == list("aabbcc")
