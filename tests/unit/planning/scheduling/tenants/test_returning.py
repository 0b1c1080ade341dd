# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that are on their way back to the fabric are supply with a time: pods wait for them, but not for ever."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.tests.unit.planning.builders import A100, NOW
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    exactly,
    gated,
    node,
    nodes_by_pod,
    plan,
    release,
    wait_reason,
)

BACK = {(A100, 1): 1}


@pytest.mark.parametrize("age", [1.0, 59.0])
def test_pod_waits_for_a_device_that_comes_back(age: float) -> None:
    found = plan(node("n"), gated("p", age=age), returning=BACK)
    assert (found.placements, found.releases, found.wake_at) == ((), (), NOW - age + 60)
    assert "Devices are returning to the fabric" in wait_reason(found, "p").waits_for


def test_pod_that_waited_long_enough_is_let_go() -> None:
    assert release(plan(node("n"), gated("p", age=60.0), returning=BACK), "p").unschedulable


@pytest.mark.parametrize("returning", [{}, {(A100, 2): 3}], ids=["none", "to another fabric"])
def test_pod_is_let_go_at_once_where_nothing_comes_back(returning: dict[tuple[str, int], int]) -> None:
    assert release(plan(node("n"), gated("p"), returning=returning), "p").unschedulable


def test_each_device_is_waited_for_by_one_pod() -> None:
    pods = [gated(f"p{number}", age=9 - number) for number in range(4)]
    found = plan(node("n"), *pods, returning=BACK, free=1)
    assert nodes_by_pod(found) == {"p0": "n"}
    assert [each.evidence["pod"] for each in found.wait_reasons] == ["p1"]
    assert [each.pod.name for each in found.releases] == ["p2", "p3"]


def test_what_is_there_is_kept_for_the_pod_that_waits_for_the_rest() -> None:
    found = plan(node("n"), gated("two", exactly(A100, 2), age=9), gated("one", age=8), returning=BACK, free=1)
    assert [each.evidence["pod"] for each in found.wait_reasons] == ["two"]
    assert [each.pod.name for each in found.releases] == ["one"]


def test_group_waits_as_a_whole() -> None:
    pods = [gated(f"p{number}", age=9 - number, group=("default/g", 2)) for number in range(2)]
    found = plan(node("n"), *pods, returning={(A100, 1): 2})
    assert (len(found.wait_reasons), found.releases) == (2, ())
    assert len(plan(node("n"), *pods, returning=BACK).releases) == 2


def test_pod_that_no_node_suits_does_not_wait() -> None:
    found = plan(node("n", unschedulable=True), gated("p"), returning=BACK)
    assert release(found, "p").unschedulable
