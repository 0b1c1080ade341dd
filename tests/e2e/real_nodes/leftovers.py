# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What claims, devices and pods that are over have left: objects of the cluster, and things of each real node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.real_nodes import cgroups
from ansible_collections.composable.infra.lab.real_nodes.containerd import SNAPSHOTTER, SOCKET
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slices
from ansible_collections.composable.infra.tests.e2e.support import by_hand, real_hardware

# The kubelet looks for pods that are over every 2 s, and for their sandboxes every minute.
SECONDS, SANDBOX_SECONDS = 30.0, 100.0
_POD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_POD_MOUNT = re.compile(rf"/kubelet/pods/({_POD.pattern})")
_TASK_MOUNT = re.compile(r"/k8s\.io/([0-9a-f]{64})/rootfs")
_POD_UID = "io.kubernetes.pod.uid"


def assert_nothing_left(stage: Stage) -> None:
    """Nothing of a claim, a device or a pod is left anywhere, and no device was pulled from under its driver.

    Containers and snapshots are not looked at: see `assert_no_container_left`.
    """
    for node in stage.lab.real_nodes:
        assert "Xid" not in by_hand.kernel_log(node.hardware), "the fabric pulled a device that the node still had"
    _await_none(lambda: [*of_cluster(stage), *(each for node in stage.lab.real_nodes for each in of_node(stage, node))],
                SECONDS)


def assert_no_container_left(stage: Stage) -> None:
    """containerd has no container, sandbox or snapshot of a pod that is over."""
    _await_none(lambda: [each for node in stage.lab.real_nodes for each in of_containerd(stage, node)], SANDBOX_SECONDS)


def of_cluster(stage: Stage) -> Iterator[str]:
    """Objects that are there for devices. A vendor's plugin shows a device until it looks again: only ours is asked."""
    for raw in stage.client.list(COMPOSABLE_RESOURCES).items:
        yield f"ComposableResource {raw['metadata']['name']}"
    for item in stage.client.list(SLICES).items:
        if slices.node(item) and slices.driver(item) == stage.own_driver:
            yield from (f"device {device['name']} in slice {item['metadata']['name']}"
                        for device in slices.devices(item))
    for rule in _taint_rules(stage):
        yield f"DeviceTaintRule {rule}"


def of_node(stage: Stage, node: RealNode) -> Iterator[str]:
    """Devices of a node, and what its agent and kubelet keep for claims and pods."""
    alive = _pods(stage)
    yield from (f"{node.name}: device {address} on the bus" for address in by_hand.gpus(node.hardware))
    yield from (f"{node.name}: spec {path.name}" for path in (node.folder / "devices").iterdir())
    for file in node.folder.glob("kubelet/plugins/*/checkpoint.json"):
        for claim in json.loads(file.read_text("utf-8"))["claims"]:
            yield f"{node.name}: claim {claim} in {file.parent.name}/{file.name}"
    for path in (node.folder / "kubelet/pods").iterdir():
        if path.name not in alive:
            yield f"{node.name}: folder of pod {path.name}"
    for group in sorted(groups(node)):
        if (found := _POD.search(group.name)) and found[0] not in alive:
            yield f"{node.name}: control group {group}"
    containers = _tasks(node)
    for line in mounts(node):
        pod, task = _POD_MOUNT.search(line), _TASK_MOUNT.search(line)
        if (pod and pod[1] not in alive) or (task and task[1] not in containers):
            yield f"{node.name}: mount {line}"


def of_containerd(stage: Stage, node: RealNode) -> Iterator[str]:
    """Containers, sandboxes among them, whose pods are over, and snapshots of no container."""
    alive, containers = _pods(stage), _ctr(node, "containers", "ls", "-q")
    for name in containers:
        labels = _labels(node, name)
        if labels and labels[_POD_UID] not in alive:
            yield f"{node.name}: container {name} of pod {labels.get('io.kubernetes.pod.name')}"
    for line in _ctr(node, "snapshots", "--snapshotter", SNAPSHOTTER, "ls")[1:]:
        if line.split()[-1] == "Active" and line.split()[0] not in containers:
            yield f"{node.name}: snapshot {line}"


def mounts(node: RealNode) -> list[str]:
    """Mount points that the node's programs see, as the kernel tells them."""
    return Path(f"/proc/{_program(node)}/mountinfo").read_text("utf-8").splitlines()


def groups(node: RealNode) -> list[Path]:
    """All control groups below the node's own, in every hierarchy."""
    return [Path(path) / name for hierarchy in cgroups.hierarchies()
            for path, folders, _files in os.walk(hierarchy / node.cgroup) for name in folders]


def snapshots(node: RealNode) -> int:
    """How many folders the snapshots of a node have."""
    folder = node.folder / f"containerd/io.containerd.snapshotter.v1.{SNAPSHOTTER}/snapshots"
    return len(list(folder.iterdir()))


def _await_none(look: t.Callable[[], list[str]], seconds: float) -> None:
    """Wait until nothing is left; says what is, where it stays."""
    deadline = time.monotonic() + seconds
    while left := look():
        assert time.monotonic() < deadline, f"still left after {seconds:g} s: " + "; ".join(left)
        time.sleep(0.2)


def _pods(stage: Stage) -> set[str]:
    """uids of all pods."""
    return {str(pod["metadata"]["uid"]) for pod in stage.client.list(PODS).items}


def _taint_rules(stage: Stage) -> list[str]:
    """Names, in the first version that has the kind; it is served by no version where the feature is off."""
    api = stage.lab.api
    for entry in api.get("/apis/resource.k8s.io")["versions"]:
        kinds = {resource["name"] for resource in api.get(f"/apis/{entry['groupVersion']}")["resources"]}
        if "devicetaintrules" in kinds:
            items = api.get(f"/apis/{entry['groupVersion']}/devicetaintrules")["items"]
            return [str(item["metadata"]["name"]) for item in items]
    return []


def _program(node: RealNode) -> int:
    """The process of the node's containerd; a moment after kill -9 there may be none."""
    deadline = time.monotonic() + SECONDS
    while not (found := real_hardware.programs(node, "containerd")):
        assert time.monotonic() < deadline, f"no containerd on {node.name}"
        time.sleep(0.05)
    return found[0]


def _tasks(node: RealNode) -> set[str]:
    """Names of the containers that containerd has."""
    return set(_ctr(node, "containers", "ls", "-q"))


def _labels(node: RealNode, container: str) -> dict[str, str]:
    """Labels of a container; none of one that was removed since it was listed."""
    done = _run_ctr(node, "containers", "info", container)
    if done.returncode and "not found" in done.stderr:
        return {}
    done.check_returncode()
    return dict(json.loads(done.stdout)["Labels"])


def _ctr(node: RealNode, *arguments: str) -> list[str]:
    """What ctr lists of the node's."""
    done = _run_ctr(node, *arguments)
    done.check_returncode()
    return done.stdout.splitlines()


def _run_ctr(node: RealNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    socket = f"/proc/{_program(node)}/root{SOCKET}"
    command = [str(node.bin / "ctr"), "-a", socket, "-n", "k8s.io", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
