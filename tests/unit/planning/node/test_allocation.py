# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for requests that name none: who gets how many, what stays, and why there are too few."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import CreateResource, SetSize
from ansible_collections.composable.infra.plugins.module_utils.planning.node.allocation import (
    DIFFERENT_NODE,
    SAME_NODE,
    Allocation,
    Candidate,
    NodelessRequest,
    allocate,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.capacity import lacks
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import plan_compose
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    ATTACH_DEADLINE,
    NOW,
    attached,
    claim,
    node,
    of,
    one,
    online,
    request,
    settings,
    used,
)

NODES = tuple(Candidate(f"node-{n}", 1) for n in range(4))


def on(name: str, where: int, **more: t.Any) -> ComposableResource:
    """A device of the request on one of the nodes."""
    return online(name, node=f"node-{where}", **more)


def plan(size: int, *children: ComposableResource, policy: str = SAME_NODE, nodes: t.Sequence[Candidate] = NODES,
         free: dict[int, int] | None = None, chosen: t.Iterable[str] = ()) -> Allocation:
    """The allocation of a request of this size."""
    return allocate(NodelessRequest("r", A100, size, policy), children, nodes, {} if free is None else free,
                    dict.fromkeys(chosen, 1))


def test_samenode_takes_the_first_node_for_all() -> None:
    assert plan(3).shares == {"node-0": 3}


def test_differentnode_takes_one_each() -> None:
    assert plan(3, policy=DIFFERENT_NODE).shares == {"node-0": 1, "node-1": 1, "node-2": 1}


@pytest.mark.parametrize("policy", [SAME_NODE, DIFFERENT_NODE])
def test_size_0_takes_none_and_gives_all_up(policy: str) -> None:
    assert plan(0, on("a", 1), on("b", 2), policy=policy) == Allocation({"node-1": 0, "node-2": 0})


@pytest.mark.parametrize("unfit", [
    Candidate("node-0", 1, "not ready"), Candidate("node-0", None), Candidate("node-0", 2),
    Candidate("node-0", 1, "", True),
], ids=["trouble", "no fabric", "fabric without a free device", "of another request"])
def test_node_that_cannot_have_it_is_passed_over(unfit: Candidate) -> None:
    assert plan(2, nodes=(unfit, *NODES[1:]), free={1: 4, 2: 1}).shares == {"node-1": 2}


def test_differentnode_goes_to_a_node_of_another_request_too() -> None:
    assert plan(1, policy=DIFFERENT_NODE, nodes=(Candidate("node-0", 1, "", True),)).shares == {"node-0": 1}


def test_devices_stay_where_they_are() -> None:
    assert plan(3, on("a", 2)).shares == {"node-2": 3}
    assert plan(2, on("a", 2), policy=DIFFERENT_NODE).shares == {"node-2": 1, "node-0": 1}


def test_node_that_was_chosen_and_has_no_device_yet_is_chosen_again() -> None:
    assert plan(1, chosen=["node-3"]).shares == {"node-3": 1}
    assert plan(1, chosen=["node-3"], nodes=(*NODES[:3], Candidate("node-3", 1, "not ready"))).shares == {"node-0": 1}


def test_of_two_nodes_samenode_keeps_the_one_with_more() -> None:
    assert plan(2, on("a", 1), on("b", 2), on("c", 2)).shares == {"node-2": 2, "node-1": 0}


def test_of_several_differentnode_keeps_those_that_upstream_would() -> None:
    """The longest idle one leaves, and a second one on a node."""
    parts = [on("a", 1, last_used=NOW - 9), on("b", 2, last_used=NOW - 1), on("c", 2, last_used=NOW - 2)]
    assert plan(1, *parts, policy=DIFFERENT_NODE).shares == {"node-2": 1, "node-1": 0}
    assert plan(2, *parts, policy=DIFFERENT_NODE).shares == {"node-2": 1, "node-1": 1}


def test_device_that_leaves_does_not_count() -> None:
    assert plan(1, on("a", 2, deleting=True)).shares == {"node-0": 1}


def test_free_devices_of_a_fabric_are_counted_once() -> None:
    nodes = (*NODES[:2], Candidate("node-5", 2))
    assert plan(2, policy=DIFFERENT_NODE, nodes=nodes, free={1: 1, 2: 1}).shares == {"node-0": 1, "node-5": 1}


def test_shortage_gives_nothing_new_and_says_why() -> None:
    nodes = (Candidate("node-0", 1, "not ready"), Candidate("node-1", 1), Candidate("node-2", None))
    found = plan(2, policy=DIFFERENT_NODE, nodes=nodes, free={1: 3})
    assert found == Allocation({}, f"insufficient number of available nodes for 2 x {A100} (differentnode). 3 nodes "
                                   "were checked: not ready (1), on no fabric (1)")
    assert plan(2, on("a", 1), policy=DIFFERENT_NODE, nodes=nodes, free={1: 3}).shares == {"node-1": 1}
    assert "too few free devices" in plan(4, free={1: 3}).error


@pytest.mark.parametrize(("asked", "lacking"), [
    ({}, ""), ({"milli_cpu": 8000, "memory": 2**30, "allowed_pod_number": 110}, ""),
    ({"milli_cpu": 8001}, "milli_cpu requests 8001"), ({"ephemeral_storage": 1}, "has 0 ephemeral-storage"),
    ({"memory": 2**31}, "has 1Gi memory")])
def test_other_spec_is_compared_with_what_the_node_has(asked: dict[str, int], lacking: str) -> None:
    found = lacks("node-0", {"cpu": "8", "memory": "1Gi", "pods": "110"}, asked)
    assert (lacking in found) is True
    assert bool(found) is bool(lacking)


def test_capacity_that_cannot_be_read_is_none() -> None:
    assert "has much cpu" in lacks("node-0", {"cpu": "much"}, {"milli_cpu": 1})


def share(size: int, name: str = "theirs") -> t.Any:
    """A request that names no node, with the share of this one."""
    return request(size, name=name, nodeless=True)


def test_two_nodes_name_their_resources_differently() -> None:
    names = {one(plan_compose(node(share(1), name=each), ATTACH_DEADLINE), CreateResource).name
             for each in ("node-0", "node-1")}
    assert len(names) == 2


@pytest.mark.parametrize("part", [online("r", request="theirs"), used("r", request="theirs", by="default/c"),
                                  attached("r", request="theirs")], ids=["idle", "in use", "coming"])
def test_scaler_leaves_it_alone_and_asks_for_no_second_one(part: ComposableResource) -> None:
    assert of(plan_scale(node(share(1), part), settings()), SetSize) == []
    assert of(plan_scale(node(part, other_requests=frozenset({"theirs"})), settings()), SetSize) == []


def test_idle_device_of_it_serves_a_claim_and_the_second_claim_has_one_of_its_own() -> None:
    found = plan_scale(node(claim("a", age=9), claim("b"), share(1), online("r", request="theirs")), settings())
    action = one(found, SetSize)
    assert (action.size, action.before, action.request != "theirs") == (1, None, True)
