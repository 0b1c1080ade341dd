# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several nodes is chosen, and what the messages say."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.scoring import signature
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts, Stock
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, NOW, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    WAIT,
    Rules,
    assumed,
    exactly,
    gated,
    idle,
    node,
    nodes_by_pod,
    plan,
    raw_pod,
    release,
    wait_reason,
)


def stocked(name: str, bound: int = 0, ready: int = 0, coming: int = 0, cpu: str = "", **more: t.Any) -> NodeFacts:
    pods = [raw_pod(f"old-{name}", cpu=cpu)] if cpu else []
    return node(name, *pods, stock={A100: Stock(idle(ready, node=name), coming, bound)}, **more)


CHOICES = [
    ("an idle device rather than an attach", [stocked("a", 5), stocked("b", ready=1)], "samenode", "b"),
    ("an idle one rather than a coming one", [stocked("a", coming=1), stocked("b", ready=1)], "samenode", "b"),
    ("a coming one rather than an attach", [stocked("a", 5), stocked("b", coming=1)], "samenode", "b"),
    ("the fuller machine", [stocked("a", 1), stocked("b", 2)], "samenode", "b"),
    ("the emptier machine", [stocked("a", 2), stocked("b", 1)], "differentnode", "b"),
    ("an idle device whatever the policy", [stocked("a"), stocked("b", 3, ready=1)], "differentnode", "b"),
    ("less load", [stocked("a", cpu="4"), stocked("b", cpu="2")], "samenode", "b"),
    ("the policy before the load", [stocked("a", 1, cpu="4"), stocked("b", cpu="1")], "samenode", "a"),
    ("the first by name", [stocked("b"), stocked("a")], "samenode", "a"),
]


@pytest.mark.parametrize(("nodes", "policy", "chosen"), [c[1:] for c in CHOICES], ids=[c[0] for c in CHOICES])
def test_choice(nodes: list[NodeFacts], policy: str, chosen: str) -> None:
    found = plan(*nodes, gated("p"), free=9, rules=Rules(allocation_policy=policy))
    assert nodes_by_pod(found) == {"p": chosen}


@pytest.mark.parametrize(("policy", "nodes"), [
    ("samenode", "aaaa"), ("differentnode", "abca"), ("roundrobin", "abca")])
def test_policies_over_several_pods(policy: str, nodes: str) -> None:
    pods = [gated(f"p{i}", age=9 - i) for i in range(4)]
    found = plan(node("a"), node("b"), node("c"), *pods, free=9, rules=Rules(allocation_policy=policy))
    assert "".join(nodes_by_pod(found)[f"p{i}"] for i in range(4)) == nodes


def test_round_robin_goes_on_where_it_was() -> None:
    rules = Rules(allocation_policy="roundrobin")
    earlier = assumed(gated("early"), "a", {A100: 1})
    assert nodes_by_pod(plan(node("a"), node("b"), earlier, gated("p"), free=9, rules=rules)) == {"p": "b"}
    found = plan(node("a"), node("b"), gated("p"), free=9, rules=rules, last_placed={"a": NOW - 5, "b": NOW - 4})
    assert nodes_by_pod(found) == {"p": "a"}


def test_the_alternative_that_the_pod_prefers_comes_before_an_idle_device() -> None:
    pod = gated("p", [exactly(H100), exactly(T4)])
    found = plan(node("a", stock={T4: Stock(idle(1, T4))}), node("b", present=frozenset({H100})), pod,
                 free={(H100, 1): 1})
    assert nodes_by_pod(found) == {"p": "b"}


def test_a_full_machine_is_followed_by_the_next() -> None:
    pods = [gated(f"p{i}", age=9 - i) for i in range(5)]
    found = plan(node("a", default_limit=2), node("b", default_limit=2), *pods, free=9)
    assert sorted(nodes_by_pod(found).values()) == ["a", "a", "b", "b"]
    assert release(found, "p4").reason == "1 x A100 40G: 0/2 nodes: 2 may have only 2 x A100 40G"


def test_reasons_are_counted_like_the_schedulers() -> None:
    taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
    nodes = [node("n1", taints=[taint]), node("n2", taints=[taint]), node("n3", unschedulable=True),
             node("n4", raw_pod("old", cpu="8"), stock={A100: Stock(idle(1))}), stocked("n5", 2), node("n6")]
    found = plan(*nodes, gated("p", exactly(A100, 2)), free=1)
    assert release(found, "p").reason == (
        "2 x A100 40G: 0/6 nodes: 2 had no free A100 40G on fabric 1, 2 had untolerated taint {a: b}, "
        "1 Insufficient cpu, 1 were unschedulable")


def test_verdict_says_what_for_since_when_where_in_the_queue_and_why() -> None:
    pods = gated("p", age=7), gated("q", [exactly(A100), exactly(T4)], exactly(T4, 2), age=3)
    found = plan(stocked("n", 2), *pods, free={(A100, 1): 0, (T4, 1): 1}, rules=WAIT)
    assert wait_reason(found, "p").waits_for == (
        "1 x A100 40G on a node, position 1 of 1: 0/1 nodes: 1 had no free A100 40G on fabric 1")
    assert (wait_reason(found, "p").since, wait_reason(found, "p").claim) == (NOW - 7, "default/p-gpu")
    assert wait_reason(found, "p").evidence == {
        "pod": "p", "position": 1, "of": 1, "nodes": {"had no free A100 40G on fabric 1": 1}}
    assert "only 1 x T4 in total on fabric 1" in release(found, "q").reason
    assert release(found, "q").reason.startswith("1 x A100 40G or T4, 2 x T4: ")


def test_nothing_to_do() -> None:
    found = plan(node("n"))
    assert (found.placements, found.releases, found.wait_reasons, found.wake_at) == ((), (), (), None)


UNLIKE: dict[str, dict[str, t.Any]] = {
    "blocked": {"blocked": {A100: "it failed"}}, "another fabric": {"fabric": 2}, "no machine": {"machine": None},
    "present": {"present": frozenset({H100})}, "limit": {"default_limit": 0},
    "stock": {"stock": {A100: Stock(bound=1, limit=1)}}}


@pytest.mark.parametrize("more", UNLIKE.values(), ids=UNLIKE)
def test_nodes_that_are_not_alike_are_asked_about_each(more: dict[str, t.Any]) -> None:
    """Only for nodes that are alike is the supplier asked once."""
    assert signature(node("a")) == signature(node("b"))
    assert signature(node("a")) != signature(node("b", **more))
    for first, second in (("a", "b"), ("b", "a")):
        found = plan(node(first), node(second, **more), gated("p", exactly(A100, 1)), free={(A100, 1): 1})
        assert nodes_by_pod(found) == {"p": first}


def test_idle_devices_are_a_nodes_own() -> None:
    assert signature(stocked("a", ready=1)) is None
