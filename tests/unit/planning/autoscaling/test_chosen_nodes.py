# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node that was chosen for a pod still suits it."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.chosen_nodes import why_not_there
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import NodeFacts, Placement
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    assumed,
    gated,
    make_snapshot,
    node,
    raw_pod,
)


def why(there: NodeFacts, *placements: Placement, cpu: str = "4") -> str:
    """What is said of a pod that waits for devices on node a."""
    pod = gated("p", schedulingGates=[], cpu=cpu)
    snapshot = make_snapshot(there, assumed(pod, "a", {A100: 1}), *placements, free=1)
    return why_not_there(snapshot, dict(pod.raw), "a", ParseCache())


def test_node_with_room_suits_it_and_its_own_placement_takes_none() -> None:
    assert why(node("a", allocatable={"cpu": "4"})) == ""


@pytest.mark.parametrize(("there", "said"), [
    (node("a", raw_pod("quick", cpu="6")), "cpu"),
    (node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]), "taint"),
    (node("a", unschedulable=True), "unschedulable"),
    (node("b"), "the node is gone")], ids=["no room", "taint", "cordon", "gone"])
def test_node_that_changed_does_not(there: NodeFacts, said: str) -> None:
    assert said in why(there)


def test_room_that_another_pod_waits_for_is_taken() -> None:
    other = gated("other", schedulingGates=[], cpu="4")
    assert "cpu" in why(node("a", allocatable={"cpu": "6"}), assumed(other, "a", {A100: 1}))


def test_pod_that_cannot_be_read_says_so() -> None:
    assert "much" in why(node("a"), cpu="much")
