# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node agents as a DRA driver on real kubelets: devices are announced, given to containers, and survive kill -9.

The role ``controllers`` installs them. The vendor's plugin is not there; the devices are simulated, and were attached
by hand.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import typing as t
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.lab.real_nodes.plugin.daemonset import NAME, NAMESPACE
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.node.holders import pod_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.real_nodes import on_real_nodes as real
from ansible_collections.composable.infra.tests.e2e.support import by_hand, real_hardware, real_pods
from ansible_collections.composable.infra.tests.e2e.support.lab_support import SLICES, wait_for

Json = dict[str, t.Any]
DRIVER = "devices.composable.infra"
NODE, BUSY = "real-0", "real-1"


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes without the vendor's plugin, whose agents are a DRA driver; a device on each."""
    made = stage_factory(nodes=0, real_nodes=2, devices={A100: 3}, attach=0.1, detach=0.1)
    made.lab.api.request("DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}")
    wait_for("the end of the vendor's plugin", lambda: not made.lab.api.get(real_hardware.PLUGIN_PODS)["items"], 60)
    Installed(made, controllers_agent_dra_driver=DRIVER)
    for node in (NODE, BUSY):
        attach(made, node)
        wait_for(f"the device of {node}", partial(has_devices, made.lab.api, node, 1), 30)
    return made


def attach(stage: Stage, node: str) -> None:
    """Attach a device by hand, and use it once."""
    folder = stage.lab.node_folder(node)
    wanted = len(by_hand.bound(folder)) + 1
    connect(EngineConfig.load(str(stage.config_path)).fabric).attach(machine_uuid(node), A100)
    wait_for("the device is bound", lambda: len(by_hand.bound(folder)) == wanted)
    by_hand.run(folder, "nvidia-smi", "-L")


def node_slice(api: Api, node: str) -> Json | None:
    """The driver's only slice of the node."""
    items = api.get(f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")["items"]
    mine = [item for item in items if item["spec"]["driver"] == DRIVER]
    assert len(mine) <= 1
    return mine[0] if mine else None


def has_devices(api: Api, node: str, count: int) -> bool:
    """Whether the slice shows so many."""
    found = node_slice(api, node)
    return found is not None and len(found["spec"].get("devices") or []) == count


def claiming_pod(stage: Stage, name: str, node: str, claim: str = "", **exactly: t.Any) -> Json:
    """A pod for a claim of the driver, which is created unless it is named; ``exactly``: more of its request."""
    if not claim:
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, **exactly}}
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        stage.lab.api.request("POST", real_pods.CLAIMS, body)
    pod = real_pods.real_pod(name, node, resources={"claims": [{"name": "gpu"}]})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim or name}]
    pod["spec"]["containers"].append({"name": "beside", "image": pod["spec"]["containers"][0]["image"]})
    return pod


def real_node(stage: Stage, name: str) -> RealNode:
    return next(node for node in stage.lab.real_nodes if node.name == name)


def specs(stage: Stage, node: str) -> list[str]:
    """Names of the specs on a node."""
    return sorted(path.name for path in (real_node(stage, node).folder / "devices").iterdir())


def has_device(stage: Stage, pod: str) -> bool:
    return real_pods.printed(stage.lab, pod).startswith("devices: GPU_DEVICE_0=GPU-")


@pytest.fixture
def used(stage: Stage) -> Iterator[str]:
    """A pod that uses the device of the node; it and its claim are gone afterwards, with all that was theirs."""
    real_pods.run(stage.lab, claiming_pod(stage, "used", NODE))
    yield "used"
    real_pods.delete_with_claims(stage.lab, "used")
    wait_for("no spec is left", lambda: specs(stage, NODE) == [])


def test_container_prints_its_device_and_the_one_beside_does_not_see_it(stage: Stage, used: str) -> None:
    mine, beside = (real_pods.printed(stage.lab, used, container) for container in ("main", "beside"))
    assert mine.startswith("devices: GPU_DEVICE_0=GPU-")
    assert "nvidia0" in mine.split()
    assert beside.startswith("devices: \n")
    assert "nvidia0" not in beside.split()
    claim = stage.lab.api.get(f"{real_pods.CLAIMS}/{used}")
    assert specs(stage, NODE) == [f"{DRIVER}-claim_{claim['metadata']['uid']}.json"]
    (device,) = wait_for("the status", partial(devices_of, stage, used))
    assert (device["driver"], device["pool"]) == (DRIVER, NODE)
    assert device["conditions"][0]["message"] == "prepared with device files only, without libraries"


def devices_of(stage: Stage, claim: str) -> list[Json]:
    return list(stage.lab.api.get(f"{real_pods.CLAIMS}/{claim}")["status"].get("devices") or [])


def test_pods_share_a_device_by_one_claim(stage: Stage, used: str) -> None:
    real_pods.run(stage.lab, claiming_pod(stage, "second", NODE, claim=used))
    first, second = (real_pods.printed(stage.lab, name).splitlines()[0] for name in (used, "second"))
    assert first == second
    real_pods.delete(stage.lab, "second")
    assert specs(stage, NODE) != []


def test_administrator_looks_on_beside_the_user(stage: Stage, used: str) -> None:
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    stage.lab.api.request("PATCH", "/api/v1/namespaces/default", label, "application/merge-patch+json")
    real_pods.run(stage.lab, claiming_pod(stage, "watcher", NODE, adminAccess=True))
    user, watcher = (real_pods.printed(stage.lab, name).splitlines()[0] for name in (used, "watcher"))
    assert watcher == user
    (result,) = stage.lab.api.get(f"{real_pods.CLAIMS}/watcher")["status"]["allocation"]["devices"]["results"]
    assert result["adminAccess"] is True
    assert len(specs(stage, NODE)) == 2
    real_pods.delete_with_claims(stage.lab, "watcher")
    wait_for("the user's spec alone", lambda: len(specs(stage, NODE)) == 1)
    real_pods.run(stage.lab, claiming_pod(stage, "second", NODE, claim=used))
    assert has_device(stage, "second")
    real_pods.delete(stage.lab, "second")


def test_slices_that_a_restarted_kubelet_deletes_come_back(stage: Stage, used: str) -> None:
    before = node_slice(stage.lab.api, NODE)
    assert before is not None
    containers = stage.lab.api.get(f"{real_pods.PODS}/{used}")["status"]["containerStatuses"]
    real_hardware.kill(real_node(stage, NODE), "kubelet")

    def other() -> bool:
        found = node_slice(stage.lab.api, NODE)
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    wait_for("another slice", other, 60)
    again = node_slice(stage.lab.api, NODE)
    assert again is not None
    assert again["spec"]["devices"] == before["spec"]["devices"]
    now = stage.lab.api.get(f"{real_pods.PODS}/{used}")["status"]["containerStatuses"]
    assert [(c["containerID"], c["restartCount"]) for c in now] == \
        [(c["containerID"], c["restartCount"]) for c in containers]


def test_device_that_comes_is_announced_without_a_restart(stage: Stage) -> None:
    pods = stage.lab.api.get(real.OURS)["items"]
    attach(stage, BUSY)
    wait_for("both devices", partial(has_devices, stage.lab.api, BUSY, 2))
    now = stage.lab.api.get(real.OURS)["items"]
    assert {restarts(pod) for pod in now} == {restarts(pod) for pod in pods}


def restarts(pod: Json) -> tuple[str, int]:
    return pod["metadata"]["uid"], sum(int(c["restartCount"]) for c in pod["status"].get("containerStatuses") or [])


def test_plugin_that_is_killed_between_prepare_and_start_loses_nothing(stage: Stage) -> None:
    node, killed = real_node(stage, NODE), threading.Event()

    def kill() -> None:
        wait_for("a spec", lambda: specs(stage, NODE), 60)
        real.kill_in_pods(node, real.AGENT)
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    real_pods.run(stage.lab, claiming_pod(stage, "lucky", NODE))
    killer.join()
    assert killed.is_set()
    assert has_device(stage, "lucky")
    real_pods.delete_with_claims(stage.lab, "lucky")
    wait_for("no spec is left", lambda: specs(stage, NODE) == [], 60)
    checkpoint = node.folder / "kubelet/plugins" / DRIVER / "checkpoint.json"
    assert '"claims": []' in checkpoint.read_text("utf-8")


def test_pod_waits_for_a_plugin_that_is_away(stage: Stage) -> None:
    node = real_node(stage, NODE)
    pod = claiming_pod(stage, "patient", NODE)
    real.kill_in_pods(node, real.AGENT)
    real_pods.run(stage.lab, pod)
    assert has_device(stage, "patient")
    real_pods.delete_with_claims(stage.lab, "patient")


def test_second_agent_of_a_node_serves_when_the_first_has_ended(stage: Stage) -> None:
    """As after a pod that was deleted by force. The kubelet unprepares what the first one prepared."""
    node = real_node(stage, NODE)
    real_pods.run(stage.lab, claiming_pod(stage, "before", NODE))
    first = next(pod for pod in stage.lab.api.get(real.OURS)["items"] if is_agent_of(pod, NODE))
    second = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "second-agent"},
              "spec": {**first["spec"], "nodeName": NODE}}
    stage.lab.api.request("POST", real.PODS, second)
    wait_for("the second waits", lambda: "another agent works on this node" in agent_log(stage, "second-agent"), 60)
    kill_agent(node, first["metadata"]["uid"])
    wait_for("the second serves", lambda: "Registered the DRA driver with the kubelet" in agent_log(stage,
                                                                                                    "second-agent"), 60)
    real_pods.delete_with_claims(stage.lab, "before")
    real_pods.run(stage.lab, claiming_pod(stage, "next", NODE))
    assert has_device(stage, "next")
    stage.lab.api.request("DELETE", f"{real.PODS}/second-agent")
    real_pods.delete_with_claims(stage.lab, "next")
    wait_for("no spec is left", lambda: specs(stage, NODE) == [], 60)
    assert prepared(node.folder / "kubelet/plugins" / DRIVER / "checkpoint.json") == {}


def is_agent_of(pod: Json, node: str) -> bool:
    component = pod["metadata"]["labels"].get("app.kubernetes.io/component")
    return bool(component == "node-agent" and pod["spec"].get("nodeName") == node)


def agent_log(stage: Stage, pod: str) -> str:
    try:
        return str(stage.lab.api.get(f"{real.PODS}/{pod}/log"))
    except ApiRefusal:
        return ""


def kill_agent(node: RealNode, uid: str) -> None:
    """kill -9 the agent in the pod with this uid; its kubelet starts it again, and it waits."""
    for pid in real.processes(node, real.AGENT):
        if pod_of(Path(f"/proc/{pid}/cgroup").read_text("utf-8")) == uid:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("text", ["{", None], ids=["damaged", "gone"])
def test_checkpoint_that_was_lost_is_made_again_beside_a_running_pod(stage: Stage, used: str, text: str | None) -> None:
    """The spec stays, without which a container of the pod could not be started again."""
    node, spec = real_node(stage, NODE), specs(stage, NODE)
    checkpoint = node.folder / "kubelet/plugins" / DRIVER / "checkpoint.json"
    before = prepared(checkpoint)
    assert len(before) == len(spec) == 1
    checkpoint.unlink()
    if text is not None:
        checkpoint.write_text(text, encoding="utf-8")
    real.kill_in_pods(node, real.AGENT)
    wait_for("the checkpoint is made again", lambda: checkpoint.exists() and prepared(checkpoint) == before, 60)
    assert specs(stage, NODE) == spec


def prepared(checkpoint: Path) -> dict[str, list[str]]:
    """The addresses of the devices that claims have, by the uids of the claims; nothing in a file that is damaged."""
    try:
        claims = json.loads(checkpoint.read_text("utf-8"))["claims"]
    except ValueError:
        return {}
    return {claim["uid"]: [device["address"] for device in claim["devices"]] for claim in claims}


def test_device_that_falls_ill_is_told_to_its_pod(stage: Stage, used: str) -> None:
    folder = stage.lab.node_folder(NODE)
    (address,) = by_hand.gpus(folder)
    with (folder / "sys/bus/pci/devices" / address / "config").open("r+b") as config:
        config.write(b"\xff" * 4)
    wait_for("an unhealthy device", partial(is_unhealthy, stage, used), 30)


def is_unhealthy(stage: Stage, pod: str) -> bool:
    try:
        statuses = stage.lab.api.get(f"{real_pods.PODS}/{pod}")["status"]["containerStatuses"]
    except ApiRefusal:
        return False
    health = [resource["health"] for status in statuses for entry in status.get("allocatedResourcesStatus") or []
              for resource in entry.get("resources") or []]
    return health == ["Unhealthy"]
