# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device comes and goes with the evidence of its node: what is written, asked and told by the controllers."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import memory
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

RULES = ApiResource("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", False)
LEASE = {"spec": {"holderIdentity": "node-0", "renewTime": "1", "leaseDurationSeconds": 90}}


@pytest.fixture
def agent() -> Iterator[Bench]:
    """A node with a machine and a living agent."""
    made = Bench(hands="agent")
    made.build()
    made.put(objects.node())
    made.state.agents.lease_changed("node-0", LEASE)
    made.look()
    yield made
    made.close()


@pytest.fixture
def leaving(agent: Bench) -> Bench:
    """A deleted ComposableResource whose device is attached, visible and idle."""
    agent.fabric.attached["d1"] = device("d1")
    agent.api.paths = {"/apis/resource.k8s.io/v1": {"resources": [{"name": "devicetaintrules"}]}}
    put(agent, deleted=True, state="Online")
    agent.put(objects.local_slice("GPU-d1"))
    return agent


def put(bench: Bench, serial: str = "GPU-d1", **more: t.Any) -> None:
    bench.put(objects.resource("gpu-a", device="d1", serial=serial, asked=900, **more))


def write(bench: Bench, evidence: Evidence) -> None:
    """The node's hands write their evidence, by what they are asked now, and the watch has seen it."""
    evidence = replace(evidence, release=notes(bench).get(cohdi.RELEASE, ""))
    patch = {"metadata": {"annotations": {cohdi.NODE: evidence.to_json()}}}
    bench.state.resources.upsert(bench.api.client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", patch))


def notes(bench: Bench) -> dict[str, str]:
    found: dict[str, str] = bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"].get("annotations") or {}
    return found


def reconcile(bench: Bench) -> None:
    bench.look()
    bench.reconcile(NodeKey("node-0"))
    bench.reconcile(NodeRecordsKey("node-0"))
    bench.idle()


def test_a_device_leaves_in_the_order_taint_ask_removal_detach(leaving: Bench) -> None:
    reconcile(leaving)
    assert notes(leaving)[cohdi.RELEASE]
    assert leaving.status()["state"] == "Detaching"
    assert leaving.told("ReleaseAsked") == ["requested node node-0 to release the device"]
    write(leaving, Evidence("Releasing", "d1"))
    reconcile(leaving)
    assert leaving.fabric.detaches == []
    write(leaving, Evidence("Removed", "d1"))
    reconcile(leaving)
    assert leaving.fabric.detaches == [("machine-0", "d1")]
    assert leaving.status()["state"] == "Deleting"


def test_evidence_about_another_device_proves_nothing(leaving: Bench) -> None:
    reconcile(leaving)
    write(leaving, Evidence("Removed", "d0"))
    reconcile(leaving)
    assert leaving.fabric.detaches == []


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"version": 2, "phase": "Removed", "device": "d1"})])
def test_evidence_that_cannot_be_read_proves_nothing(leaving: Bench, text: str) -> None:
    reconcile(leaving)
    patch = {"metadata": {"annotations": {cohdi.NODE: text}}}
    leaving.state.resources.upsert(leaving.api.client.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", patch))
    reconcile(leaving)
    assert leaving.fabric.detaches == []


def test_a_claim_that_only_the_api_server_knows_keeps_the_node_from_being_asked(leaving: Bench) -> None:
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    reconcile(leaving)
    assert cohdi.RELEASE not in notes(leaving)
    assert leaving.status()["error"] == "not detached: claim default/train uses the device"


def test_a_claim_that_comes_after_the_removal_gets_the_device_back(leaving: Bench) -> None:
    reconcile(leaving)
    write(leaving, Evidence("Removed", "d1"))
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    reconcile(leaving)
    assert leaving.fabric.detaches == []
    assert cohdi.RELEASE not in notes(leaving)
    assert leaving.told("DetachRefused") == ["claim default/train uses the device"]


def test_what_was_removed_for_an_ask_that_was_taken_back_is_not_detached_when_it_is_asked_anew(leaving: Bench) -> None:
    """The node is taking it back, and has not written that yet."""
    reconcile(leaving)
    write(leaving, Evidence("Removed", "d1"))
    leaving.writer.resources.withdraw_release("gpu-a")
    leaving.writer.resources.ask_release("gpu-a")
    reconcile(leaving)
    assert leaving.fabric.detaches == []
    write(leaving, Evidence("Removed", "d1"))
    reconcile(leaving)
    assert leaving.fabric.detaches == [("machine-0", "d1")]


@pytest.fixture
def unseen(leaving: Bench) -> Bench:
    """The node was asked to let the device go while its plugin was starting: no slice showed it, so nothing could be
    tainted."""
    leaving.drop(leaving.state.slices.list()[0])
    reconcile(leaving)
    assert notes(leaving)[cohdi.RELEASE]
    assert tainted(leaving) == []
    return leaving


def tainted(bench: Bench) -> list[str]:
    """Devices that a DeviceTaintRule names."""
    return [rule["spec"]["deviceSelector"]["device"] for rule in bench.api.of(RULES)]


def test_a_device_that_is_shown_only_after_the_ask_is_tainted_then(unseen: Bench) -> None:
    unseen.put(objects.local_slice("GPU-d1"))
    (found,) = node_snapshot(unseen.state, "node-0").resources
    assert (found.visible, found.tainted) == (True, False)
    reconcile(unseen)
    assert tainted(unseen) == ["gpu-0"]
    assert notes(unseen)[cohdi.RELEASE], "the node goes on"
    (found,) = node_snapshot(unseen.state, "node-0").resources
    assert found.tainted


def test_a_claim_that_was_faster_than_the_taint_keeps_the_device(unseen: Bench) -> None:
    unseen.put(objects.local_slice("GPU-d1"))
    unseen.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    reconcile(unseen)
    assert cohdi.RELEASE not in notes(unseen)
    assert unseen.status()["error"] == "not detached: claim default/train uses the device"
    assert unseen.told("DetachRefused") == ["claim default/train uses the device"]


def test_a_leaving_device_that_comes_back_under_another_name_is_tainted_by_that_too(leaving: Bench) -> None:
    """NVIDIA's plugin names devices by their minor numbers."""
    reconcile(leaving)
    assert tainted(leaving) == ["gpu-0"]
    leaving.put(objects.local_slice("GPU-other", "GPU-d1"))
    leaving.put(objects.resource("gpu-b", device="d2", serial="GPU-other", asked=900, state="Online"))
    reconcile(leaving)
    assert tainted(leaving) == ["gpu-1"], "the other device has the name that it had"
    assert [found.tainted for found in node_snapshot(leaving.state, "node-0").resources] == [True, False]
    leaving.writer.resources.finish("gpu-a")
    assert tainted(leaving) == []


def test_a_device_that_gets_the_name_of_one_that_leaves_is_not_tainted(leaving: Bench) -> None:
    reconcile(leaving)
    leaving.put(objects.local_slice())
    reconcile(leaving)
    assert tainted(leaving) == ["gpu-0"], "the slice may show it again"
    leaving.put(objects.local_slice("GPU-other"))
    reconcile(leaving)
    assert tainted(leaving) == ["gpu-0"], "nobody knows that device"
    leaving.put(objects.resource("gpu-b", device="d2", serial="GPU-other", asked=900, state="Online"))
    reconcile(leaving)
    assert tainted(leaving) == []


def test_the_taint_of_a_device_stays_that_comes_back_for_another(leaving: Bench) -> None:
    """What the slice shows is the old entry of the very same device."""
    reconcile(leaving)
    leaving.put(objects.resource("gpu-b", device="d1", serial="GPU-d1", asked=900, state="Online"))
    reconcile(leaving)
    assert tainted(leaving) == ["gpu-0"]


def test_where_rules_are_not_served_the_claims_are_not_read_again_at_once(agent: Bench) -> None:
    agent.fabric.attached["d1"] = device("d1")
    put(agent, deleted=True, state="Online")
    reconcile(agent)
    agent.put(objects.local_slice("GPU-d1"))
    reconcile(agent)
    looks = [call.plural for call in agent.api.calls].count("resourceclaims")
    reconcile(agent)
    assert [call.plural for call in agent.api.calls].count("resourceclaims") == looks == 2


def test_a_refused_ask_is_not_repeated_at_once(leaving: Bench) -> None:
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    reconcile(leaving)
    reconcile(leaving)
    assert leaving.told("DetachRefused") == ["claim default/train uses the device"]


def test_an_object_without_the_label_becomes_the_nodes_business_when_it_is_asked(agent: Bench) -> None:
    agent.fabric.attached["d1"] = device("d1")
    raw = objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Online")
    del raw["metadata"]["labels"][cohdi.TARGET_NODE]
    agent.put(raw)
    reconcile(agent)
    assert agent.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["labels"][cohdi.TARGET_NODE] == "node-0"


def test_a_device_is_online_when_the_node_is_done_and_the_slice_shows_it(agent: Bench) -> None:
    agent.fabric.attached["d1"] = device("d1")
    put(agent)
    agent.put(objects.request(size=1), objects.local_slice("GPU-d1"))
    reconcile(agent)
    assert agent.status()["state"] == "Attaching"
    write(agent, Evidence("Ready", "d1", uuid="GPU-d1"))
    reconcile(agent)
    assert agent.status()["state"] == "Online"


def test_a_serial_that_only_the_node_knows_is_used_and_written(agent: Bench) -> None:
    agent.fabric.attached["d1"] = device("d1")
    put(agent, serial="")
    agent.put(objects.request(size=1), objects.local_slice("GPU-d1"))
    write(agent, Evidence("Ready", "d1", uuid="GPU-d1"))
    reconcile(agent)
    assert (agent.status()["state"], agent.status()["device_id"]) == ("Online", "GPU-d1")


def test_a_device_that_the_node_cannot_use_is_given_back_and_another_is_not_tried_at_once(agent: Bench) -> None:
    agent.fabric.attached["d1"] = device("d1")
    put(agent)
    agent.put(objects.request(size=1))
    write(agent, Evidence("Preparing", "d1").with_trouble("NoRoomForBars", "no room for BAR 1", 1.0))
    reconcile(agent)
    assert agent.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["deletionTimestamp"]
    assert "no room for BAR 1" in agent.state.blocks.of("node-0", 0.0).values()
    reconcile(agent)
    assert [r["metadata"]["name"] for r in agent.state.resources.list()] == ["gpu-a"]


def test_nothing_is_attached_to_a_node_whose_agent_is_gone_and_nothing_leaves_it(agent: Bench) -> None:
    agent.state.agents.lease_gone("node-0")
    agent.fabric.attached["d1"] = device("d1")
    put(agent, state="Online")
    agent.put(objects.request(size=2), objects.local_slice("GPU-d1"))
    reconcile(agent)
    assert agent.fabric.attaches == []
    agent.put(objects.request(size=0))
    reconcile(agent)
    assert "deletionTimestamp" not in agent.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]
    assert agent.later == []


def test_a_missing_agent_is_no_verdict_before_the_fabric_was_seen(agent: Bench) -> None:
    agent.state.agents.lease_gone("node-0")
    agent.state.snapshot = None
    assert not node_snapshot(agent.state, "node-0").blocked
    agent.look()
    assert "no node agent" in next(iter(node_snapshot(agent.state, "node-0").blocked.values()))


def test_a_node_whose_plugin_knows_a_sick_device_gets_no_other(agent: Bench) -> None:
    """The plugin would have to be restarted to show it, and would forget the taint of its health check."""
    sick = objects.local_slice("GPU-own")
    sick["spec"]["devices"][0]["taints"] = [{"key": "gpu.nvidia.com/xid", "value": "48", "effect": "NoSchedule"}]
    agent.put(objects.request(size=1), sick)
    reconcile(agent)
    assert agent.fabric.attaches == []
    name = sick["spec"]["devices"][0]["name"]
    assert set(node_snapshot(agent.state, "node-0").blocked.values()) == {
        f"node node-0 gets no new device: device {name} has the taint gpu.nvidia.com/xid=48:NoSchedule, "
        "and a restart of its plugin would remove the taint. Detach the device, or repair it and delete the plugin's "
        "pod"}
    sick["spec"]["devices"][0]["taints"][0]["effect"] = "None"
    agent.put(sick)
    assert not node_snapshot(agent.state, "node-0").blocked


@pytest.mark.parametrize("reason", ["RemovalHung", "LostOnBus"])
def test_a_node_that_can_take_up_no_device_gets_none(leaving: Bench, reason: str) -> None:
    """A removal that hangs holds the kernel's lock; beside a lost device the vendor's plugin does not start."""
    hung = Evidence("Releasing", "d1", uuid="GPU-d1").with_trouble(reason, "the removal of x hangs", 1.0)
    write(leaving, hung)
    leaving.put(objects.request("more", model="T4"))
    reconcile(leaving)
    assert leaving.fabric.attaches == []
    told = set(node_snapshot(leaving.state, "node-0").blocked.values())
    assert told == {"node node-0 gets no new device: the removal of x hangs"}
    assert "hangs" not in str(node_snapshot(leaving.state, "node-1").blocked)
    write(leaving, hung.without_trouble())
    assert not node_snapshot(leaving.state, "node-0").blocked


def test_gpu_without_a_uuid_is_online_and_in_use_by_its_address(agent: Bench) -> None:
    """As those of AMD and Intel are; its serial number at the CDI Manager is none that the node knows."""
    agent.fabric.attached["d1"] = device("d1")
    put(agent, serial="SN-1")
    shown = objects.local_slice()
    shown["spec"]["devices"] = [{"name": "gpu-0-128", "attributes": {
        "type": {"string": "amdgpu"}, "pciAddr": {"string": "0000:3b:00.0"}}}]
    agent.put(objects.request(size=1), shown)
    write(agent, Evidence("Ready", "d1", address="0000:3b:00.0"))
    reconcile(agent)
    assert agent.status()["state"] == "Online"
    agent.put(objects.claim("train", objects.local_result("gpu-0-128")))
    (found,) = node_snapshot(agent.state, "node-0").resources
    assert (found.used_by, found.usable) == ("default/train", True)
    assert agent.state.agents.missing("node-0") == ""


@pytest.mark.parametrize(("state", "labelled"), [("Attaching", True), ("", True), ("Online", False)])
def test_device_that_another_operator_attached_becomes_the_agents_business(
    agent: Bench, state: str, labelled: bool
) -> None:
    """CoHDI's operator knows no label of ours. A device that it has brought up already is left as it is."""
    agent.fabric.attached["d1"] = device("d1")
    raw = objects.resource("gpu-a", device="d1", serial="GPU-d1", state=state)
    del raw["metadata"]["labels"][cohdi.TARGET_NODE]
    agent.put(raw)
    reconcile(agent)
    labels = agent.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["labels"]
    assert labels == {cohdi.MANAGED_BY: "request", **({cohdi.TARGET_NODE: "node-0"} if labelled else {})}
    writes = len(agent.api.writes())
    reconcile(agent)
    assert len(agent.api.writes()) == writes


def test_another_operator_beside_this_one_is_told(agent: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an upgrade of CoHDI's chart, which sets its replicas back."""
    def create(name: str, created: float) -> None:
        raw = objects.resource(name, device=name, created=created)
        del raw["metadata"]["labels"][cohdi.TARGET_NODE]
        agent.put(raw)
        reconcile(agent)

    agent.state.rival.began()
    create("before", 5.0)
    assert agent.state.rival.problem() == ""
    create("meanwhile", -5.0)
    assert agent.state.rival.problem().startswith(
        "another operator has created meanwhile while this process leads, and each detaches what the other attaches")
    assert len(agent.told("Trouble")) == 1
    monkeypatch.setattr(memory, "RIVAL_SECONDS", 0.0)
    assert agent.state.rival.problem() == ""
