# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a release that is asked for to a device that is off the bus, by an agent on a made-up node."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.agent.agent import NodeAgent
from ansible_collections.composable.infra.controller.agent.device_work import Patience
from ansible_collections.composable.infra.controller.agent.lane import OVERDUE_SECONDS
from ansible_collections.composable.infra.controller.agent.node_state import OwnPlugin
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import RELEASE
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    BOUND,
    CLAIM_IN_USE,
    DRAINED,
    IDLE,
    ON_BUS,
    OPEN_ON_NODE,
    READY,
    RELEASING,
    REMOVAL_HUNG,
    REMOVED,
    STEPS_DOWN,
    TOUCHED,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import (
    Node,
    pod,
    resource,
    running,
    until,
)

ASKED = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with two devices that are in use of nobody."""
    with running() as it:
        for n in (1, 2):
            it.operations.bus[f"dev-{n}"] = f"GPU-{n}"
            it.api.put(COMPOSABLE_RESOURCES, resource(f"gpu-{n}", f"dev-{n}", f"GPU-{n}"))
        it.plays = False
        it.api.put(PODS, pod("plugin-1", containerStatuses=[{"state": {"waiting": {}}}]))
        it.boot()
        until("both are used", lambda: it.operations.used == {"GPU-1", "GPU-2"})
        it.start_plugin(began=time.time() + 1.0)
        until("both are ready", lambda: it.phase("gpu-1") == it.phase("gpu-2") == READY)
        assert it.deleted_pods() == []
        it.plays = True
        yield it


def ask_release(node: Node, name: str = "gpu-1") -> None:
    node.change(COMPOSABLE_RESOURCES, name, {"metadata": {"annotations": {RELEASE: ASKED}}})


def down(node: Node, name: str = "gpu-1") -> list[str]:
    """The steps down."""
    steps = node.steps(name)
    return steps[steps.index(IDLE):] if IDLE in steps else []


def test_steps_in_their_order_and_the_slice_follows(node: Node) -> None:
    ask_release(node)
    until("all is done", lambda: down(node) == [*STEPS_DOWN])
    assert node.phase("gpu-1") == REMOVED
    assert node.operations.bus == {"dev-2": "GPU-2"}
    assert node.phase("gpu-2") == READY
    assert len(node.deleted_pods()) == 1


def test_that_it_is_off_the_bus_is_told_after_the_plugin_beside_the_agent_knows(node: Node) -> None:
    """Else the device could be detached, and come back, while a slice still shows it."""
    told: list[tuple[bool, bool]] = []
    assert node.agent is not None
    book, on_bus = node.agent.book, node.operations.bus

    class Plugin(OwnPlugin):
        def withdraw(self) -> None:
            told.append((t.cast(Evidence, book.of("uid-gpu-1")).phase == REMOVED, "dev-1" in on_bus))

    node.agent.state.own_plugin = Plugin()
    ask_release(node)
    until("it is told", lambda: node.phase("gpu-1") == REMOVED)
    assert told == [(False, False)]


def test_a_device_that_the_kubelet_has_not_unprepared_stays(node: Node) -> None:
    """No claim of the API server has it: its tenant deleted the claim while the container runs."""
    prepared = {("GPU-1", "0000:10:00.0"): "the kubelet has not unprepared the claim team/c on this node"}
    assert node.agent is not None

    class Plugin(OwnPlugin):
        def holder(self, uuid: str, address: str) -> str:
            return prepared.get((uuid, address), "")

    node.agent.state.own_plugin = Plugin()
    ask_release(node)
    until("it says so", lambda: node.trouble("gpu-1") == CLAIM_IN_USE)
    found = node.evidence("gpu-1")
    assert found is not None
    assert found.trouble is not None
    assert found.trouble.message == prepared["GPU-1", "0000:10:00.0"]
    assert "dev-1" in node.operations.bus
    prepared.clear()
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)


def test_a_withheld_device_is_reported_on_its_resource(node: Node) -> None:
    recorder = Recorder(node.api.client, "agent", "test", pace=0.0, delay=0.0)
    node.stop()
    node.recorder = recorder
    agent = node.boot()
    until("both are known", lambda: len([a for a in agent.devices.requests() if a.evidence]) == 2)
    agent.report_withheld("GPU-1", "0000:10:00.0", "a pod has it")
    assert recorder.close(), recorder.last_error
    events = [call.body for call in node.api.calls if call.verb == "raw" and call.body]
    said = [(event["involvedObject"]["name"], event["message"], event["type"])
            for event in events if event.get("reason") == "DeviceWithheld"]
    assert said == [("gpu-1", "a pod has it", "Warning")]


def test_a_device_that_was_never_up_is_identified_and_leaves(node: Node) -> None:
    """Its pod was deleted while it was being attached: only its driver tells which device of the bus it is."""
    node.operations.bus["dev-3"] = "GPU-3"
    raw = resource("gpu-3", "dev-3")
    raw["metadata"].setdefault("annotations", {})[RELEASE] = ASKED
    node.api.put(COMPOSABLE_RESOURCES, raw)
    until("it is removed", lambda: node.phase("gpu-3") == REMOVED)
    assert node.operations.calls[-2:] == [("bring_up", "dev-3"), ("release", "dev-3")]
    assert "dev-3" not in node.operations.bus


def test_a_device_that_was_never_up_nor_on_the_bus_is_gone(node: Node) -> None:
    raw = resource("gpu-3", "dev-3")
    raw["metadata"].setdefault("annotations", {})[RELEASE] = ASKED
    node.api.put(COMPOSABLE_RESOURCES, raw)
    until("it is removed", lambda: node.phase("gpu-3") == REMOVED)
    assert ("release", "dev-3") not in node.operations.calls


def test_a_device_that_comes_after_its_release_was_asked_for_is_removed() -> None:
    """Else the fabric would pull it from its driver, and the vendor's plugin never start beside what is left."""
    node = Node(patience=Patience(5.0, 10.0))
    try:
        agent = node.boot()
        raw = resource("gpu-3", "dev-3")
        raw["metadata"].setdefault("annotations", {})[RELEASE] = ASKED
        node.api.put(COMPOSABLE_RESOURCES, raw)
        until("the agent has begun", lambda: agent.book.asked_at("uid-gpu-3") > 0)
        node.operations.bus["dev-3"] = "GPU-3"
        until("it is removed", lambda: node.phase("gpu-3") == REMOVED)
        assert node.operations.calls[-2:] == [("bring_up", "dev-3"), ("release", "dev-3")]
    finally:
        node.stop()


def test_a_dead_device_of_nobody_is_cleared_away(node: Node) -> None:
    node.stop()
    node.operations.dead = True
    node.boot()
    until("it is cleared away", lambda: not node.operations.dead)
    told = [known for what, known in node.operations.calls if what == "clear_dead"]
    assert len(told) == 1
    assert {"GPU-1", "GPU-2"} < set(told[0].split(", "))


def test_a_device_of_a_claim_stays_usable_and_says_whose_it_is(node: Node) -> None:
    claim = {"metadata": {"name": "c", "namespace": "team", "uid": "c"}, "status": {"allocation": {"devices": {
        "results": [{"driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}]}}}}
    node.api.put(CLAIMS, claim)
    ask_release(node)
    until("the trouble is told", lambda: node.trouble("gpu-1") == CLAIM_IN_USE)
    told = node.evidence("gpu-1")
    assert told is not None
    assert told.trouble is not None
    assert told.trouble.message == "claim team/c uses the device"
    assert told.phase == READY
    assert "dev-1" in node.operations.bus


def test_a_device_that_no_slice_shows_is_no_idle_one(node: Node) -> None:
    """The plugin is away and its slices with it: a claim of this node may have any device."""
    for item in node.api.of(SLICES):
        node.api.remove(SLICES, item["metadata"]["name"])
    agent = node.agent
    assert agent is not None
    until("the agent has seen it", lambda: not agent.state.announced())
    selector = {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]}
    node.api.put(CLAIMS, {"metadata": {"name": "c", "namespace": "team", "uid": "c"}, "status": {"allocation": {
        "devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}]},
        "nodeSelector": selector}}})
    ask_release(node)
    until("the trouble is told", lambda: node.trouble("gpu-1") == CLAIM_IN_USE)
    assert "dev-1" in node.operations.bus


def test_an_ask_that_is_taken_back_meanwhile_leaves_the_device(node: Node) -> None:
    node.operations.gates["dev-1"] = threading.Event()
    ask_release(node)
    until("the release has begun", lambda: ("release", "dev-1") in node.operations.calls)
    node.change(COMPOSABLE_RESOURCES, "gpu-1", {"metadata": {"annotations": {RELEASE: None}}})
    node.operations.gates["dev-1"].set()
    until("it is ready without trouble", lambda: node.phase("gpu-1") == READY and node.trouble("gpu-1") == "")
    assert "dev-1" in node.operations.bus
    assert down(node) == []


def test_a_claim_on_a_device_that_only_the_api_server_shows_under_that_name_keeps_it(node: Node) -> None:
    """The plugin has looked again and named the devices anew; the agent's watch has not heard of it."""
    shown, = node.api.of(SLICES)
    first, second = node.api.objects["resourceslices", "", shown["metadata"]["name"]]["spec"]["devices"]
    first["name"], second["name"] = second["name"], first["name"]
    assert [device["attributes"]["uuid"]["string"] for device in (first, second)] == ["GPU-1", "GPU-2"]
    node.api.put(CLAIMS, {"metadata": {"name": "c", "namespace": "team", "uid": "c"}, "status": {"allocation": {
        "devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-1"}]}}}})
    ask_release(node)
    until("the trouble is told", lambda: node.trouble("gpu-1") == CLAIM_IN_USE)
    assert "dev-1" in node.operations.bus


def test_a_device_whose_release_is_taken_back_after_its_removal_is_brought_up_again(node: Node) -> None:
    """A claim was given it; its ComposableResource is deleted all the same, and goes when the claim has ended."""
    ask_release(node)
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)
    node.change(COMPOSABLE_RESOURCES, "gpu-1", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
                                                             "annotations": {RELEASE: None}}})
    node.operations.bus["dev-1"] = "GPU-1"  # as the rescan finds it
    until("it is ready", lambda: node.phase("gpu-1") == READY)
    again = "2026-01-01T00:00:09.000000Z"
    node.change(COMPOSABLE_RESOURCES, "gpu-1", {"metadata": {"annotations": {RELEASE: again}}})
    until("it is removed for the new ask", lambda: (e := node.evidence("gpu-1")) is not None
          and (e.phase, e.release) == (REMOVED, again))
    assert "dev-1" not in node.operations.bus


def test_what_was_removed_for_an_ask_answers_the_next_one_after_a_look_at_the_bus(node: Node) -> None:
    ask_release(node)
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)
    again = "2026-01-01T00:00:09.000000Z"
    node.change(COMPOSABLE_RESOURCES, "gpu-1", {"metadata": {"annotations": {RELEASE: again}}})
    until("it answers the new ask", lambda: (e := node.evidence("gpu-1")) is not None
          and (e.phase, e.release) == (REMOVED, again))


def test_an_open_device_is_tried_again_until_it_is_let_go(node: Node) -> None:
    held = NodeTrouble(OPEN_ON_NODE, "0000:10:00.0 is open by pid 7 (python)")
    node.operations.troubles["dev-1"] = [held]
    ask_release(node)
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)
    assert node.operations.calls.count(("release", "dev-1")) == 2
    assert node.trouble("gpu-1") == ""
    counted = node.metrics.registry.get_sample_value("composable_agent_problems_total", {"reason": OPEN_ON_NODE})
    assert counted == 1


def agent_of(node: Node) -> NodeAgent:
    assert node.agent is not None
    return node.agent


def test_a_removal_that_hangs_is_told_and_holds_up_nothing_else(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.operations.gates["dev-1"] = threading.Event()
    node.operations.troubles["dev-1"] = [NodeTrouble(REMOVAL_HUNG, "the removal hangs in the kernel")]
    ask_release(node)
    until("the release has begun", lambda: ("release", "dev-1") in node.operations.calls)
    node.operations.bus["dev-3"] = "GPU-3"
    node.api.put(COMPOSABLE_RESOURCES, resource("gpu-3", "dev-3", "GPU-3"))
    lane = agent_of(node).lane
    monkeypatch.setattr("ansible_collections.composable.infra.controller.agent.lane.OVERDUE_SECONDS", 0.05)
    assert OVERDUE_SECONDS > 1.0
    until("another worker takes over", lane.relieve)
    until("another device is ready meanwhile", lambda: node.phase("gpu-3") == READY)
    assert node.phase("gpu-1") == RELEASING
    node.operations.gates["dev-1"].set()
    until("the trouble is told", lambda: node.trouble("gpu-1") == REMOVAL_HUNG)
    until("the kernel ended it after all", lambda: node.phase("gpu-1") == REMOVED and node.trouble("gpu-1") == "")


def test_an_agent_that_was_killed_in_between_takes_back_what_is_not_asked_for_any_more(node: Node) -> None:
    node.stop()
    evidence = node.evidence("gpu-1")
    assert evidence is not None
    half = evidence.with_phase(RELEASING).with_step(IDLE, 1.0).with_step(DRAINED, 2.0)
    node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1", deleted=True, node=half.to_json()))
    node.boot()
    until("it is usable", lambda: node.phase("gpu-1") == READY)
    assert ("take_back", "dev-1") in node.operations.calls
    assert ("release", "dev-1") not in node.operations.calls


def test_a_device_that_no_plugin_has_announced_is_announced_after_its_release_was_taken_back(node: Node) -> None:
    """The release began between the first use of the device and the restart of the plugin."""
    node.stop()
    node.operations.bus["dev-3"] = "GPU-3"
    node.operations.used.add("GPU-3")
    half = Evidence(RELEASING, "dev-3", uuid="GPU-3", address="0000:13:00.0")
    for step in (ON_BUS, BOUND, TOUCHED, IDLE):
        half = half.with_step(step, time.time())
    node.api.put(COMPOSABLE_RESOURCES, resource("gpu-3", "dev-3", "GPU-3", node=half.to_json()))
    node.boot()
    until("a plugin that began after its first use announces it", lambda: ANNOUNCED in node.steps("gpu-3"))
    assert ("take_back", "dev-3") in node.operations.calls
    assert node.phase("gpu-3") == READY


def test_an_agent_that_was_killed_in_between_goes_on(node: Node) -> None:
    node.stop()
    evidence = node.evidence("gpu-1")
    assert evidence is not None
    half = evidence.with_phase(RELEASING).with_step(IDLE, 1.0).with_step(DRAINED, 2.0)
    node.api.put(COMPOSABLE_RESOURCES,
                 resource("gpu-1", "dev-1", "GPU-1", deleted=True, release=ASKED, node=half.to_json()))
    node.boot()
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)
    assert "dev-1" not in node.operations.bus


def test_a_removed_device_that_a_rescan_brought_back_is_removed_again(node: Node) -> None:
    ask_release(node)
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)
    node.stop()
    node.operations.bus["dev-1"] = "GPU-1"
    node.boot()
    until("it is removed again", lambda: "dev-1" not in node.operations.bus)
    until("the evidence says so", lambda: node.phase("gpu-1") == REMOVED)


def test_a_removed_device_that_somebody_attached_again_is_removed_again(node: Node) -> None:
    """The answer of its detach was lost, and the detach will be repeated."""
    ask_release(node)
    until("it is removed", lambda: node.phase("gpu-1") == REMOVED)
    removals = node.operations.calls.count(("release", "dev-1"))
    agent_of(node).devices.look_after([])
    node.operations.bus["dev-1"] = "GPU-other"
    agent_of(node).devices.look_after([])
    assert node.operations.calls.count(("release", "dev-1")) == removals, "another device in its place is left alone"
    node.operations.bus["dev-1"] = "GPU-1"
    agent_of(node).devices.look_after([])
    until("it is removed again", lambda: "dev-1" not in node.operations.bus)
    until("the evidence says so", lambda: node.phase("gpu-1") == REMOVED)


def test_the_slice_follows_also_when_the_object_is_gone_and_the_agent_was_away(node: Node) -> None:
    node.stop()
    del node.operations.bus["dev-1"]
    node.api.remove(COMPOSABLE_RESOURCES, "gpu-1")
    node.boot()
    until("the plugin looks again", lambda: len(node.deleted_pods()) == 1)


def test_what_names_no_uuid_proves_nobody_gone(node: Node) -> None:
    node.stop()
    node.operations.blind = True
    del node.operations.bus["dev-1"]
    node.api.remove(COMPOSABLE_RESOURCES, "gpu-1")
    agent = node.boot()
    until("it works", agent.ready)
    agent.plugins.attend()
    assert node.deleted_pods() == []
