# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach or add a node: which of them a plan chooses, for which pods, and how long that takes in a large cluster."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import (
    MOST_NEW_NODES,
    NodeOption,
    ScaleUpPlan,
    ScaleUpPolicy,
    plan_scale_up,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    NodeFacts,
    Placement,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, NOW
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    RULES,
    assumed,
    device,
    device_class,
    exactly,
    gated,
    idle,
    make_snapshot,
    node,
    raw_pod,
    ref,
)

RESOURCE = "nvidia.com/gpu"


def waiting(name: str, *asks: t.Any, **more: t.Any) -> GatedPod:
    """A pod that the scheduler could place nowhere: no gate holds it."""
    return gated(name, *asks, schedulingGates=[], **more)


def plain(name: str, cpu: str = "4", **more: t.Any) -> GatedPod:
    """A pod that asks for cpu only."""
    return GatedPod(raw_pod(name, cpu=cpu, **more), {}, NOW - 5)


def extended(name: str, count: int = 1) -> GatedPod:
    """A pod that asks by an extended resource."""
    raw = raw_pod(name)
    raw["spec"]["containers"][0]["resources"]["requests"] |= {RESOURCE: str(count)}
    return GatedPod(raw, {}, NOW - 5)


def option(group: str = "nodes", room: int = 5, cpu: str = "8", **more: t.Any) -> NodeOption:
    """A group that can grow."""
    node = Node(group, labels=more.pop("labels", {}), taints=tuple(more.pop("taints", ())),
                allocatable={"cpu": cpu, "memory": "16Gi", "pods": "110"})
    return NodeOption(group, node, room, **{"fabric": 1, **more})


def plan(*parts: NodeFacts | GatedPod | Placement, options: tuple[NodeOption, ...] = (),
         policy: ScaleUpPolicy | None = None, **more: t.Any) -> ScaleUpPlan:
    """The plan for a view made of parts."""
    return plan_scale_up(make_snapshot(*parts, **more), RULES, options, policy)


def attached(found: ScaleUpPlan) -> dict[str, str]:
    """Node by pod."""
    return {each.pod.name: each.node for each in found.attaches}


def test_device_is_attached_where_the_pod_has_room() -> None:
    full = node("full", raw_pod("old", cpu="8"))
    found = plan(full, node("free"), waiting("p"), free=1, options=(option(),))
    assert attached(found) == {"p": "free"}
    assert not found.nodes
    assert not found.refused


def test_extended_resource_is_served_like_a_claim() -> None:
    classes = {CLASS: device_class(extendedResourceName=RESOURCE)}
    found = plan(node("a"), extended("p", 2), free={(A100, 1): 2, (H100, 1): 0}, classes=classes,
                 excluded=frozenset({H100}))
    assert attached(found) == {"p": "a"}
    (placement,) = found.attaches
    assert placement.needs == {"default/pod-p": {A100: 2}}


def test_several_pods_share_a_plan_and_a_device_is_promised_once() -> None:
    found = plan(node("a"), *(waiting(f"p{i}", age=9 - i) for i in range(3)), free=2)
    assert attached(found) == {"p0": "a", "p1": "a"}
    assert set(found.refused) == {ref("p2")}
    assert "no free A100 40G on fabric 1" in found.refused[ref("p2")]


@pytest.mark.parametrize(("there", "why"), [
    (node("a", raw_pod("old", cpu="8")), "cpu"),
    (node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]), "taint"),
    (node("a", machine=None, fabric=None), "machine"),
], ids=["no room", "taint", "no fabric"])
def test_node_is_added_where_no_device_helps(there: NodeFacts, why: str) -> None:
    assert why in plan(there, waiting("p"), free=1).refused[ref("p")]
    found = plan(there, waiting("p"), free=1, options=(option(),))
    assert not found.attaches
    assert not found.refused
    assert found.nodes == {"nodes": 1}
    assert found.on_new_nodes == {ref("p"): "nodes"}


def test_no_node_is_added_for_a_device_that_nobody_has() -> None:
    found = plan(node("a"), waiting("p"), free=0, options=(option(),))
    assert not found.nodes
    assert "only 0 x A100 40G in total" in found.refused[ref("p")]


def test_node_is_not_added_for_a_device_that_another_pod_of_the_plan_gets() -> None:
    found = plan(node("a", allocatable={"cpu": "1"}), waiting("old", age=9), waiting("young"), free=1,
                 options=(option(),))
    assert attached(found) == {"old": "a"}
    assert not found.nodes
    assert set(found.refused) == {ref("young")}


def test_as_many_nodes_as_serve_a_pod_more() -> None:
    pods = [plain(f"p{i}", cpu="4") for i in range(5)]
    found = plan(*pods, options=(option(cpu="8"),))
    assert found.nodes == {"nodes": 3}
    assert len(found.on_new_nodes) == 5


def test_no_more_nodes_than_the_group_has_room_for() -> None:
    pods = [plain(f"p{i}", cpu="8") for i in range(3)]
    found = plan(*pods, options=(option(room=2),))
    assert found.nodes == {"nodes": 2}
    assert len(found.refused) == 1


def test_the_number_of_nodes_in_a_plan_is_bounded() -> None:
    pods = [plain(f"p{i}", cpu="8") for i in range(MOST_NEW_NODES + 5)]
    assert plan(*pods, options=(option(room=1000),)).nodes == {"nodes": MOST_NEW_NODES}


def test_the_cheaper_group_grows_first_and_the_other_for_what_is_left() -> None:
    pods = [plain(f"p{i}", cpu="8") for i in range(3)]
    found = plan(*pods, options=(option("dear", cost=9.0), option("cheap", room=2, cost=1.0)))
    assert found.nodes == {"cheap": 2, "dear": 1}


def test_selector_and_taint_of_a_new_node_count() -> None:
    picky = plain("p", nodeSelector={"zone": "a"})
    assert not plan(picky, options=(option(labels={"zone": "b"}),)).nodes
    assert plan(picky, options=(option(labels={"zone": "a"}),)).nodes == {"nodes": 1}
    tainted = option(taints=[{"key": "k", "effect": "NoSchedule"}])
    assert not plan(plain("p"), options=(tainted,)).nodes


def test_node_that_brings_devices_is_chosen_when_that_costs_less() -> None:
    samples = {A100: (device(),)}
    brings = option(devices={A100: 4}, cost=3.0)
    pods = [waiting("big", exactly(A100, 4)), waiting("small")]
    found = plan(node("a"), *pods, free=5, samples=samples, options=(brings,))
    assert attached(found) == {"small": "a"}
    assert found.nodes == {"nodes": 1}
    assert found.on_new_nodes == {ref("big"): "nodes"}
    dear_node = plan(node("a"), *pods, free=5, samples=samples, options=(option(devices={A100: 4}, cost=5.0),))
    assert attached(dear_node) == {"small": "a", "big": "a"}


def test_dear_attach_is_done_all_the_same_when_the_node_cannot_serve_the_pod() -> None:
    samples = {A100: (device(),)}
    brings = option(devices={A100: 4}, cost=0.5, labels={"zone": "b"})
    found = plan(node("a", labels={"zone": "a"}), waiting("p", nodeSelector={"zone": "a"}), free=1, samples=samples,
                 options=(brings,))
    assert attached(found) == {"p": "a"}
    assert not found.refused


def test_attaches_are_weighed_by_model() -> None:
    samples = {A100: (device(),)}
    brings = option(devices={A100: 1}, cost=3.0)
    policy = ScaleUpPolicy(attach_costs={A100: 4.0})
    found = plan(node("a"), waiting("p"), free=1, samples=samples, options=(brings,), policy=policy)
    assert found.nodes == {"nodes": 1}


@pytest.mark.parametrize(("methods", "attaches", "nodes"), [
    (("share", "attach", "node"), {"p": "a"}, {}), (("node", "attach"), {}, {"nodes": 1}),
    (("node",), {}, {"nodes": 1}), (("attach",), {"p": "a"}, {}), (("share",), {}, {})], ids=str)
@pytest.mark.parametrize("cost", [0.5, 9.0])
def test_methods_of_a_model_come_in_their_order_whatever_they_cost(
        methods: tuple[str, ...], attaches: dict[str, str], nodes: dict[str, int], cost: float) -> None:
    policy = ScaleUpPolicy(methods={A100: methods})
    found = plan(node("a"), waiting("p"), free=1, samples={A100: (device(),)}, policy=policy,
                 options=(option(devices={A100: 1}, cost=cost),))
    assert (attached(found), dict(found.nodes)) == (attaches, nodes)
    assert bool(found.refused) == (not attaches and not nodes)


def test_node_that_brings_no_device_serves_nobody_whose_model_is_not_attached() -> None:
    """It would wait there for an attach that never comes."""
    for policy in (ScaleUpPolicy(methods={A100: ("node",)}), ScaleUpPolicy(not_attached=frozenset({A100}))):
        found = plan(node("a"), waiting("p"), free=1, samples={A100: (device(),)}, policy=policy, options=(option(),))
        assert not found.nodes
        assert set(found.refused) == {ref("p")}
        brings = option(devices={A100: 1})
        assert plan(node("a"), waiting("p"), free=1, samples={A100: (device(),)}, policy=policy,
                    options=(brings,)).nodes == {"nodes": 1}


def test_attach_comes_where_no_node_can_although_nodes_come_first() -> None:
    policy = ScaleUpPolicy(methods={A100: ("node", "attach")})
    found = plan(node("a"), waiting("p"), free=1, samples={A100: (device(),)}, policy=policy)
    assert attached(found) == {"p": "a"}


def test_model_that_is_not_attached_for_the_autoscaler() -> None:
    policy = ScaleUpPolicy(not_attached=frozenset({A100}))
    found = plan(node("a"), waiting("p"), free=1, policy=policy)
    assert not found.attaches
    assert set(found.refused) == {ref("p")}


def test_devices_that_come_back_are_waited_for() -> None:
    found = plan(node("a", stock={A100: Stock(limit=4)}), waiting("p"), free=0, returning={(A100, 1): 1},
                 options=(option(),))
    assert set(found.waiting) == {ref("p")}
    assert not found.nodes
    assert not found.refused


def test_pod_that_an_earlier_plan_served_is_not_planned_again() -> None:
    pod = waiting("p")
    found = plan(node("a"), pod, assumed(pod, "a", {A100: 1}), waiting("other"), free=2)
    assert attached(found) == {"other": "a"}
    assert ref("p") not in found.refused


def test_pod_that_cannot_be_read_is_refused_alone() -> None:
    broken = plain("broken", cpu="much")
    found = plan(node("a"), broken, waiting("p"), free=1, options=(option(),))
    assert attached(found) == {"p": "a"}
    assert set(found.refused) == {ref("broken")}


def test_each_of_50_pods_is_decided_at_5000_nodes() -> None:
    """Of a process that has read the nodes before, as one that watches them has; and a group that grows."""
    nodes = [node(f"node-{i}", *(raw_pod(f"old-{i}-{j}", cpu="100m") for j in range(10)), allocatable={"cpu": "16"},
                  stock={A100: Stock(idle(1, node=f"n{i}") if i % 50 == 0 else (), bound=2, limit=8)})
             for i in range(5000)]
    pods = [waiting(f"p{i}", exactly(A100, 1 + i % 4), cpu=f"{1 + i % 20}") for i in range(50)]
    cache = ParseCache()
    plan_scale_up(make_snapshot(*nodes, free=500), RULES, (option(cpu="64"),), cache=cache)
    began = time.process_time()
    found = plan_scale_up(make_snapshot(*nodes, *pods, free=500), RULES, (option(cpu="64"),), cache=cache)
    print(f"decided in {time.process_time() - began:.2f} s of processor time")
    assert len(found.attaches) + len(found.on_new_nodes) == 50
