# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms about other pods: affinity, anti-affinity both ways, topology spread."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.topology import (
    FOE,
    FOE_OF_OTHERS,
    NO_FRIEND,
    NO_LABEL,
    TOO_MANY,
)
from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.view import NodeFacts
from ansible_collections.composable.infra.tests.unit.scaling.builders import A100
from ansible_collections.composable.infra.tests.unit.scaling.gating.cluster import (
    book,
    booked,
    gated,
    node,
    plan,
    raw_pod,
    release,
)

Json = dict[str, t.Any]
HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}


def term(labels: Json | None, key: str = "zone", **more: t.Any) -> Json:
    selector = None if labels is None else {"matchLabels": labels}
    return {"topologyKey": key, **({} if selector is None else {"labelSelector": selector}), **more}


def friends(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def foes(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(labels: Json | None, skew: int = 1, key: str = "zone", **more: t.Any) -> list[Json]:
    selector = None if labels is None else {"matchLabels": labels}
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
             **more}]


def old(labels: Json, name: str = "old", **more: t.Any) -> Json:
    """A running pod."""
    return raw_pod(name, labels=labels, cpu="", **more)


def zone(name: str, *pods: Json, of: str = "a", **more: t.Any) -> NodeFacts:
    return node(name, *pods, labels={"zone": of}, **more)


def off(name: str, *pods: Json, of: str = "a") -> NodeFacts:
    """A node of the cluster without a machine."""
    return zone(name, *pods, of=of, machine=None, fabric=None)


ANY_NAMESPACE: Json = {"namespaceSelector": {}}
TEAM_B: Json = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
NAMESPACES = {"default": {"team": "a"}, "other": {"team": "b"}}
ELSEWHERE = old(WEB, namespace="other")

CASES: list[tuple[str, list[NodeFacts], Json, str]] = [
    ("no friend anywhere", [zone("n")], {"affinity": friends(term(DB))}, NO_FRIEND),
    ("friend on the node", [zone("n", old(DB))], {"affinity": friends(term(DB))}, ""),
    ("friend in the zone", [zone("n"), off("m", old(DB))], {"affinity": friends(term(DB))}, ""),
    ("friend in another zone", [zone("n"), off("m", old(DB), of="b")], {"affinity": friends(term(DB))}, NO_FRIEND),
    ("friend by host", [zone("n"), off("m", old(DB))], {"affinity": friends(term(DB, HOST))}, NO_FRIEND),
    ("first of a series", [zone("n")], {"affinity": friends(term(WEB)), "labels": WEB}, ""),
    ("second of a series", [zone("n"), off("m", old(WEB), of="b")], {"affinity": friends(term(WEB)), "labels": WEB},
     NO_FRIEND),
    ("first of a series, node without the key", [node("n")], {"affinity": friends(term(WEB)), "labels": WEB},
     NO_FRIEND),
    ("all terms or none", [zone("n", old(WEB), old(DB, "o2"))], {"affinity": friends(term(WEB), term(DB))}, NO_FRIEND),
    ("one pod for all terms", [zone("n", old({**WEB, "tier": "x"}))],
     {"affinity": friends(term(WEB), term({"tier": "x"}))}, ""),
    ("friend of another namespace", [zone("n", ELSEWHERE)], {"affinity": friends(term(WEB))}, NO_FRIEND),
    ("namespaces by name", [zone("n", ELSEWHERE)], {"affinity": friends(term(WEB, namespaces=["other"]))}, ""),
    ("namespaces by label", [zone("n", ELSEWHERE)], {"affinity": friends(term(WEB, **TEAM_B))}, ""),
    ("namespaces by another label", [zone("n", old(WEB))], {"affinity": friends(term(WEB, **TEAM_B))}, NO_FRIEND),
    ("all namespaces", [zone("n", ELSEWHERE)], {"affinity": friends(term(WEB, **ANY_NAMESPACE))}, ""),
    ("a term without selector", [zone("n", old(WEB))], {"affinity": friends(term(None))}, NO_FRIEND),
    ("an empty selector", [zone("n", old(WEB))], {"affinity": friends(term({}))}, ""),
    ("no foe", [zone("n", old(DB))], {"affinity": foes(term(WEB))}, ""),
    ("foe in the zone", [zone("n"), off("m", old(WEB))], {"affinity": foes(term(WEB))}, FOE),
    ("foe in another zone", [zone("n"), off("m", old(WEB), of="b")], {"affinity": foes(term(WEB))}, ""),
    ("foe by host", [zone("n"), off("m", old(WEB))], {"affinity": foes(term(WEB, HOST))}, ""),
    ("foe, node without the key", [node("n", old(WEB))], {"affinity": foes(term(WEB))}, ""),
    ("foe of another namespace", [zone("n", ELSEWHERE)], {"affinity": foes(term(WEB))}, ""),
    ("either of two foes", [zone("n", old(DB))], {"affinity": foes(term(WEB), term(DB))}, FOE),
    ("hated by a pod there", [zone("n", old(DB, affinity=foes(term(WEB))))], {"labels": WEB}, FOE_OF_OTHERS),
    ("hated by a pod of the zone", [zone("n"), off("m", old(DB, affinity=foes(term(WEB))))], {"labels": WEB},
     FOE_OF_OTHERS),
    ("hated elsewhere", [zone("n"), off("m", old(DB, affinity=foes(term(WEB))), of="b")], {"labels": WEB}, ""),
    ("others are hated", [zone("n", old(DB, affinity=foes(term(WEB))))], {"labels": DB}, ""),
    ("hated in another namespace", [zone("n", old(DB, namespace="other", affinity=foes(term(WEB))))], {"labels": WEB},
     ""),
    ("hated across namespaces", [zone("n", old(DB, namespace="other", affinity=foes(term(WEB, **ANY_NAMESPACE))))],
     {"labels": WEB}, FOE_OF_OTHERS),
    ("preferred terms forbid nothing", [zone("n", old(WEB))],
     {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
         {"weight": 1, "podAffinityTerm": term(WEB)}]}}}, ""),
    ("spread even", [zone("n", old(WEB)), off("m", old(WEB, "o2"), of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("spread uneven", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, TOO_MANY),
    ("spread with more skew", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, 2), "labels": WEB}, ""),
    ("not counted itself", [zone("n", old(WEB)), off("m", of="b")], {"topologySpreadConstraints": spread(WEB)}, ""),
    ("only a wish", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, whenUnsatisfiable="ScheduleAnyway"), "labels": WEB}, ""),
    ("node without the key", [node("n")], {"topologySpreadConstraints": spread(WEB), "labels": WEB}, NO_LABEL),
    ("a domain without the key does not count", [zone("n", old(WEB)), node("m", machine=None)],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("pods that leave do not count", [zone("n", {**old(WEB), "metadata": {
        **old(WEB)["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("pods of other namespaces do not count", [zone("n", ELSEWHERE), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB}, ""),
    ("too few domains", [zone("n", old(WEB))],
     {"topologySpreadConstraints": spread(WEB, minDomains=2), "labels": WEB}, TOO_MANY),
    ("enough domains", [zone("n", old(WEB)), off("m", old(WEB, "o2"), of="b")],
     {"topologySpreadConstraints": spread(WEB, minDomains=2), "labels": WEB}, ""),
    ("affinity is honoured", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB), "labels": WEB, "nodeSelector": {"zone": "a"}}, ""),
    ("affinity is ignored", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, nodeAffinityPolicy="Ignore"), "labels": WEB,
      "nodeSelector": {"zone": "a"}}, TOO_MANY),
    ("a selector for nothing", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(None), "labels": WEB}, ""),
    ("a selector for everything counts nobody but itself", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": [{**spread(WEB)[0], "labelSelector": {}}], "labels": WEB}, ""),
    ("matchLabelKeys", [zone("n", old({**WEB, "rev": "1"})), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, matchLabelKeys=["rev", "gone"]), "labels": {**WEB, "rev": "2"}}, ""),
    ("matchLabelKeys, same value", [zone("n", old({**WEB, "rev": "1"})), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, matchLabelKeys=["rev"]), "labels": {**WEB, "rev": "1"}}, TOO_MANY),
    ("every constraint", [zone("n", old(WEB)), off("m", of="b")],
     {"topologySpreadConstraints": spread(WEB, 5) + spread(WEB, 1, HOST), "labels": WEB}, TOO_MANY),
]


@pytest.mark.parametrize(("nodes", "spec", "reason"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_other_pods(nodes: list[NodeFacts], spec: Json, reason: str) -> None:
    found = plan(*nodes, gated("p", **spec), free=1, namespaces=NAMESPACES)
    if reason:
        assert f" {reason}" in release(found, "p").reason
    else:
        assert booked(found) == {"p": "n"}


@pytest.mark.parametrize(("policy", "fits"), [("Honor", True), ("Ignore", False)])
def test_taints_of_domains(policy: str, fits: bool) -> None:
    tainted = zone("m", of="b", taints=[{"key": "x", "effect": "NoSchedule"}])
    constraints = spread(WEB, nodeTaintsPolicy=policy)
    found = plan(zone("n", old(WEB)), tainted, gated("p", topologySpreadConstraints=constraints, labels=WEB), free=1)
    assert bool(booked(found)) is fits


def test_pods_of_one_plan_see_each_other() -> None:
    lonely: Json = {"affinity": foes(term(WEB, HOST)), "labels": WEB}
    found = plan(zone("n"), zone("m"), *(gated(f"p{i}", age=9 - i, **lonely) for i in range(3)), free=3)
    assert sorted(booked(found).values()) == ["m", "n"]
    assert "2 " + FOE in release(found, "p2").reason


def test_a_pod_that_is_hated_by_one_placed_before() -> None:
    found = plan(zone("n"), gated("a", age=9, affinity=foes(term(DB))), gated("b", labels=DB), free=2)
    assert release(found, "b").reason.endswith(FOE_OF_OTHERS)


def test_booked_pods_are_seen() -> None:
    early = gated("early", labels=WEB)
    taken = book(early, "n", {A100: 1})
    found = plan(zone("n"), taken, gated("p", affinity=foes(term(WEB))), free=2)
    assert release(found, "p").reason.endswith(FOE)


def test_pods_are_spread_within_a_plan() -> None:
    pods = [gated(f"p{i}", age=9 - i, labels=WEB, topologySpreadConstraints=spread(WEB)) for i in range(6)]
    found = plan(zone("a1"), zone("a2"), zone("b1", of="b"), zone("c1", of="c"), *pods, free=6)
    zones = sorted(name[0] for name in booked(found).values())
    assert zones == list("aabbcc")


def test_a_pod_is_not_judged_by_another_with_other_terms() -> None:
    pods = gated("a", age=9, affinity=foes(term(WEB))), gated("b", affinity=foes(term(DB)))
    assert booked(plan(zone("n", old(WEB)), *pods, free=2)) == {"b": "n"}


def test_a_pod_that_comes_after_its_friend_is_served_though_an_equal_one_before_was_not() -> None:
    near = friends(term(WEB))
    pods = gated("a", age=9, affinity=near), gated("b", age=8, labels=WEB), gated("c", age=7, affinity=near)
    assert booked(plan(zone("n"), *pods, free=3)) == {"b": "n", "c": "n"}


def test_a_series_that_wants_to_be_together_is_together() -> None:
    pods = [gated(f"p{i}", age=9 - i, labels=WEB, affinity=friends(term(WEB))) for i in range(4)]
    found = plan(zone("a1", allocatable={"cpu": "2"}), zone("b1", of="b"), zone("b2", of="b"), *pods, free=4)
    assert len({name[0] for name in booked(found).values()}) == 1
