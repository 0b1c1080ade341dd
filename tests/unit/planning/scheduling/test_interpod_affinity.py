# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Required pod affinity, and anti-affinity in both directions."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.interpod_affinity import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    assumed,
    gated,
    node,
    nodes_by_pod,
    plan,
    release,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.zones import (
    ANY_NAMESPACE,
    DB,
    ELSEWHERE,
    HOST,
    NAMESPACES,
    TEAM_B,
    WEB,
    Json,
    avoids,
    off,
    old,
    requires,
    term,
    zone,
)

CASES: list[tuple[str, list[NodeFacts], Json, str]] = [
    ("no matching pod anywhere", [zone("n")], {"affinity": requires(term(DB))}, AFFINITY),
    ("matching pod on the node", [zone("n", old(DB))], {"affinity": requires(term(DB))}, ""),
    ("matching pod in the zone", [zone("n"), off("m", old(DB))], {"affinity": requires(term(DB))}, ""),
    ("matching pod in another zone", [zone("n"), off("m", old(DB), of="b")],
     {"affinity": requires(term(DB))}, AFFINITY),
    ("matching pod by host", [zone("n"), off("m", old(DB))], {"affinity": requires(term(DB, HOST))}, AFFINITY),
    ("first of a series", [zone("n")], {"affinity": requires(term(WEB)), "labels": WEB}, ""),
    ("second of a series", [zone("n"), off("m", old(WEB), of="b")], {"affinity": requires(term(WEB)), "labels": WEB},
     AFFINITY),
    ("first of a series, node without the key", [node("n")], {"affinity": requires(term(WEB)), "labels": WEB},
     AFFINITY),
    ("all terms or none", [zone("n", old(WEB), old(DB, "o2"))], {"affinity": requires(term(WEB), term(DB))}, AFFINITY),
    ("one pod for all terms", [zone("n", old({**WEB, "tier": "x"}))],
     {"affinity": requires(term(WEB), term({"tier": "x"}))}, ""),
    ("matching pod of another namespace", [zone("n", ELSEWHERE)], {"affinity": requires(term(WEB))}, AFFINITY),
    ("namespaces by name", [zone("n", ELSEWHERE)], {"affinity": requires(term(WEB, namespaces=["other"]))}, ""),
    ("namespaces by label", [zone("n", ELSEWHERE)], {"affinity": requires(term(WEB, **TEAM_B))}, ""),
    ("namespaces by another label", [zone("n", old(WEB))], {"affinity": requires(term(WEB, **TEAM_B))}, AFFINITY),
    ("all namespaces", [zone("n", ELSEWHERE)], {"affinity": requires(term(WEB, **ANY_NAMESPACE))}, ""),
    ("a term without selector", [zone("n", old(WEB))], {"affinity": requires(term(None))}, AFFINITY),
    ("an empty selector", [zone("n", old(WEB))], {"affinity": requires(term({}))}, ""),
    ("no pod that it avoids", [zone("n", old(DB))], {"affinity": avoids(term(WEB))}, ""),
    ("avoided pod in the zone", [zone("n"), off("m", old(WEB))], {"affinity": avoids(term(WEB))}, ANTI_AFFINITY),
    ("avoided pod in another zone", [zone("n"), off("m", old(WEB), of="b")], {"affinity": avoids(term(WEB))}, ""),
    ("avoided pod by host", [zone("n"), off("m", old(WEB))], {"affinity": avoids(term(WEB, HOST))}, ""),
    ("avoided pod, node without the key", [node("n", old(WEB))], {"affinity": avoids(term(WEB))}, ""),
    ("avoided pod of another namespace", [zone("n", ELSEWHERE)], {"affinity": avoids(term(WEB))}, ""),
    ("either of two terms", [zone("n", old(DB))], {"affinity": avoids(term(WEB), term(DB))}, ANTI_AFFINITY),
    ("avoided by a pod on the node", [zone("n", old(DB, affinity=avoids(term(WEB))))],
     {"labels": WEB}, EXISTING_ANTI_AFFINITY),
    ("avoided by a pod of the zone", [zone("n"), off("m", old(DB, affinity=avoids(term(WEB))))], {"labels": WEB},
     EXISTING_ANTI_AFFINITY),
    ("avoided elsewhere", [zone("n"), off("m", old(DB, affinity=avoids(term(WEB))), of="b")], {"labels": WEB}, ""),
    ("others are avoided", [zone("n", old(DB, affinity=avoids(term(WEB))))], {"labels": DB}, ""),
    ("avoided in another namespace", [zone("n", old(DB, namespace="other", affinity=avoids(term(WEB))))],
     {"labels": WEB}, ""),
    ("avoided across namespaces", [zone("n", old(DB, namespace="other", affinity=avoids(term(WEB, **ANY_NAMESPACE))))],
     {"labels": WEB}, EXISTING_ANTI_AFFINITY),
    ("preferred terms forbid nothing", [zone("n", old(WEB))],
     {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
         {"weight": 1, "podAffinityTerm": term(WEB)}]}}}, ""),
]


@pytest.mark.parametrize(("nodes", "spec", "reason"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_other_pods(nodes: list[NodeFacts], spec: Json, reason: str) -> None:
    found = plan(*nodes, gated("p", **spec), free=1, namespaces=NAMESPACES)
    if reason:
        assert f" {reason}" in release(found, "p").reason
    else:
        assert nodes_by_pod(found) == {"p": "n"}


def test_pods_of_one_plan_see_each_other() -> None:
    lonely: Json = {"affinity": avoids(term(WEB, HOST)), "labels": WEB}
    found = plan(zone("n"), zone("m"), *(gated(f"p{i}", age=9 - i, **lonely) for i in range(3)), free=3)
    assert sorted(nodes_by_pod(found).values()) == ["m", "n"]
    assert "2 " + ANTI_AFFINITY in release(found, "p2").reason


def test_a_pod_that_one_placed_before_avoids() -> None:
    found = plan(zone("n"), gated("a", age=9, affinity=avoids(term(DB))), gated("b", labels=DB), free=2)
    assert release(found, "b").reason.endswith(EXISTING_ANTI_AFFINITY)


def test_placed_pods_are_seen() -> None:
    early = gated("early", labels=WEB)
    taken = assumed(early, "n", {A100: 1})
    found = plan(zone("n"), taken, gated("p", affinity=avoids(term(WEB))), free=2)
    assert release(found, "p").reason.endswith(ANTI_AFFINITY)


def test_a_failure_says_nothing_of_a_pod_with_other_terms() -> None:
    pods = gated("a", age=9, affinity=avoids(term(WEB))), gated("b", affinity=avoids(term(DB)))
    assert nodes_by_pod(plan(zone("n", old(WEB)), *pods, free=2)) == {"b": "n"}


def test_a_pod_that_comes_after_the_one_it_requires_is_served_though_an_equal_one_before_was_not() -> None:
    near = requires(term(WEB))
    pods = gated("a", age=9, affinity=near), gated("b", age=8, labels=WEB), gated("c", age=7, affinity=near)
    assert nodes_by_pod(plan(zone("n"), *pods, free=3)) == {"b": "n", "c": "n"}


def test_a_series_that_wants_to_be_together_is_together() -> None:
    pods = [gated(f"p{i}", age=9 - i, labels=WEB, affinity=requires(term(WEB))) for i in range(4)]
    found = plan(zone("a1", allocatable={"cpu": "2"}), zone("b1", of="b"), zone("b2", of="b"), *pods, free=4)
    assert len({name[0] for name in nodes_by_pod(found).values()}) == 1
