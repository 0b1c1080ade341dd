# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of the queue, waiting, what is withheld for a pod that waits, and groups that get all or nothing."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.queue import SIZE_RULE
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GATE,
    GatedPod,
    NodeFacts,
    PodGroup,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    RULES,
    WAIT,
    Rules,
    assumed,
    claim,
    exactly,
    gated,
    idle,
    node,
    nodes_by_pod,
    plan,
    release,
    wait_reason,
)


def many(n: int, name: str = "p", age: float = 50.0, count: int = 1, **more: t.Any) -> list[GatedPod]:
    return [gated(f"{name}{i}", exactly(A100, count), age=age - i, **more) for i in range(n)]


def busy(name: str, bound: int, ready: int = 0, limit: int = 50) -> NodeFacts:
    return node(name, stock={A100: Stock(idle(ready, node=name), bound=bound, limit=limit)})


class TestOrder:
    def test_the_older_first(self) -> None:
        assert nodes_by_pod(plan(node("n"), gated("young", age=1), gated("old", age=2), free=1)) == {"old": "n"}

    def test_priority_before_age(self) -> None:
        pods = gated("old", age=9), gated("vip", age=1, priority=10), gated("low", age=99, priority=-1)
        assert nodes_by_pod(plan(node("n"), *pods, free=1)) == {"vip": "n"}

    def test_equal_pods_by_uid(self) -> None:
        assert nodes_by_pod(plan(node("n"), gated("b"), gated("a"), free=1)) == {"a": "n"}

    def test_a_group_counts_with_its_oldest_and_most_important(self) -> None:
        group = [gated(f"g{i}", age=1 + 8 * i, group=("g", 2)) for i in range(2)]
        assert set(nodes_by_pod(plan(node("n"), gated("p", age=5), *group, free=2))) == {"g0", "g1"}
        group = [gated(f"g{i}", age=1, group=("g", 2), priority=i) for i in range(2)]
        assert set(nodes_by_pod(plan(node("n"), gated("p", age=5), *group, free=2))) == {"g0", "g1"}


class TestWaiting:
    def test_release_lets_go_at_once(self) -> None:
        found = plan(busy("n", 3), *many(2), free=1)
        assert (release(found, "p1").unschedulable, found.wait_reasons) == (True, ())

    def test_wait_leaves_the_gate(self) -> None:
        found = plan(busy("n", 3), *many(3), free=1, rules=WAIT)
        assert found.releases == ()
        assert [(v.evidence["pod"], v.evidence["position"], v.evidence["of"]) for v in found.wait_reasons] == [
            ("p1", 1, 2), ("p2", 2, 2)]

    @pytest.mark.parametrize(("where", "count", "why"), [
        (node("n", unschedulable=True), 1, "no node"), (busy("n", 3, limit=3), 4, "limit"),
        (busy("n", 2), 4, "too few devices"), (node("n", machine=None), 1, "no machine"),
        (node("n", allocatable={"cpu": "0"}, stock={A100: Stock(bound=9)}), 1, "no room")])
    def test_nobody_waits_for_what_cannot_be_given(self, where: NodeFacts, count: int, why: str) -> None:
        found = plan(where, gated("p", exactly(A100, count)), free=0, rules=WAIT)
        assert release(found, "p").unschedulable, why

    @pytest.mark.parametrize("where", [
        busy("n", 3), busy("n", 3, limit=3), node("n", stock={A100: Stock(bound=3)}, blocked={A100: "off"}),
        node("n", stock={A100: Stock(bound=1), H100: Stock(bound=1)})])
    def test_devices_that_others_have_are_waited_for(self, where: NodeFacts) -> None:
        assert plan(where, gated("p"), free=0, rules=WAIT).releases == ()


class TestBackfillProtection:
    """What a large pod needs is withheld while it waits; others get what it cannot use."""

    BIG = gated("big", exactly(A100, 3), age=99)

    def test_free_devices(self) -> None:
        found = plan(busy("n", 5), busy("m", 0), self.BIG, *many(2), free=2, rules=WAIT)
        assert nodes_by_pod(found) == {}
        assert [v.evidence["position"] for v in found.wait_reasons] == [1, 2, 3]

    def test_what_is_more_than_it_needs_is_for_others(self) -> None:
        pods = [self.BIG, gated("t", exactly(T4), age=5)]
        assert nodes_by_pod(plan(busy("n", 5), *pods, free={(A100, 1): 2, (T4, 1): 1}, rules=WAIT)) == {"t": "n"}

    def test_idle_devices_of_its_node_and_of_others(self) -> None:
        found = plan(busy("n", 5, ready=1), busy("m", 0, ready=1), self.BIG, *many(2), free=0, rules=WAIT)
        assert nodes_by_pod(found) == {}

    def test_idle_devices_beyond_its_need(self) -> None:
        found = plan(busy("n", 5, ready=2), busy("m", 0, ready=2), self.BIG, *many(2), free=0, rules=WAIT)
        assert nodes_by_pod(found) == {"p0": "n"}

    def test_places_on_its_node(self) -> None:
        nodes = busy("n", 2, limit=3), busy("m", 3, limit=3)
        assert nodes_by_pod(plan(*nodes, self.BIG, *many(1), free=9, rules=WAIT)) == {}

    def test_room_on_its_node(self) -> None:
        big = gated("big", exactly(A100, 3), age=99, cpu="6")
        small = gated("small", exactly(T4), cpu="3")
        free = {(A100, 1): 2, (T4, 1): 5}
        assert nodes_by_pod(plan(busy("n", 5), big, small, free=free, rules=WAIT)) == {}
        assert nodes_by_pod(plan(busy("n", 5), node("m"), big, small, free=free, rules=WAIT)) == {"small": "n"}

    def test_a_more_important_pod_comes_first(self) -> None:
        found = plan(busy("n", 5), self.BIG, gated("vip", priority=1), free=1, rules=WAIT)
        assert nodes_by_pod(found) == {"vip": "n"}

    def test_nothing_is_withheld_when_pods_are_let_go(self) -> None:
        assert nodes_by_pod(plan(busy("n", 5), self.BIG, *many(2), free=2)) == {"p0": "n", "p1": "n"}

    def test_pods_that_wait_are_not_seen_by_terms_about_pods(self) -> None:
        near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "big"}}}]}}
        big = gated("big", exactly(A100, 3), age=99, labels={"app": "big"})
        found = plan(busy("n", 5), big, gated("p", exactly(T4), affinity=near), free={(T4, 1): 1, (A100, 1): 1},
                     rules=WAIT)
        assert release(found, "p").reason.endswith("didn't match pod affinity rules")


class TestGroups:
    def test_all_get_theirs_together(self) -> None:
        found = plan(node("n"), *many(3, group=("g", 3)), free=3)
        assert len(found.placements) == 3
        assert {each.group for each in found.placements} == {"g"}

    @pytest.mark.parametrize("rules", [WAIT, RULES])
    def test_or_none_does_and_the_devices_are_for_others(self, rules: Rules) -> None:
        group = many(3, "g", age=9, group=("g", 3))
        found = plan(busy("n", 1), *group, gated("p", age=1), free=2, rules=rules)
        assert nodes_by_pod(found) == ({} if rules is WAIT else {"p": "n"})
        assert len(found.releases) == (0 if rules is WAIT else 3)

    def test_reason_names_the_group(self) -> None:
        found = plan(busy("n", 1), *many(3, "g", group=("g", 3)), free=2)
        assert release(found, "g0").reason == (
            "3 x A100 40G for group g: 0/1 nodes: 1 had no free A100 40G on fabric 1")
        found = plan(busy("n", 1), *many(3, "g", group=("g", 3)), free=2, rules=WAIT)
        assert wait_reason(found, "g1").waits_for.startswith(
            "3 x A100 40G for all 3 pods of group g, position 1 of 1: ")

    def test_a_group_that_is_not_complete_waits_and_takes_nothing(self) -> None:
        found = plan(node("n"), *many(2, "g", age=9, group=("g", 3)), gated("p", age=1), free=1)
        assert nodes_by_pod(found) == {"p": "n"}
        assert wait_reason(found, "g0").waits_for == "group g has 2 of 3 pods"

    def test_members_that_are_placed_or_left_the_gate_count(self) -> None:
        early = gated("early", group=("g", 3))
        taken = assumed(early, "n", {A100: 1}, group="g")
        assert set(nodes_by_pod(plan(node("n"), early, taken, *many(2, "g", group=("g", 3)), free=3))) == {"g0", "g1"}
        found = plan(node("n"), *many(1, "g", group=("g", 3), placed=2), free=3)
        assert nodes_by_pod(found) == {"g0": "n"}

    def test_a_restarted_member_does_not_wait_for_those_that_are_done(self) -> None:
        member = replace(gated("g0"), group=PodGroup("g", 4, placed=1, started=True))
        assert nodes_by_pod(plan(node("n"), member, free=1)) == {"g0": "n"}
        held_back = replace(gated("g0"), group=PodGroup("g", 4, placed=1))
        assert not plan(node("n"), held_back, free=1).placements

    def test_the_largest_member_chooses_first(self) -> None:
        group = [gated("small", age=9, group=("g", 2)), gated("large", exactly(A100, 2), age=1, group=("g", 2))]
        nodes = node("a", stock={A100: Stock(limit=2)}), node("b", stock={A100: Stock(limit=1)})
        assert nodes_by_pod(plan(*nodes, *group, free=3)) == {"large": "a", "small": "b"}

    def test_one_that_is_not_supported_takes_the_others_along(self) -> None:
        group = [gated("a", group=("g", 2)), gated("b", group=("g", 2), schedulerName="other")]
        found = plan(node("n"), *group, free=3)
        assert release(found, "a").reason == "pod b of group g: the pod's scheduler is other, not default-scheduler"
        assert not release(found, "a").unschedulable

    def test_one_that_is_not_ready_holds_the_others(self) -> None:
        group = [gated("a", group=("g", 2)), gated("b", group=("g", 2), claims={"gpu": None})]
        found = plan(node("n"), *group, free=3)
        assert wait_reason(found, "a").waits_for == "pod b of group g: its claim gpu does not exist yet"
        gates = [{"name": GATE}, {"name": "other"}]
        group = [gated("a", group=("g", 2)), gated("b", group=("g", 2), schedulingGates=gates)]
        assert not plan(node("n"), *group, free=3).placements

    def test_a_group_without_a_size_is_let_go(self) -> None:
        found = plan(node("n"), *many(2, "g", group=("g", 0)), free=3)
        assert release(found, "g0").reason == f"group g has no valid size: {SIZE_RULE}"

    def test_of_two_groups_the_older_is_served_whole(self) -> None:
        groups = [gated(f"{g}{i}", age=age + i, group=(g, 3)) for i in range(3) for g, age in (("x", 1), ("y", 2))]
        found = plan(busy("n", 2), *groups, free=4, rules=WAIT)
        assert set(nodes_by_pod(found)) == {"y0", "y1", "y2"}

    def test_what_failed_in_a_trial_may_succeed_after_it(self) -> None:
        group = [gated(f"g{i}", exactly(A100, 2), age=99, group=("g", 2)) for i in range(2)]
        alone = gated("p", exactly(A100, 2), age=1)
        assert nodes_by_pod(plan(node("n"), *group, alone, free=3)) == {"p": "n"}

    def test_places_of_a_trial_are_given_back(self) -> None:
        group = [gated(f"g{i}", exactly(A100, 2), age=99, group=("g", 2)) for i in range(2)]
        alone = gated("p", exactly(A100, 2), age=1)
        assert nodes_by_pod(plan(busy("n", 0, limit=2), *group, alone, free=9)) == {"p": "n"}

    def test_nodes_that_lacked_devices_only_in_a_trial_are_looked_at_again(self) -> None:
        group = [gated(f"g{i}", exactly(A100, 2), age=99, group=("g", 2)) for i in range(2)]
        alone = gated("p", exactly(A100, 2), age=1, cpu="4")
        nodes = node("m", allocatable={"cpu": "3"}), node("n")
        assert nodes_by_pod(plan(*nodes, *group, alone, free=3)) == {"p": "n"}

    def test_members_of_a_group_may_not_share_a_claim(self) -> None:
        both = claim("c", exactly())
        group = [gated(f"g{i}", claims={"gpu": both}, group=("g", 2)) for i in range(2)]
        assert not release(plan(node("n"), *group, free=3), "g0").unschedulable
