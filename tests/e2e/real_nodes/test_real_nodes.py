# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods and claims on real nodes: a container gets its device and no other one does, and what is killed comes back.

One lab serves all of it: a simulated node, and two real ones with a device each.
"""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.control_plane.certificates import Pair
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.tests.e2e.support import by_hand, real_hardware, real_pods
from ansible_collections.composable.infra.tests.e2e.support.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.e2e.support.lab_support import SLICES, wait_for

NODES = ("real-0", "real-1")
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def plugged(real_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_hardware.Plugged]:
    """An emulated fabric that has plugged a GPU into each real node."""
    fabric = FakeFabric(tmp_path_factory.mktemp("fabric"))
    found = real_hardware.Plugged(real_lab, fabric)
    for name in NODES:
        found.plug(name, name)
    yield found
    real_lab.detach_hardware()
    fabric.stop()


@pytest.fixture(scope="module")
def served(real_lab: Lab, plugged: real_hardware.Plugged) -> Iterator[Lab]:
    """The lab, with a pod on each real node that has a claim for the GPU there."""
    for name in NODES:
        real_hardware.restart_plugin(real_lab, name)
        real_hardware.await_announced(real_lab, name, f"GPU-{name}")
    real_pods.run(real_lab, *(real_pods.claiming_pod(real_lab, name, name) for name in NODES))
    yield real_lab
    real_pods.delete_with_claims(real_lab, *NODES)
    assert specs(real_lab) == []


def specs(lab: Lab) -> list[str]:
    """Names of all Container Device Interface specs on the real nodes."""
    return sorted(path.name for node in lab.real_nodes for path in (node.folder / "devices").iterdir())


def slice_name(lab: Lab, node: str) -> str:
    """Name of the node's only slice; a slice that was deleted and made again has another one."""
    (found,) = lab.api.get(f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")["items"]
    return str(found["metadata"]["name"])


def containers(lab: Lab, pod: str) -> dict[str, tuple[str, int]]:
    """Id and restarts of each container."""
    found = lab.api.get(f"{real_pods.PODS}/{pod}")["status"]["containerStatuses"]
    return {status["name"]: (status["containerID"], status["restartCount"]) for status in found}


def plugin_uid(lab: Lab) -> str:
    """UID of the running plugin of real-0. The kubelet writes into its status for a while after the start."""
    found = real_hardware.plugin_pod(lab, "real-0")
    assert found is not None
    return str(found["metadata"]["uid"])


def messages(lab: Lab, pod: str) -> list[str]:
    """What the kubelet has said about a pod that it could not prepare."""
    found = lab.api.get(EVENTS)["items"]
    return [it["message"] for it in found
            if it["involvedObject"]["name"] == pod and it["reason"] == "FailedPrepareDynamicResources"]


def prepared_again(lab: Lab, node: str) -> dict[str, Any]:
    """A pod of a further claim on the node, ready: so the kubelet knows the plugin. It is deleted again."""
    name = f"further-{node}"
    (pod,) = real_pods.run(lab, real_pods.claiming_pod(lab, name, node))
    real_pods.delete_with_claims(lab, name)
    return pod


@pytest.mark.parametrize("node", NODES)
def test_container_prints_its_device_and_the_one_beside_does_not_see_it(served: Lab, node: str) -> None:
    mine, beside = (real_pods.printed(served, node, container) for container in ("main", "beside"))
    assert f"devices: GPU_DEVICE_0=GPU-{node}\n" in mine
    assert "nvidia0" in mine.split()
    assert beside.startswith("devices: \n")
    assert "nvidia0" not in beside.split()
    uid = served.api.get(f"{real_pods.CLAIMS}/{node}")["metadata"]["uid"]
    assert f"k8s.gpu.nvidia.com-claim_{uid}.yaml" in specs(served)


def test_device_that_comes_later_is_seen_by_a_plugin_that_starts_later_only(
    served: Lab, plugged: real_hardware.Plugged
) -> None:
    before = containers(served, "real-0")
    plugin = plugin_uid(served)
    plugged.plug("real-0", "late")
    # Whoever publishes again shows what the plugin knows: the slice is deleted, and comes back without the new device.
    served.api.request("DELETE", f"{SLICES}/{slice_name(served, 'real-0')}")
    wait_for("the slice again", lambda: by_hand.announced(served, "real-0"))
    name = slice_name(served, "real-0")
    assert by_hand.announced(served, "real-0") == ["GPU-real-0"]
    assert plugin_uid(served) == plugin
    real_hardware.restart_plugin(served, "real-0")
    real_hardware.await_announced(served, "real-0", "GPU-real-0", "GPU-late")
    assert slice_name(served, "real-0") == name
    assert containers(served, "real-0") == before
    assert prepared_again(served, "real-0")["spec"]["nodeName"] == "real-0"


@pytest.fixture
def late(served: Lab, plugged: real_hardware.Plugged) -> None:
    """Announce GPU-late, if this test runs alone or the one that plugs it in has failed."""
    if by_hand.announced(served, "real-0") != ["GPU-real-0", "GPU-late"]:
        if not plugged.has("late"):
            plugged.plug("real-0", "late")
        real_hardware.restart_plugin(served, "real-0")
        real_hardware.await_announced(served, "real-0", "GPU-real-0", "GPU-late")


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_killed_program_comes_back_and_containers_stay(served: Lab, program: str) -> None:
    node, before = served.real_nodes[0], containers(served, "real-0")
    real_hardware.kill(node, program)
    assert prepared_again(served, "real-0")["spec"]["nodeName"] == "real-0"
    wait_for("the containers of before", lambda: containers(served, "real-0") == before)
    assert set(by_hand.announced(served, "real-0") or []) == {"GPU-real-0", "GPU-late"}


def test_device_that_the_plugin_does_not_know_is_an_event_and_tried_again(
    served: Lab, plugged: real_hardware.Plugged
) -> None:
    pod = real_pods.claiming_pod(served, "early", "real-1")
    real_pods.allocate(served, "early", "real-1", "gpu-1")
    # Past the scheduler, which would not place it.
    pod["spec"]["nodeName"] = "real-1"
    served.api.request("POST", real_pods.PODS, pod)
    words = "the device real-1/gpu-1 was not there when the plugin started"
    wait_for("the event", lambda: words in " ".join(messages(served, "early")))
    plugged.plug("real-1", "second")
    real_hardware.restart_plugin(served, "real-1")
    wait_for("the pod", lambda: real_pods.ready(served, "early"), 60)
    assert "devices: GPU_DEVICE_1=GPU-second\n" in real_pods.printed(served, "early")
    real_pods.delete_with_claims(served, "early")


def test_container_that_holds_its_device_keeps_it_on_the_bus(served: Lab) -> None:
    folder = served.node_folder("real-1")
    claims = {"claims": [{"name": "gpu"}]}
    holder = real_pods.real_pod("holder", "real-1", args=["hold", "/dev/nvidia0"], resources=claims)
    holder["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "real-1"}]
    real_pods.run(served, holder)
    address = by_hand.gpus(folder)[0]
    file = folder / "sys/bus/pci/devices" / address / "remove"
    with subprocess.Popen(["sh", "-c", 'echo 1 > "$1"', "sh", str(file)]) as removal:
        try:
            wait_for("the kernel says that it is in use", lambda: "usage count" in by_hand.kernel_log(folder))
            assert address in by_hand.gpus(folder)
            assert removal.poll() is None
            real_pods.delete(served, "holder")
            wait_for("the removal ends", lambda: removal.poll() == 0)
        finally:
            removal.kill()
    assert address not in by_hand.gpus(folder)


def test_node_folder_is_what_its_programs_see(served: Lab) -> None:
    kubelet = served.real_nodes[0].folder / "kubelet"
    assert (kubelet / "plugins_registry" / "gpu.nvidia.com-reg.sock").is_socket()
    assert not Path("/var/lib/kubelet/plugins_registry/gpu.nvidia.com-reg.sock").exists()


def test_pods_run_on_both_nodes_and_on_the_simulated_one(real_lab: Lab) -> None:
    nodes = real_lab.real_nodes
    pods = [real_pods.real_pod(f"plain-{node.name}", node.name) for node in nodes]
    real_pods.run(real_lab, *pods, real_pods.real_pod("simulated", "node-0"))
    for node in nodes:
        found = real_lab.api.get(f"/api/v1/namespaces/default/pods/plain-{node.name}")
        assert found["spec"]["nodeName"] == node.name
        assert ipaddress.ip_address(found["status"]["podIP"]) in ipaddress.ip_network(node.pod_range)
        assert real_pods.printed(real_lab, f"plain-{node.name}").startswith("devices: \n/dev: ")
    registered = {node["metadata"]["name"]: node for node in real_lab.api.get("/api/v1/nodes")["items"]}
    versions = {name: node["status"]["nodeInfo"]["containerRuntimeVersion"] for name, node in registered.items()}
    assert versions.pop("node-0") == "kwok"
    assert set(versions) == {"real-0", "real-1"}
    assert all(version.startswith("containerd://2.") for version in versions.values())
    real_pods.delete(real_lab, "simulated", *(f"plain-{node.name}" for node in nodes))


def test_kubelet_may_not_touch_another_node(real_lab: Lab) -> None:
    pki = real_lab.state_dir / "pki"
    api = Api(real_lab.server, real_lab.ca, Pair(pki / "kubelet-real-0.crt", pki / "kubelet-real-0.key"))
    label = {"metadata": {"labels": {"example.com/mine": "yes"}}}
    api.request("PATCH", "/api/v1/nodes/real-0", label, "application/merge-patch+json")
    with pytest.raises(ApiRefusal, match="is not allowed to modify node"):
        api.request("PATCH", "/api/v1/nodes/real-1", label, "application/merge-patch+json")
    with pytest.raises(ApiRefusal) as refused:
        api.get("/api/v1/secrets")
    assert refused.value.status == 403
