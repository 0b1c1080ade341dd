# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases 1 to 4 and traps A and B: what becomes of pods, devices and nodes, with Cluster Autoscaler's stand-in."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.requests import SCALE_DOWN_DISABLED, RequestWriter
from ansible_collections.composable.infra.lab.autoscaling.stand_in import DISABLED, SOFT, AutoscalerStandIn, LoopEnded
from ansible_collections.composable.infra.lab.hardware.agent_identity import agent_pod
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
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import Placement
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.conftest import Clock
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects

Asking = Callable[..., AutoscalerStandIn]
Json = dict[str, t.Any]


def note(testbed: Testbed, node: str, name: str) -> str | None:
    """An annotation of a node."""
    found: Json = testbed.api.one(NODES, node)["metadata"].get("annotations") or {}
    return found.get(name)


def live(testbed: Testbed, node: str) -> int:
    """ComposableResources of a node."""
    return sum(raw["spec"]["target_node"] == node for raw in testbed.api.of(COMPOSABLE_RESOURCES))


def serve(testbed: Testbed, name: str = "train", count: int = 1, **spec: t.Any) -> str:
    """A pod gets its devices; on which node."""
    testbed.pod(name, count, **spec)
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.tick()
    return testbed.bound(name)


def test_a_decision_is_told_before_anybody_acts_on_it(testbed: Testbed, monkeypatch: pytest.MonkeyPatch,
                                                      caplog: pytest.LogCaptureFixture) -> None:
    def written(writer: RequestWriter, placements: Iterable[Placement], until: float) -> None:
        told.append("AttachDecided pod default/train: node node-0" in caplog.text)
        ask(writer, placements, until)

    ask, told = RequestWriter.ask, list[bool]()
    monkeypatch.setattr(RequestWriter, "ask", written)
    caplog.set_level("INFO", "composable.infra")
    assert serve(testbed) == "node-0"
    assert told == [True]


# Case 1, with a node instead of a device


def test_node_is_added_where_no_device_helps_and_the_device_follows(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed)
    for node in ("node-0", "node-1"):
        testbed.api.client.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
    testbed.pod("train", 2)
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    assert machines.ordered == 0, "the provider is asked after the call"
    testbed.provider.increase("vertical", 1)
    testbed.tick()
    assert machines.ordered == 1, "and once for two calls"
    assert testbed.provider.target_size("vertical") == 2, "it stays up until the devices of the new node are there"
    testbed.provider.increase("vertical", 1)
    assert machines.ordered == 1, "one that is coming is not ordered again"
    machines.arrive("node-2")
    testbed.tick(3)
    assert testbed.bound("train") == "node-2"
    assert testbed.provider.target_size("vertical") == 0


def test_restart_orders_no_second_node(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, nodes={"template": {"cpu": "32", "memory": "32Gi"}})
    testbed.pod("plain", 0, cpu="20")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.step()
    assert machines.ordered == 1
    testbed.start()
    testbed.provider.increase("vertical", 1)
    testbed.step()
    assert machines.ordered == 1


def test_provider_that_orders_nothing_fails_the_call_with_its_reason(
        testbed: Testbed, machines: Machines) -> None:
    regroup(testbed)
    machines.error = "no spare machine answers"
    for name in ("first", "second"):
        testbed.pod(name, 0, cpu="8")
        testbed.schedule()
    testbed.pod("third", 0, cpu="8")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.tick()
    ((name, code, kind, reason),) = testbed.provider.failed("vertical")
    assert (code, kind) == ("NoNode", 1)
    assert "no spare machine answers" in reason
    testbed.provider.delete("vertical", [(name, name)])
    assert testbed.provider.target_size("vertical") == 0


def test_order_that_is_denied_fails_the_call_with_its_reason(testbed: Testbed, machines: Machines) -> None:
    """An approval comes long after the order."""
    regroup(testbed)
    for name in ("first", "second"):
        testbed.pod(name, 0, cpu="8")
    testbed.schedule()
    testbed.pod("third", 0, cpu="8")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.tick()
    assert testbed.provider.failed("vertical") == []
    machines.denied = "the approval may it grow was denied"
    testbed.tick()
    ((_name, code, _kind, reason),) = testbed.provider.failed("vertical")
    assert code == "NoNode"
    assert "group nodes: the approval may it grow was denied" in reason


def test_device_that_is_refused_on_a_node_is_asked_for_on_another(testbed: Testbed) -> None:
    testbed.fabric.answers = [FabricRefused("the slot is broken")]
    node = serve(testbed)
    testbed.tick(3)
    assert testbed.bound("train")
    assert len(testbed.fabric.attached) == 1
    assert testbed.provider.target_size("vertical") == 0
    assert node in ("", testbed.bound("train"))


@pytest.mark.parametrize("asked_again", [False, True])
def test_pod_whose_chosen_node_has_no_room_any_more_gets_another(testbed: Testbed, asked_again: bool) -> None:
    """The scheduler keeps no room for it while its devices come."""
    testbed.pod("train", cpu="5")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    (chosen, _why), = testbed.cluster.asked().values()
    other = next(name for name in ("node-0", "node-1") if name != chosen)
    testbed.pod("quick", 0, cpu="5")
    raw = testbed.api.one(PODS, "quick", "default")
    testbed.api.put(PODS, {**raw, "spec": {**raw["spec"], "nodeName": chosen}, "status": {"phase": "Running"}})
    if asked_again:
        testbed.provider.decrease("vertical", -1)
    testbed.tick(3)
    if asked_again:
        testbed.provider.increase("vertical", 1)
        testbed.tick(2)
    assert testbed.bound("train") == other
    assert testbed.provider.target_size("vertical") == 0


def test_devices_asked_for_by_an_earlier_process_are_given_up_where_there_is_no_room(testbed: Testbed) -> None:
    """No call waits for them: the pod waits for the next one."""
    testbed.pod("train", cpu="5")
    testbed.told("train", "NotTriggerScaleUp", format_time(time.time()))
    testbed.sync()
    testbed.provider.serve_untriggered()
    (chosen, _why), = testbed.cluster.asked().values()
    testbed.api.client.merge_patch(NODES, chosen, {"spec": {"unschedulable": True}})
    testbed.sync()
    testbed.step()
    assert testbed.cluster.asked() == {}
    testbed.provider.serve_untriggered()
    testbed.tick(2)
    assert testbed.bound("train") not in ("", chosen)


def test_events_are_young_by_the_clock_of_the_api_server(testbed: Testbed) -> None:
    """Cluster Autoscaler wrote the time; our clock is an hour ahead of it."""
    testbed.api.clock_ahead = 3600.0
    testbed.pod("train")
    testbed.told("train", "NotTriggerScaleUp", format_time(testbed.api.client.server_time()))
    testbed.sync()
    testbed.provider.serve_untriggered()
    assert len(testbed.cluster.asked()) == 1


# Pods that our gate held (unserved: release)


def test_pod_that_the_gate_let_go_is_served_by_the_call_and_never_held_again(
        testbed: Testbed, machines: Machines) -> None:
    """One owner of each decision: the gate's planner until it lets the pod go, the provider from then on."""
    regroup(testbed)
    testbed.api.put(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")})
    for node in ("node-0", "node-1"):
        testbed.api.client.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
    testbed.pod("train", schedulingGates=[{"name": pods.GATE}])
    testbed.sync()
    assert not testbed.cluster.waiting(), "the gate's planner has it"
    testbed.bench.reconcile(GatesKey())
    raw = testbed.api.one(PODS, "train", "default")
    assert not raw["spec"].get("schedulingGates"), "no node can serve it, so it is let go"
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    for _unused in range(3):
        testbed.tick(1)
        testbed.bench.reconcile(GatesKey())
    assert machines.ordered == 1
    machines.arrive("node-2")
    testbed.tick(3)
    assert testbed.bound("train") == "node-2"
    assert len(testbed.fabric.attaches) == 1
    assert not testbed.api.one(PODS, "train", "default")["spec"].get("schedulingGates")


# Case 2


def test_pod_that_cluster_autoscaler_adds_nothing_for_gets_a_device(testbed: Testbed) -> None:
    testbed.pod("train")
    testbed.told("train", "NotTriggerScaleUp", format_time(time.time()))
    testbed.sync()
    testbed.provider.serve_untriggered()
    assert testbed.provider.target_size("vertical") == 0, "nobody asked, so nothing is told"
    testbed.tick()
    assert testbed.bound("train")


def test_pod_without_such_an_event_or_with_an_old_one_is_left_to_the_call(testbed: Testbed) -> None:
    testbed.pod("train")
    testbed.pod("old")
    testbed.told("old", "NotTriggerScaleUp", format_time(time.time() - 3600))
    testbed.sync()
    testbed.provider.serve_untriggered()
    testbed.tick()
    assert testbed.fabric.attaches == []


def test_no_node_is_added_for_them(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed)
    testbed.pod("plain", 0, cpu="8")
    testbed.told("plain", "NotTriggerScaleUp", format_time(time.time()))
    testbed.sync()
    testbed.provider.serve_untriggered()
    assert machines.ordered == 0


# Case 3


def test_node_stays_its_idle_devices_go_and_it_is_asked_for_once(
        testbed: Testbed, asking: Asking, clock: Clock) -> None:
    node = serve(testbed)
    testbed.end("train")
    standin = asking(scale_down_unneeded_time=15.0)
    for _unused in range(8):
        standin.loop()
        testbed.tick(1)
        clock.now += 10
    assert live(testbed, node) == 0
    assert testbed.fabric.attached == {}
    assert len(testbed.api.of(NODES)) == 2
    asked = [each.nodes[0].name for each in standin.asked("NodeGroupDeleteNodes")]
    assert sorted(asked) == ["node-0", "node-1"], "once for each node, then quiet"
    assert {note(testbed, name, DISABLED) for name in ("node-0", "node-1")} == {"true"}
    assert not any(testbed.api.one(NODES, name)["spec"].get("unschedulable") for name in ("node-0", "node-1"))


@pytest.mark.parametrize("mark", [
    {"ownerReferences": [{"kind": "DaemonSet", "name": "plugin", "controller": True}]},
    {"annotations": agent_pod("node-1")["metadata"]["annotations"]}], ids=["a DaemonSet's", "an agent's of the lab"])
def test_a_daemon_sets_pod_keeps_no_node_and_is_not_drained(
        testbed: Testbed, asking: Asking, clock: Clock, mark: Json) -> None:
    for name, node, more in (("plugin", "node-1", mark), ("work", "node-0", {})):
        testbed.pod(name, 0)
        raw = testbed.api.one(PODS, name, "default")
        raw["metadata"] |= more
        testbed.api.put(PODS, {**raw, "spec": {**raw["spec"], "nodeName": node}})
    standin = asking(scale_down_unneeded_time=15.0)
    for _unused in range(4):
        standin.loop()
        testbed.tick(1)
        clock.now += 10
    assert [each.nodes[0].name for each in standin.asked("NodeGroupDeleteNodes")] == ["node-1"]
    assert testbed.bound("plugin") == "node-1"


def test_soft_taint_is_enough_for_the_idle_devices_to_go(testbed: Testbed) -> None:
    node = serve(testbed)
    testbed.end("train")
    taint = {"key": SOFT, "value": "1", "effect": "PreferNoSchedule"}
    testbed.api.client.merge_patch(NODES, node, {"spec": {"taints": [taint]}})
    testbed.tick(3)
    assert live(testbed, node) == 0
    assert note(testbed, node, DISABLED) is None


def test_device_that_is_in_use_stays_whatever_is_asked(testbed: Testbed) -> None:
    node = serve(testbed)
    with pytest.raises(Refused, match="1 of its devices are in use") as raised:
        testbed.provider.delete("nodes", [(node, "")])
    assert raised.value.kind == Kind.FAILED_PRECONDITION
    testbed.tick(3)
    assert live(testbed, node) == 1


def test_node_goes_when_power_counts_its_devices_first(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "power", "node_watts": 300, "device_watts": {"A100 40G": 50}})
    node = serve(testbed)
    testbed.end("train")
    testbed.sync()
    testbed.provider.delete("nodes", [(node, "")])
    assert testbed.provider.target_size("nodes") == 1, "lowered within the call"
    assert machines.removed == []
    testbed.provider.delete("nodes", [(node, "")])
    for _unused in range(4):
        testbed.tick(1)
        assert not (machines.removed and live(testbed, node)), "never before its devices are gone"
    assert machines.removed == [node]
    assert testbed.fabric.attached == {}
    assert testbed.provider.scale_downs.watts == {"nodes": 350}


def test_watts_of_a_group_count_before_those_of_all_nodes(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, nodes={"watts": 750}, scale_down={"policy": "power", "node_watts": 300})
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.tick(1)
    assert machines.removed == ["node-1"]
    assert testbed.provider.scale_downs.watts == {"nodes": 750}


def test_restart_goes_on_with_a_node_that_is_being_removed(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    node = serve(testbed)
    testbed.end("train")
    testbed.sync()
    testbed.provider.delete("nodes", [(node, "")])
    testbed.start()
    testbed.tick(4)
    assert machines.removed == [node]


def test_reserve_is_kept_first_and_what_is_beyond_goes(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "reserve", "reserve_nodes": 1})
    with pytest.raises(Refused, match="1 nodes must stay ready for devices, and 0 are ready"):
        testbed.provider.delete("nodes", [("node-0", "")])
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.tick(2)
    assert machines.removed == ["node-1"]


def test_smallest_size_of_a_group_is_kept(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, nodes={"min_size": 2}, scale_down={"policy": "power"})
    with pytest.raises(Refused, match="its group needs at least 2 nodes"):
        testbed.provider.delete("nodes", [("node-0", "")])


def test_kept_node_may_be_asked_for_again_once_it_was_used(testbed: Testbed) -> None:
    with pytest.raises(Refused):
        testbed.provider.delete("nodes", [("node-0", "")])
    assert note(testbed, "node-0", SCALE_DOWN_DISABLED) == "true"
    testbed.api.client.merge_patch(NODES, "node-1", {"spec": {"unschedulable": True}})
    assert serve(testbed) == "node-0"
    testbed.tick(2)
    assert note(testbed, "node-0", SCALE_DOWN_DISABLED) is None


# Case 4


def test_idle_devices_of_a_node_that_cannot_go_return_alone() -> None:
    """No call tells of it: the scaler returns what is idle past the hold time."""
    testbed = Testbed(device_no_removal_duration=0)
    try:
        testbed.pod("stays", 0)
        node = serve(testbed)
        testbed.schedule()
        testbed.end("train")
        testbed.tick(4)
        assert live(testbed, node) == 0
        assert testbed.bound("stays")
    finally:
        testbed.close()


# Traps


def pool_claim(testbed: Testbed, node: str) -> None:
    """A pod on a node with a claim from a pool of the fabric."""
    testbed.api.put(SLICES, objects.pool_slice("a100-0"))
    testbed.api.put(CLAIMS, objects.claim("pooled", objects.pool_result(), node=node))
    raw = objects.pod("pooled")
    raw["spec"] |= {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    testbed.api.put(PODS, raw)
    testbed.sync()
    testbed.provider.refresh()


def test_trap_a_node_with_a_claim_of_the_fabric_is_left_out(
        testbed: Testbed, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    pool_claim(testbed, "node-0")
    standin = asking()
    standin.loop()
    assert [n["metadata"]["name"] for n in standin.members("nodes")] == ["node-1"]
    assert standin.groups["nodes"].target == 1
    assert len(standin.groups["nodes"].instances) == 1
    monkeypatch.setattr(testbed.cluster.groups, "_left_out", lambda group_of: {})
    with pytest.raises(LoopEnded, match="node-0 can't be sanitized"):
        standin.loop()


def test_trap_a_ends_with_the_claim(testbed: Testbed) -> None:
    pool_claim(testbed, "node-0")
    assert testbed.provider.group_of("node-0") is None
    testbed.end("pooled")
    testbed.sync()
    testbed.provider.refresh()
    assert testbed.provider.group_of("node-0")


def test_trap_b_node_without_a_pool_is_left_out_and_an_empty_pool_is_enough(
        testbed: Testbed, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed.api.remove(SLICES, "slice-node-1")
    testbed.sync()
    standin = asking()
    standin.loop()
    assert [n["metadata"]["name"] for n in standin.members("nodes")] == ["node-0"]
    assert standin.unready == set()
    monkeypatch.setattr(testbed.cluster.groups, "_left_out", lambda group_of: {})
    standin.loop()
    assert standin.unready == {"node-1"}, "as it would be"
    monkeypatch.undo()
    testbed.api.put(SLICES, objects.local_slice(node="node-1"))
    testbed.sync()
    standin.loop()
    assert len(standin.members("nodes")) == 2


def test_pool_that_is_not_whole_counts_as_none(testbed: Testbed) -> None:
    item = objects.local_slice(node="node-1")
    item["spec"]["pool"]["resourceSliceCount"] = 2
    testbed.api.put(SLICES, item)
    testbed.sync()
    testbed.provider.refresh()
    assert testbed.provider.group_of("node-1") is None


def test_where_no_node_has_a_pool_none_is_left_out(testbed: Testbed) -> None:
    for name in ("node-0", "node-1"):
        testbed.api.remove(SLICES, f"slice-{name}")
    testbed.sync()
    testbed.provider.refresh()
    assert testbed.provider.target_size("nodes") == 2
