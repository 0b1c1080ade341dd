# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases 1 to 4 and traps A and B: what becomes of pods, devices and nodes, with Cluster Autoscaler's stand-in."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.controller.autoscaler.config import AutoscalerConfig
from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, ProviderError, Refused
from ansible_collections.composable.infra.controller.autoscaler.providers import table
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.requests import SCALE_DOWN_DISABLED
from ansible_collections.composable.infra.lab.autoscaling.stand_in import DISABLED, SOFT, AutoscalerStandIn, LoopEnded
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused as FabricRefused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.conftest import Clock
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.world import GROUPS, World
from ansible_collections.composable.infra.tests.unit.reconcile import held_pods, objects

Asking = Callable[..., AutoscalerStandIn]
Json = dict[str, t.Any]


class Machines:
    """A provider of nodes in memory: a node comes when ``arrive`` is called."""

    def __init__(self, world: World | None = None) -> None:
        self.world, self.ordered, self.removed = world, 0, list[str]()
        self.error = ""

    def provider(self) -> NodeProvider:
        """A row as the table has."""
        return NodeProvider(lambda: self.ordered, self._grow, self._shrink)

    def _grow(self, count: int) -> None:
        if self.error:
            raise ProviderError(self.error)
        self.ordered += count

    def _shrink(self, node: str) -> None:
        assert self.world
        if node not in self.removed:
            self.removed.append(node)
            self.world.remove_node(node)

    def arrive(self, name: str) -> None:
        """One that was ordered has joined."""
        assert self.world
        self.ordered -= 1
        self.world.add_node(name)


@pytest.fixture
def machines(world: World, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """The group of real nodes may grow to five."""
    made = Machines(world)
    monkeypatch.setitem(table.PROVIDERS, "static", lambda *_unused: made.provider())
    return made


def regroup(world: World, **more: t.Any) -> None:
    """A new process with another configuration."""
    group = {"id": "nodes", "max_size": 5, "fabric": 1, "template": {"cpu": "8", "memory": "32Gi"},
             "provider": {"kind": "static"}, **more.pop("nodes", {})}
    config = {**GROUPS, "nodes": [group], **more}
    world.groups = AutoscalerConfig.from_dict(config, world.config.settings)
    world.start()


def note(world: World, node: str, name: str) -> str | None:
    """An annotation of a node."""
    found: Json = world.api.one(NODES, node)["metadata"].get("annotations") or {}
    return found.get(name)


def live(world: World, node: str) -> int:
    """ComposableResources of a node."""
    return sum(raw["spec"]["target_node"] == node for raw in world.api.of(COMPOSABLE_RESOURCES))


def serve(world: World, name: str = "train", count: int = 1, **spec: t.Any) -> str:
    """A pod gets its devices; on which node."""
    world.pod(name, count, **spec)
    world.sync()
    world.provider.increase("vertical", 1)
    world.tick()
    return world.bound(name)


# Case 1, with a node instead of a device


def test_node_is_added_where_no_device_helps_and_the_device_follows(world: World, machines: Machines) -> None:
    regroup(world)
    for node in ("node-0", "node-1"):
        world.api.client.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
    world.pod("train", 2)
    world.sync()
    world.provider.increase("vertical", 1)
    assert machines.ordered == 0, "the provider is asked after the call"
    world.provider.increase("vertical", 1)
    world.tick()
    assert machines.ordered == 1, "and once for two calls"
    assert world.provider.target_size("vertical") == 2, "it stays up until the devices of the new node are there"
    world.provider.increase("vertical", 1)
    assert machines.ordered == 1, "one that is coming is not ordered again"
    machines.arrive("node-2")
    world.tick(3)
    assert world.bound("train") == "node-2"
    assert world.provider.target_size("vertical") == 0


def test_restart_orders_no_second_node(world: World, machines: Machines) -> None:
    regroup(world, nodes={"template": {"cpu": "32", "memory": "32Gi"}})
    world.pod("plain", 0, cpu="20")
    world.sync()
    world.provider.increase("vertical", 1)
    world.provider.step()
    assert machines.ordered == 1
    world.start()
    world.provider.increase("vertical", 1)
    world.provider.step()
    assert machines.ordered == 1


def test_provider_that_orders_nothing_fails_the_call_with_its_reason(
        world: World, machines: Machines) -> None:
    regroup(world)
    machines.error = "no spare machine answers"
    for name in ("first", "second"):
        world.pod(name, 0, cpu="8")
        world.schedule()
    world.pod("third", 0, cpu="8")
    world.sync()
    world.provider.increase("vertical", 1)
    world.tick()
    ((name, code, kind, reason),) = world.provider.failed("vertical")
    assert (code, kind) == ("NoNode", 1)
    assert "no spare machine answers" in reason
    world.provider.delete("vertical", [(name, name)])
    assert world.provider.target_size("vertical") == 0


def test_device_that_is_refused_on_a_node_is_asked_for_on_another(world: World) -> None:
    world.fabric.answers = [FabricRefused("the slot is broken")]
    node = serve(world)
    world.tick(3)
    assert world.bound("train")
    assert len(world.fabric.attached) == 1
    assert world.provider.target_size("vertical") == 0
    assert node in ("", world.bound("train"))


# Pods that our gate held (unserved: release)


def test_pod_that_the_gate_let_go_is_served_by_the_call_and_never_held_again(
        world: World, machines: Machines) -> None:
    """One owner of each decision: the gate's planner until it lets the pod go, the provider from then on."""
    regroup(world)
    world.api.put(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": held_pods.opted_in("default")})
    for node in ("node-0", "node-1"):
        world.api.client.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
    world.pod("train", schedulingGates=[{"name": pods.GATE}])
    world.sync()
    assert not world.cluster.waiting(), "the gate's planner has it"
    world.bench.reconcile(GatesKey())
    raw = world.api.one(PODS, "train", "default")
    assert not raw["spec"].get("schedulingGates"), "no node can serve it, so it is let go"
    world.sync()
    world.provider.increase("vertical", 1)
    for _unused in range(3):
        world.tick(1)
        world.bench.reconcile(GatesKey())
    assert machines.ordered == 1
    machines.arrive("node-2")
    world.tick(3)
    assert world.bound("train") == "node-2"
    assert len(world.fabric.attaches) == 1
    assert not world.api.one(PODS, "train", "default")["spec"].get("schedulingGates")


# Case 2


def test_pod_that_cluster_autoscaler_adds_nothing_for_gets_a_device(world: World) -> None:
    world.pod("train")
    world.told("train", "NotTriggerScaleUp", format_time(time.time()))
    world.sync()
    world.provider.serve_untriggered()
    assert world.provider.target_size("vertical") == 0, "nobody asked, so nothing is told"
    world.tick()
    assert world.bound("train")


def test_pod_without_such_an_event_or_with_an_old_one_is_left_to_the_call(world: World) -> None:
    world.pod("train")
    world.pod("old")
    world.told("old", "NotTriggerScaleUp", format_time(time.time() - 3600))
    world.sync()
    world.provider.serve_untriggered()
    world.tick()
    assert world.fabric.attaches == []


def test_no_node_is_added_for_them(world: World, machines: Machines) -> None:
    regroup(world)
    world.pod("plain", 0, cpu="8")
    world.told("plain", "NotTriggerScaleUp", format_time(time.time()))
    world.sync()
    world.provider.serve_untriggered()
    assert machines.ordered == 0


# Case 3


def test_node_stays_its_idle_devices_go_and_it_is_asked_for_once(
        world: World, asking: Asking, clock: Clock) -> None:
    node = serve(world)
    world.end("train")
    standin = asking(scale_down_unneeded_time=15.0)
    for _unused in range(8):
        standin.loop()
        world.tick(1)
        clock.now += 10
    assert live(world, node) == 0
    assert world.fabric.attached == {}
    assert len(world.api.of(NODES)) == 2
    asked = [each.nodes[0].name for each in standin.asked("NodeGroupDeleteNodes")]
    assert sorted(asked) == ["node-0", "node-1"], "once for each node, then quiet"
    assert {note(world, name, DISABLED) for name in ("node-0", "node-1")} == {"true"}
    assert not any(world.api.one(NODES, name)["spec"].get("unschedulable") for name in ("node-0", "node-1"))


def test_soft_taint_is_enough_for_the_idle_devices_to_go(world: World) -> None:
    node = serve(world)
    world.end("train")
    taint = {"key": SOFT, "value": "1", "effect": "PreferNoSchedule"}
    world.api.client.merge_patch(NODES, node, {"spec": {"taints": [taint]}})
    world.tick(3)
    assert live(world, node) == 0
    assert note(world, node, DISABLED) is None


def test_device_that_is_in_use_stays_whatever_is_asked(world: World) -> None:
    node = serve(world)
    with pytest.raises(Refused, match="1 of its devices are in use") as raised:
        world.provider.delete("nodes", [(node, "")])
    assert raised.value.kind == Kind.FAILED_PRECONDITION
    world.tick(3)
    assert live(world, node) == 1


def test_node_goes_when_power_counts_its_devices_first(world: World, machines: Machines) -> None:
    regroup(world, scale_down={"policy": "power", "node_watts": 300, "device_watts": {"A100 40G": 50}})
    node = serve(world)
    world.end("train")
    world.sync()
    world.provider.delete("nodes", [(node, "")])
    assert world.provider.target_size("nodes") == 1, "lowered within the call"
    assert machines.removed == []
    world.provider.delete("nodes", [(node, "")])
    for _unused in range(4):
        world.tick(1)
        assert not (machines.removed and live(world, node)), "never before its devices are gone"
    assert machines.removed == [node]
    assert world.fabric.attached == {}
    assert world.provider.scale_downs.watts == {"nodes": 350}


def test_restart_goes_on_with_a_node_that_is_being_removed(world: World, machines: Machines) -> None:
    regroup(world, scale_down={"policy": "power"})
    node = serve(world)
    world.end("train")
    world.sync()
    world.provider.delete("nodes", [(node, "")])
    world.start()
    world.tick(4)
    assert machines.removed == [node]


def test_reserve_is_kept_first_and_what_is_beyond_goes(world: World, machines: Machines) -> None:
    regroup(world, scale_down={"policy": "reserve", "reserve_nodes": 1})
    with pytest.raises(Refused, match="1 nodes are kept ready for devices, and 0 are"):
        world.provider.delete("nodes", [("node-0", "")])
    world.provider.delete("nodes", [("node-1", "")])
    world.tick(2)
    assert machines.removed == ["node-1"]


def test_smallest_size_of_a_group_is_kept(world: World, machines: Machines) -> None:
    regroup(world, nodes={"min_size": 2}, scale_down={"policy": "power"})
    with pytest.raises(Refused, match="its group keeps 2 nodes"):
        world.provider.delete("nodes", [("node-0", "")])


def test_kept_node_may_be_asked_for_again_once_it_was_used(world: World) -> None:
    with pytest.raises(Refused):
        world.provider.delete("nodes", [("node-0", "")])
    assert note(world, "node-0", SCALE_DOWN_DISABLED) == "true"
    world.api.client.merge_patch(NODES, "node-1", {"spec": {"unschedulable": True}})
    assert serve(world) == "node-0"
    world.tick(2)
    assert note(world, "node-0", SCALE_DOWN_DISABLED) is None


# Case 4


def test_idle_devices_of_a_node_that_cannot_go_return_alone() -> None:
    """No call tells of it: the scaler returns what is idle past the hold time."""
    world = World(device_no_removal_duration=0)
    try:
        world.pod("stays", 0)
        node = serve(world)
        world.schedule()
        world.end("train")
        world.tick(4)
        assert live(world, node) == 0
        assert world.bound("stays")
    finally:
        world.close()


# Traps


def pool_claim(world: World, node: str) -> None:
    """A pod on a node with a claim from a pool of the fabric."""
    world.api.put(SLICES, objects.pool_slice("a100-0"))
    world.api.put(CLAIMS, objects.claim("pooled", objects.pool_result(), node=node))
    raw = objects.pod("pooled")
    raw["spec"] |= {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    world.api.put(PODS, raw)
    world.sync()


def test_trap_a_node_with_a_claim_of_the_fabric_is_left_out(
        world: World, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    pool_claim(world, "node-0")
    standin = asking()
    standin.loop()
    assert [n["metadata"]["name"] for n in standin.members("nodes")] == ["node-1"]
    assert standin.groups["nodes"].target == 1
    assert len(standin.groups["nodes"].instances) == 1
    monkeypatch.setattr(world.cluster.groups, "left_out", lambda group, name: "")
    with pytest.raises(LoopEnded, match="node-0 can't be sanitized"):
        standin.loop()


def test_trap_a_ends_with_the_claim(world: World) -> None:
    pool_claim(world, "node-0")
    assert world.provider.group_of("node-0") is None
    world.end("pooled")
    world.sync()
    assert world.provider.group_of("node-0")


def test_trap_b_node_without_a_pool_is_left_out_and_an_empty_pool_is_enough(
        world: World, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    world.api.remove(SLICES, "slice-node-1")
    world.sync()
    standin = asking()
    standin.loop()
    assert [n["metadata"]["name"] for n in standin.members("nodes")] == ["node-0"]
    assert standin.unready == set()
    monkeypatch.setattr(world.cluster.groups, "left_out", lambda group, name: "")
    standin.loop()
    assert standin.unready == {"node-1"}, "as it would be"
    monkeypatch.undo()
    world.api.put(SLICES, objects.local_slice(node="node-1"))
    world.sync()
    standin.loop()
    assert len(standin.members("nodes")) == 2


def test_pool_that_is_not_whole_counts_as_none(world: World) -> None:
    item = objects.local_slice(node="node-1")
    item["spec"]["pool"]["resourceSliceCount"] = 2
    world.api.put(SLICES, item)
    world.sync()
    assert world.provider.group_of("node-1") is None


def test_where_no_node_has_a_pool_none_is_left_out(world: World) -> None:
    for name in ("node-0", "node-1"):
        world.api.remove(SLICES, f"slice-{name}")
    world.sync()
    assert world.provider.target_size("nodes") == 2
