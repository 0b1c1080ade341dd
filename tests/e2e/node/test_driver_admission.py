# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node agent that is a DRA driver may write: slices and claims' devices of its own node and driver only."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.allocation import Place
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.checkpoint import (
    PreparedClaim,
    PreparedDevice,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.claim_status import ClaimStatus
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import NodeDevice
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.publisher import Publisher
from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.agent_identity import agent_kubeconfig
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, Invalid
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for

Json = dict[str, t.Any]
DRIVER, THEIRS = "devices.composable.infra", "gpu.nvidia.com"
MINE, OTHER = "node-0", "node-1"
DEVICE = NodeDevice("nvidia", "0000:10:00.0", "10de", "2330", ("/dev/nvidia0",), "GPU-a")
NAMESPACE = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
POLICY = "ValidatingAdmissionPolicy 'composable-infra-agent-driver'"


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """Two nodes, with what makes an agent a driver."""
    made = stage_factory(nodes=2, hands="none").lab
    for document in documents(DEPLOY / "agent" / "kubelet_plugin.yaml"):
        made.api.apply(document)
    return made


@pytest.fixture(scope="module")
def agent(lab: Lab) -> Iterator[Client]:
    """The agent of the first node, once the API server applies the policy, which it loads after its creation."""
    client = Client(Connection.load(str(agent_kubeconfig(lab.api, lab.state_dir, lab.ca, MINE))))
    wait_for("the admission policy is applied", lambda: refuses_a_foreign_slice(client, lab))
    yield client
    client.close()


def refuses_a_foreign_slice(agent: Client, lab: Lab) -> bool:
    """Whether the policy refuses the slice of another node; nothing is left behind where it does not yet. The agent
    may be refused to delete it a moment later."""
    spec = {"driver": DRIVER, "nodeName": OTHER, "pool": {"name": OTHER, "generation": 1, "resourceSliceCount": 1}}
    body = {"apiVersion": SLICES.group_version, "kind": SLICES.kind, "metadata": {"name": "trial"}, "spec": spec}
    try:
        agent.create(SLICES, body)
    except (Forbidden, Invalid) as refusal:
        return POLICY in str(refusal)
    lab.api.request("DELETE", "/apis/resource.k8s.io/v1/resourceslices/trial")
    return False


def allocated(lab: Lab, name: str, node: str = MINE, driver: str = DRIVER, **more: t.Any) -> PreparedClaim:
    """A claim that has a device on a node; ``more``: of its result."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    claim = lab.api.request("POST", NAMESPACE, body)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    results = [{"request": "gpu", "driver": driver, "pool": node, "device": "gpu-a", **more}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    merge = "application/merge-patch+json"
    protected = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    lab.api.request("PATCH", f"{NAMESPACE}/{name}", protected, merge)
    lab.api.request("PATCH", f"{NAMESPACE}/{name}/status", {"status": {"allocation": allocation}}, merge)
    device = PreparedDevice("gpu", results[0]["pool"], "gpu-a", "0000:10:00.0", "GPU-a")
    return PreparedClaim(claim["metadata"]["uid"], "default", name, (device,))


def entry(lab: Lab, name: str) -> Json:
    """The only device in the status of a claim."""
    (found,) = lab.api.get(f"{NAMESPACE}/{name}")["status"]["devices"]
    return dict(found)


def test_agent_publishes_its_own_node_and_what_stands_there_is_as_it_was_written(lab: Lab, agent: Client) -> None:
    store = Store({})
    mine = Publisher(agent, Place(DRIVER, MINE), store)
    assert mine.publish([DEVICE])
    stored = lab.api.get("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver%3D" + DRIVER)["items"]
    again = Store({})
    for item in stored:
        again.upsert(item)
    assert not Publisher(agent, Place(DRIVER, MINE), again).publish([DEVICE])
    assert mine.publish([])


@pytest.mark.parametrize(("driver", "node"), [(DRIVER, OTHER), (THEIRS, MINE)])
def test_slice_of_another_node_or_driver_is_refused(agent: Client, driver: str, node: str) -> None:
    with pytest.raises((Forbidden, Invalid)) as refused:
        Publisher(agent, Place(driver, node), Store({})).publish([DEVICE])
    assert POLICY in str(refused.value)
    assert "only ResourceSlices of its own node and driver" in str(refused.value)


def test_foreign_slice_may_not_be_deleted(lab: Lab, agent: Client) -> None:
    pool = {"name": OTHER, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": OTHER, "pool": pool, "devices": []}
    lab.api.apply({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "other"},
                   "spec": spec})
    with pytest.raises((Forbidden, Invalid), match="only ResourceSlices of its own node and driver"):
        agent.delete(SLICES, "other")


def test_agent_writes_its_device_beside_the_conditions_of_others(lab: Lab, agent: Client) -> None:
    prepared = allocated(lab, "mine")
    theirs = {"type": "FabricDeviceReady", "status": "True", "reason": "Attached", "message": "",
              "lastTransitionTime": "2026-01-01T00:00:00Z"}
    key = {"driver": DRIVER, "pool": MINE, "device": "gpu-a"}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"},
            "status": {"devices": [{**key, "conditions": [theirs]}]}}
    lab.api.request("PATCH", f"{NAMESPACE}/mine/status?fieldManager=scaler", body, "application/apply-patch+yaml")
    status = ClaimStatus(agent, DRIVER)
    assert status.write(prepared)
    found = entry(lab, "mine")
    assert {condition["type"] for condition in found["conditions"]} == {"FabricDeviceReady", "Ready"}
    assert found["data"] == {"pciBusID": "0000:10:00.0", "uuid": "GPU-a", "libraries": False}
    assert not status.write(prepared)
    assert entry(lab, "mine") == found


def test_claim_of_another_node_or_driver_is_refused(lab: Lab, agent: Client) -> None:
    for name, node, driver in (("theirs", MINE, THEIRS), ("elsewhere", OTHER, DRIVER)):
        prepared = allocated(lab, name, node, driver)
        with pytest.raises((Forbidden, Invalid)):
            ClaimStatus(agent, driver).write(prepared)
        assert "devices" not in lab.api.get(f"{NAMESPACE}/{name}")["status"]


READY: Json = {"pool": "h100-fabric1", "bindingConditions": ["FabricDeviceReady"],
               "bindingFailureConditions": ["FabricDeviceFailed"]}


def test_agent_writes_a_pool_device_that_a_claim_keeps_on_its_node(lab: Lab, agent: Client) -> None:
    assert ClaimStatus(agent, DRIVER).write(allocated(lab, "direct", **READY))
    assert entry(lab, "direct")["data"]["uuid"] == "GPU-a"


@pytest.mark.parametrize(("name", "node", "more"), [
    ("far", OTHER, READY), ("other-pool", MINE, {"pool": "h100-fabric1"}),
    ("theirs-direct", MINE, {**READY, "driver": THEIRS}),
])
def test_pool_device_elsewhere_or_without_conditions_is_refused(
        lab: Lab, agent: Client, name: str, node: str, more: Json) -> None:
    prepared = allocated(lab, name, node, **more)
    with pytest.raises((Forbidden, Invalid)):
        ClaimStatus(agent, more.get("driver", DRIVER)).write(prepared)
    assert "devices" not in lab.api.get(f"{NAMESPACE}/{name}")["status"]


def test_agent_may_not_give_a_claim_free(lab: Lab, agent: Client) -> None:
    allocated(lab, "kept")
    with pytest.raises((Forbidden, Invalid)):
        agent.merge_patch(CLAIMS, "kept", {"status": {"allocation": None}}, "default", "status")
    assert lab.api.get(f"{NAMESPACE}/kept")["status"]["allocation"]
