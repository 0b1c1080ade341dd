# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an attached device to one that the node's slice shows, by an agent on a made-up node."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.agent import agent as agent_module
from ansible_collections.composable.infra.controller.agent import evidence_book
from ansible_collections.composable.infra.controller.agent.agent import NodeAgent
from ansible_collections.composable.infra.controller.agent.device_work import Patience
from ansible_collections.composable.infra.controller.agent.node_operations import KernelReport
from ansible_collections.composable.infra.controller.agent.vendor_plugin import plugin_work
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    LEASES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Conflict, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import RELEASE
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    DRIVER_FAILED,
    LOST_ON_BUS,
    NO_ROOM_FOR_BARS,
    NOT_ANNOUNCED,
    NOT_ON_BUS,
    PLUGIN_RESTARTED,
    PREPARING,
    READY,
    REMOVED,
    STEPS_UP,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import moment as moment_of
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import (
    Node,
    pod,
    resource,
    running,
    until,
)
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call


def names_of_pods(agent: NodeAgent) -> list[str]:
    """The pods that the agent knows."""
    return sorted(pod["metadata"]["name"] for pod in agent.state.pods.list())


def announced(node: Node, *names: str) -> bool:
    return all(node.phase(name) == READY and ANNOUNCED in node.steps(name) for name in names)


def test_steps_in_their_order_one_restart_and_the_lease() -> None:
    with running() as node:
        node.boot()
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1"))
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        until("the device is announced", lambda: announced(node, "gpu-1"))
        evidence = node.evidence("gpu-1")
        assert evidence is not None
        assert [s.step for s in evidence.steps] == [*STEPS_UP]
        assert [s.at for s in evidence.steps] == sorted(s.at for s in evidence.steps)
        assert (evidence.device, evidence.uuid, evidence.by) == ("dev-1", "GPU-1", "agent")
        assert node.deleted_pods() == ["plugin-1"]
        assert node.operations.told_feature_discovery == 2, "at the start of the agent, and when the device had come"
        assert node.api.one(LEASES, "node-agent-node-0", "composable-infra")["spec"]["holderIdentity"] == "node-0"
        assert node.metrics.registry.get_sample_value("composable_agent_plugin_restarts_total") == 1
        count = "composable_agent_step_duration_seconds_count"
        assert [node.metrics.registry.get_sample_value(count, {"step": s}) for s in STEPS_UP] == [1.0] * 5


def test_pool_device_is_ready_when_it_was_touched_and_no_plugin_is_restarted() -> None:
    with running() as node:
        node.boot()
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1", pool_device="pool-fabric1/gpu-0"))
        until("the device is ready", lambda: node.phase("gpu-1") == READY)
        assert node.steps("gpu-1") == ["OnBus", "Bound", "Touched"]
        assert node.deleted_pods() == []


def test_device_that_was_one_claims_is_announced_afterwards() -> None:
    with running() as node:
        node.boot()
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1", pool_device="pool-fabric1/gpu-0"))
        until("the device is ready", lambda: node.phase("gpu-1") == READY)
        raw = node.api.one(COMPOSABLE_RESOURCES, "gpu-1")
        del raw["metadata"]["annotations"]["composable.infra/pool-device"]
        node.api.put(COMPOSABLE_RESOURCES, raw)
        node.start_plugin()
        until("the device is announced", lambda: announced(node, "gpu-1"))


def test_only_the_evidence_is_written() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        for call in node.api.writes(COMPOSABLE_RESOURCES):
            assert call.subresource is None
            assert set(call.body) == {"metadata"}
            assert set(call.body["metadata"]) == {"uid", "annotations"}
            assert set(call.body["metadata"]["annotations"]) == {"composable.infra/node"}


def test_four_that_arrive_together_cost_one_restart() -> None:
    with running() as node:
        node.boot()
        for n in range(4):
            node.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{n}"))
        for n in range(4):
            node.operations.bus[f"dev-{n}"] = f"GPU-{n}"
            node.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{n}", f"dev-{n}", f"GPU-{n}"))
        until("all are announced", lambda: announced(node, *(f"gpu-{n}" for n in range(4))))
        assert node.deleted_pods() == ["plugin-1"]


def test_a_slow_first_touch_is_waited_for() -> None:
    with running() as node:
        node.operations.gates["dev-2"] = threading.Event()
        for n in (1, 2):
            node.operations.bus[f"dev-{n}"] = f"GPU-{n}"
            node.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{n}", f"dev-{n}"))
        agent = node.boot()
        until("the first is touched", lambda: any(
            request.evidence and request.evidence.has("Touched") for request in agent.devices.requests()))
        until("the second is begun", lambda: ("bring_up", "dev-2") in node.operations.calls)
        assert node.deleted_pods() == []
        node.operations.gates["dev-2"].set()
        until("both are announced", lambda: announced(node, "gpu-1", "gpu-2"))
        assert len(node.deleted_pods()) == 1


def test_a_plugin_that_looked_before_the_first_use_is_restarted_though_it_shows_the_device() -> None:
    """Its pod was replaced while the device was brought up. It announces what is bound, and knows no file of it."""
    with running() as node:
        node.operations.gates["dev-1"] = threading.Event()
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        agent = node.boot()
        until("the device is brought up", lambda: ("bring_up", "dev-1") in node.operations.calls)
        node.start_plugin()
        assert node.empty == {"GPU-1"}
        until("the agent sees it", lambda: names_of_pods(agent) == ["plugin-2"])
        node.operations.gates["dev-1"].set()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.steps("gpu-1") == [*STEPS_UP]
        assert node.empty == set(), "a container can have it"
        assert node.deleted_pods() == ["plugin-2"]


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_before_the_first_use_hides_no_plugin_and_delays_none(
    monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    """Another device is on its way, for which the agent waits a second, and not as long as the clock was wrong."""
    real = time.time
    with running() as node:
        node.operations.gates["dev-1"] = threading.Event()
        node.operations.bus["dev-1"] = "GPU-1"
        node.start_plugin()
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-2"))
        node.boot()
        until("the device is brought up", lambda: ("bring_up", "dev-1") in node.operations.calls)
        monkeypatch.setattr(time, "time", lambda: real() + by)
        node.operations.gates["dev-1"].set()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.empty == set(), "a container can have it"
        assert node.deleted_pods() == ["plugin-2"]


def test_a_plugin_that_began_after_the_first_use_is_left_alone() -> None:
    with running() as node:
        node.plays = False
        node.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": {"waiting": {}}}]))
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        node.boot()
        until("the device is touched", lambda: "Touched" in node.steps("gpu-1"))
        node.start_plugin(began=time.time() + 1.0)
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == []


def test_a_device_that_leaves_is_brought_up_when_a_plugin_announces_it_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It did not come up, its ComposableResource is being deleted, and then a claim gets it by the plugin's slice."""
    monkeypatch.setattr(agent_module, "TICK_SECONDS", 0.1)
    with running() as node:
        failed = Evidence(PREPARING, "dev-1", uuid="GPU-1").with_trouble(DRIVER_FAILED, "what was seen", time.time())
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1", node=failed.to_json(), deleted=True))
        agent = node.boot()
        until("the agent works", agent.ready)
        assert node.operations.calls == []
        node.start_plugin()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.empty == set(), "a container can have it"


def test_after_a_reboot_a_device_that_the_plugin_saw_before_its_first_use_is_used_and_told_again() -> None:
    """The evidence is of the time before the boot, and the plugin has announced all that is bound."""
    with running() as node:
        old = Evidence(READY, "dev-1", uuid="GPU-1", address="0000:10:00.0")
        for step in STEPS_UP:
            old = old.with_step(step, time.time() - 3600.0)
        node.operations.bus["dev-1"] = "GPU-1"
        node.start_plugin()
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1", node=old.to_json()))
        node.boot()
        until("a container can have it", lambda: not node.empty)
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == ["plugin-2"]


def test_a_device_that_comes_late_is_looked_for() -> None:
    with running() as node:
        node.operations.hidden["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert ("look_for_devices", "") in node.operations.calls


def test_one_that_does_not_come_holds_up_no_other() -> None:
    with running(patience=Patience(0.05, 0.5)) as node:
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        node.operations.bus["dev-2"] = "GPU-2"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-2", "dev-2", "GPU-2"))
        node.boot()
        until("the other is announced", lambda: announced(node, "gpu-2"))
        until("the trouble is told", lambda: node.trouble("gpu-1") == NOT_ON_BUS)
        assert node.phase("gpu-1") == PREPARING
        assert node.trouble("gpu-2") == ""


@pytest.mark.parametrize(("reason", "times"), [(NO_ROOM_FOR_BARS, 1), (DRIVER_FAILED, 2)])
def test_trouble_that_lasts_is_told(reason: str, times: int) -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.operations.troubles["dev-1"] = [NodeTrouble(reason, "what was seen")] * 20
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the trouble is told", lambda: node.trouble("gpu-1") == reason)
        assert node.operations.calls.count(("bring_up", "dev-1")) == times
        assert node.deleted_pods() == []
        assert node.metrics.registry.get_sample_value("composable_agent_problems_total", {"reason": reason}) == 1


def test_trouble_that_passes_is_not_told() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.operations.troubles["dev-1"] = [NodeTrouble(DRIVER_FAILED, "what was seen")]
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.metrics.registry.get_sample_value("composable_agent_problems_total", {"reason": DRIVER_FAILED}) == 0


def test_a_step_that_failed_is_tried_again_soon_though_the_clock_was_stepped_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = time.time
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.operations.troubles["dev-1"] = [NodeTrouble(NO_ROOM_FOR_BARS, "what was seen")]
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the trouble is told", lambda: node.trouble("gpu-1") == NO_ROOM_FOR_BARS)
        monkeypatch.setattr(time, "time", lambda: real() - 7200.0)
        until("the device is on the bus", lambda: "OnBus" in node.steps("gpu-1"))
        assert node.operations.calls.count(("bring_up", "dev-1")) == 2


@pytest.mark.parametrize("extended", [False, True], ids=["by a claim", "by an extended resource"])
def test_the_plugin_is_left_alone_while_it_prepares_a_claim(extended: bool) -> None:
    with running() as node:
        claim = {"metadata": {"name": "c", "namespace": "team", "uid": "c"}, "status": {"allocation": {"devices": {
            "results": [{"driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-9"}]}}}}
        node.api.put(CLAIMS, claim)
        waiting = pod("waits", {}, phase="Pending")
        waiting["metadata"]["namespace"] = "team"
        if extended:
            waiting["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c"}
        else:
            waiting["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
        node.api.put(PODS, waiting)
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the claim was looked at", lambda: any(c.plural == CLAIMS.plural for c in node.api.calls))
        assert node.deleted_pods() == []
        node.api.put(PODS, {**waiting, "status": {"phase": "Running"}})
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == ["plugin-1"]


def test_a_plugin_is_restarted_when_its_status_says_that_it_had_looked_before() -> None:
    """The status of a pod comes later than its containers; until then nobody knows what it has seen."""
    with running() as node:
        began = format_time(time.time() - 5.0)
        node.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": {"waiting": {}}}]))
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        agent = node.boot()
        until("the device is touched", lambda: node.steps("gpu-1") == ["OnBus", "Bound", "Touched"])
        agent.plugins.attend()
        assert node.phase("gpu-1") == PREPARING
        node.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": {"running": {"startedAt": began}}}]))
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == ["plugin-1"]


def test_a_plugin_that_does_not_say_when_it_began_is_restarted_after_a_while() -> None:
    """Its container ran and looked; the pod's status did not say so yet when the device was touched."""
    with running(announce_seconds=1.5) as node:
        node.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": {"waiting": {}}}]))
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        told_before_its_deletion = watch_for_untrue_restarts(node)
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == ["plugin-1"]
        assert node.trouble("gpu-1") == ""
        assert told_before_its_deletion == []


def watch_for_untrue_restarts(node: Node) -> list[Evidence]:
    """Evidence that names a restart of the plugin before any of its pods was deleted."""
    found, called = list[Evidence](), node.api.before

    def check(call: Call) -> None:
        notes = call.body.get("metadata", {}).get("annotations", {}) if isinstance(call.body, dict) else {}
        evidence = Evidence.parse(notes.get("composable.infra/node") or "")
        if evidence and evidence.has(PLUGIN_RESTARTED) and not node.deleted_pods():
            found.append(evidence)
        if called:
            called(call)

    node.api.before = check
    return found


@pytest.mark.parametrize("state", [
    {"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 1}}], ids=["waiting", "ended"])
def test_a_plugin_that_fails_is_replaced_at_once(state: dict[str, object]) -> None:
    """As beside a host driver that was booted without a GPU. The kubelet would start it again after 5 minutes."""
    with running(announce_seconds=3600.0) as node:
        node.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": state, "restartCount": 7}]))
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        told_before_its_deletion = watch_for_untrue_restarts(node)
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.steps("gpu-1") == [*STEPS_UP]
        assert node.deleted_pods() == ["plugin-1"]
        assert told_before_its_deletion == []


def test_a_plugin_whose_pod_was_replaced_meanwhile_is_judged_by_its_new_pod() -> None:
    """The watch is behind: the pod that the agent wants to delete is gone, and its successor began later."""
    with running() as node:
        node.plays = False
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        asked = threading.Event()

        def refuse(call: Call) -> None:
            if (call.verb, call.plural) == ("delete", "pods"):
                asked.set()
                raise Conflict(409, "Conflict", "another uid")

        node.api.before = refuse
        node.boot()
        until("a delete was tried", asked.is_set)
        until("the steps are written", lambda: node.phase("gpu-1") == PREPARING)
        node.start_plugin(began=time.time() + 1.0)
        until("the device is announced", lambda: announced(node, "gpu-1"))
        # Where the agent sees the pod before the slice, it notes that the plugin looks again.
        assert [each for each in node.steps("gpu-1") if each != PLUGIN_RESTARTED] == [
            "OnBus", "Bound", "Touched", "Announced"]
        assert [each["metadata"]["name"] for each in node.api.of(PODS)] == ["plugin-2"]


def test_a_plugin_is_left_alone_beside_a_dead_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not start again, and the claims of the node's other devices would be without it."""
    monkeypatch.setattr(plugin_work, "DEAD_SECONDS", 0.05)
    with running() as node:
        node.operations.bus["dev-1"], node.operations.dead, node.operations.stays_dead = "GPU-1", True, True
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        agent = node.boot()
        until("the device is touched", lambda: node.steps("gpu-1") == ["OnBus", "Bound", "Touched"])
        agent.plugins.attend()
        assert node.deleted_pods() == []
        assert node.phase("gpu-1") == PREPARING
        node.operations.stays_dead = node.operations.dead = False
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == ["plugin-1"]


def test_a_plugin_that_never_announces_is_told() -> None:
    with running(announce_seconds=0.3) as node:
        node.plays = False
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the trouble is told", lambda: node.trouble("gpu-1") == NOT_ANNOUNCED)
        assert node.phase("gpu-1") == READY
        node.start_plugin()
        until("it is over", lambda: announced(node, "gpu-1") and node.trouble("gpu-1") == "")


def test_device_of_the_own_driver_is_ready_at_once_and_no_pod_of_a_vendor_is_deleted() -> None:
    with running() as node:
        node.plays, node.operations.own = False, True
        node.operations.gates["dev-2"] = threading.Event()
        node.boot()
        for n in (1, 2):
            node.operations.bus[f"dev-{n}"] = f"GPU-{n}"
            node.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{n}", f"dev-{n}", f"GPU-{n}"))
        until("the first is ready, though the second is still touched", lambda: node.phase("gpu-1") == READY, 5.0)
        assert node.steps("gpu-1") == ["OnBus", "Bound", "Touched"]
        node.operations.gates["dev-2"].set()
        until("the second is, too", lambda: node.phase("gpu-2") == READY, 5.0)
        assert node.deleted_pods() == []


def test_own_driver_that_does_not_show_a_device_is_told() -> None:
    with running(announce_seconds=0.3) as node:
        node.plays, node.operations.own = False, True
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the trouble is told", lambda: node.trouble("gpu-1") == NOT_ANNOUNCED)
        found = node.evidence("gpu-1")
        assert found is not None
        assert found.trouble is not None
        assert found.trouble.message.endswith("Check /status and the log of this node's agent")
        assert node.deleted_pods() == []


def test_a_node_without_the_plugin_is_ready_without_its_step() -> None:
    with running() as node:
        node.plays = False
        node.api.remove(PODS, "plugin-1", "dra-driver-nvidia-gpu")
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("it is ready", lambda: node.phase("gpu-1") == READY)
        assert node.steps("gpu-1") == ["OnBus", "Bound", "Touched"]
        assert node.deleted_pods() == []


def test_a_device_that_falls_off_the_bus_is_told_with_the_kernels_words() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        agent = node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        line = "NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus."
        agent.devices.look_after([KernelReport(31, "0000:10:00.0", "a program's fault")])
        assert node.trouble("gpu-1") == ""
        agent.devices.look_after([KernelReport(79, "0000:10:00.0", line)])
        until("the trouble is told", lambda: node.trouble("gpu-1") == LOST_ON_BUS)
        told = node.evidence("gpu-1")
        assert told is not None
        assert told.trouble is not None
        assert line in told.trouble.message


def test_a_device_that_is_gone_without_a_word_is_told() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        agent = node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        del node.operations.bus["dev-1"]
        agent.devices.look_after([])
        until("the trouble is told", lambda: node.trouble("gpu-1") == LOST_ON_BUS)


def test_evidence_that_cannot_be_written_is_written_later() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.api.fail("merge_patch", COMPOSABLE_RESOURCES, Forbidden(403, "Forbidden", "not yet"), times=2)
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.steps("gpu-1") == [*STEPS_UP]


def test_device_that_is_shown_already_restarts_nothing_though_it_was_touched_in_between(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    with running() as node, monkeypatch.context() as patch:
        patch.setattr(plugin_work.PluginWork, "_settle", lambda plugins, ask: None)  # it looked before it was touched
        node.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": {"waiting": {}}}]))
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        agent = node.boot()
        until("it is touched", lambda: "Touched" in node.steps("gpu-1"))
        until("it is not pending", lambda: not any(map(agent.devices.pending, agent.devices.requests())))
        node.start_plugin(began=time.time() + 1.0)
        until("the agent sees it", lambda: names_of_pods(agent) == ["plugin-2"] and "GPU-1" in agent.state.announced())
        agent.plugins.attend()
        assert node.deleted_pods() == []
        patch.undo()
        agent.plugins.attend()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        assert node.deleted_pods() == []


def test_an_agent_that_starts_again_finds_all_done() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.start_plugin()
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        node.boot()
        until("the device is announced", lambda: announced(node, "gpu-1"))
        node.stop()
        calls, deleted, written = list(node.operations.calls), node.deleted_pods(), node.evidence("gpu-1")
        agent = node.boot()
        until("it is ready", agent.ready)
        until("it has looked", lambda: agent.devices.request("gpu-1") is not None
              and not agent.devices.pending(agent.devices.requests()[0]))
        assert node.operations.calls == calls
        assert node.deleted_pods() == deleted
        assert node.evidence("gpu-1") == written


def test_after_a_reboot_of_the_node_a_device_is_touched_again() -> None:
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        moment = time.time() - 3600.0
        old = Evidence(READY, "dev-1", uuid="GPU-1", address="0000:99:00.0")
        for step in STEPS_UP:
            old = old.with_step(step, moment)
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", node=old.to_json()))
        node.boot()
        until("it was brought up", lambda: ("bring_up", "dev-1") in node.operations.calls)

        def address() -> str:
            found = node.evidence("gpu-1")
            return found.address if found else ""

        until("its new address is told", lambda: address() == "0000:10:00.0")
        until("the device is announced", lambda: announced(node, "gpu-1"))
        evidence = node.evidence("gpu-1")
        assert evidence is not None
        assert all(step.at > moment_of(moment) for step in evidence.steps)


def test_steps_wait_for_the_next_phase_so_an_attach_needs_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_book, "STEP_SECONDS", 3600.0)
    with running() as node:
        node.operations.bus["dev-1"] = "GPU-1"
        node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1"))
        agent = node.boot()
        until("the device is ready", lambda: node.phase("gpu-1") == READY)
        assert {"OnBus", "Bound", "Touched"} <= {*node.steps("gpu-1")}
        assert len(node.api.writes(COMPOSABLE_RESOURCES)) == 1
        until("the plugin has announced it", lambda: any(
            request.evidence and request.evidence.has(ANNOUNCED) for request in agent.devices.requests()))
        assert ANNOUNCED not in node.steps("gpu-1")
        assert len(node.api.writes(COMPOSABLE_RESOURCES)) <= 2  # the restart of the plugin may be a second one
        node.change(COMPOSABLE_RESOURCES, "gpu-1", {"metadata": {"annotations": {RELEASE: "2026-01-01T00:00:00.0Z"}}})
        until("the device is removed", lambda: node.phase("gpu-1") == REMOVED)
        assert ANNOUNCED in node.steps("gpu-1")


READY_AND_SHOWN = Evidence(READY, "dev-1").with_step(PLUGIN_RESTARTED, 1.0).with_step(ANNOUNCED, 2.0)


@pytest.mark.parametrize(("before", "now", "waits"), [
    (None, Evidence(PREPARING, "dev-1").with_step("OnBus", 1.0), True),
    (None, Evidence(PREPARING, "dev-1").with_trouble(NOT_ON_BUS, "it is not there", 1.0), False),
    (replace(READY_AND_SHOWN, steps=READY_AND_SHOWN.steps[:1]), READY_AND_SHOWN, True),
    (READY_AND_SHOWN, replace(READY_AND_SHOWN, steps=READY_AND_SHOWN.steps[:1]), False),
    (Evidence(READY, "dev-1"), replace(READY_AND_SHOWN, steps=READY_AND_SHOWN.steps[:1]), False),
    (Evidence(PREPARING, "dev-1"), Evidence(READY, "dev-1"), False),
])
def test_only_further_steps_wait(before: Evidence | None, now: Evidence, waits: bool) -> None:
    assert evidence_book.may_wait(before, now) is waits


def test_steps_alone_are_written_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first device waits for the second, so that both need one restart of the plugin."""
    monkeypatch.setattr(evidence_book, "STEP_SECONDS", 0.05)
    with running() as node:
        node.operations.gates["dev-2"] = threading.Event()
        for n in (1, 2):
            node.operations.bus[f"dev-{n}"] = f"GPU-{n}"
            node.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{n}", f"dev-{n}"))
        node.boot()
        until("the steps are written", lambda: "Touched" in node.steps("gpu-1"))
        assert node.phase("gpu-1") == PREPARING
        node.operations.gates["dev-2"].set()
        until("both are announced", lambda: announced(node, "gpu-1", "gpu-2"))
