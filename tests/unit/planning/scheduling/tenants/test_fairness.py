# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Namespaces share the fabric: each has its quota, its rate and its turn, and nobody withholds all of it."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import GatedPod, Stock
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, NOW, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    Rules,
    exactly,
    gated,
    idle,
    node,
    nodes_by_pod,
    plan,
    wait_reason,
)


def rules(unserved: str = "release", quotas: dict[str, dict[str, int]] | None = None,
          attaches: dict[str, int] | None = None) -> Rules:
    """Settings with these shares."""
    return Rules(unserved=unserved, shares=Shares(quotas or {}, attaches or {}))


def of(namespace: str, pod: GatedPod) -> GatedPod:
    """The same pod in another namespace."""
    pod.raw["metadata"]["namespace"] = namespace
    return pod


class TestQuota:
    """Of devices of a model."""

    RULES = rules(quotas={"default": {A100: 2, "*": 1}, "*": {"*": 3}})

    def test_pod_beyond_it_waits_and_others_go_on(self) -> None:
        pods = [gated(f"p{number}", age=9 - number) for number in range(3)]
        found = plan(node("n"), *pods, of("other", gated("q", age=1)), free=9, rules=self.RULES,
                     used={("default", A100): 1})
        assert set(nodes_by_pod(found)) == {"p0", "q"}
        assert found.releases == (), "it would get the device through the pool"
        assert f"namespace default has 2 of 2 x {A100} (namespace_quotas)" in wait_reason(found, "p1").waits_for

    def test_group_is_within_it_or_waits_whole(self) -> None:
        pods = [gated(f"p{number}", age=9 - number, group=("default/g", 3)) for number in range(3)]
        found = plan(node("n"), *pods, gated("single", age=1), free=9, rules=self.RULES)
        assert set(nodes_by_pod(found)) == {"single"}

    def test_nobody_is_bounded_who_is_not_named(self) -> None:
        found = plan(node("n"), gated("p"), free=1, rules=rules(quotas={"other": {"*": 0}}))
        assert nodes_by_pod(found) == {"p": "n"}

    @pytest.mark.parametrize(("namespace", "model", "quota"), [
        ("default", A100, 2), ("default", T4, 1), ("other", A100, 3)])
    def test_star_stands_for_the_others(self, namespace: str, model: str, quota: int) -> None:
        assert self.RULES.shares.quota(namespace, model) == quota


class TestRate:
    """Of attaches in a minute."""

    RULES = rules(attaches={"default": 2})

    def test_pod_beyond_it_waits_until_the_minute_is_over(self) -> None:
        pods = [gated(f"p{number}", age=9 - number) for number in range(3)]
        found = plan(node("n"), *pods, free=9, rules=self.RULES, attached={"default": (NOW - 50,)})
        assert set(nodes_by_pod(found)) == {"p0"}
        assert found.wake_at == NOW + 10
        assert "namespace_attaches_per_minute" in wait_reason(found, "p2").waits_for

    def test_idle_devices_are_not_bounded(self) -> None:
        stock = {A100: Stock(idle=idle(2))}
        found = plan(node("n", stock=stock), gated("a"), gated("b"), rules=self.RULES,
                     attached={"default": (NOW - 1, NOW)})
        assert len(nodes_by_pod(found)) == 2

    def test_more_than_a_minutes_come_together_when_it_is_empty(self) -> None:
        assert len(plan(node("n"), gated("p", exactly(A100, 3)), free=9, rules=self.RULES).placements) == 1
        before = {"default": (NOW - 1,)}
        found = plan(node("n"), gated("p", exactly(A100, 3)), free=9, rules=self.RULES, attached=before)
        assert found.wake_at == NOW + 59


class TestTurn:
    """Of equal priority each namespace has one pod in turn."""

    def test_old_pods_of_one_namespace_do_not_go_before_all_others(self) -> None:
        many = [gated(f"p{number}", age=99 - number) for number in range(5)]
        found = plan(node("n"), *many, of("other", gated("q", age=1)), of("third", gated("r", age=2)), free=3)
        assert set(nodes_by_pod(found)) == {"p0", "q", "r"}

    def test_priority_goes_before(self) -> None:
        high = [gated(f"p{number}", age=1, priority=5) for number in range(2)]
        assert set(nodes_by_pod(plan(node("n"), *high, of("other", gated("q", age=9)), free=2))) == {"p0", "p1"}

    def test_priority_is_bounded_as_that_of_users_is(self) -> None:
        system = of("other", gated("s", age=1, priority=2_000_000_000))
        found = plan(node("n"), gated("p", age=9, priority=1_000_000_000), system, free=1)
        assert set(nodes_by_pod(found)) == {"p"}


def test_one_namespace_withholds_devices_for_one_entry_only() -> None:
    """Each of its pods waits for more than there is, of another model."""
    stock = {model: Stock(idle=idle(1, model, "n")) for model in (A100, T4)}
    free = {(A100, 1): 0, (T4, 1): 0, (H100, 1): 0}
    greedy = [gated(model, exactly(model, 2), age=99 - number) for number, model in enumerate((A100, T4))]
    other = [of("other", gated(f"small-{model}", exactly(model, 1), age=1)) for model in (A100, T4)]
    more = node("m", stock={model: Stock(bound=1) for model in (A100, T4)})
    found = plan(node("n", stock=stock), more, *greedy, *other, free=free, rules=rules("wait"))
    assert set(nodes_by_pod(found)) == {f"small-{T4}"}
