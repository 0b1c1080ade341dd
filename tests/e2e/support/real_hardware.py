# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of real nodes, and the vendor's plugin there: its pods, its slices, and the node's programs to be killed."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.real_nodes import cgroups
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.lab.real_nodes.plugin.daemonset import LABELS, NAMESPACE
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for

PLUGIN_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LABEL = "dra-driver-nvidia-gpu-component"


class Plugged:
    """What an emulated fabric has plugged into the real nodes of a lab; devices are only ever added."""

    def __init__(self, lab: Lab, fabric: FakeFabric) -> None:
        self._lab, self._fabric = lab, fabric
        self._devices: list[tuple[str, str | None]] = []
        lab.attach_hardware(fabric.url, fabric.ca, plugin_start=0.0)

    def plug(self, node: str, name: str) -> None:
        """Plug a GPU in, wait until the driver has it, and use it once: what a node agent does after an attach."""
        folder = self._lab.node_folder(node)
        wanted = len(by_hand.gpus(folder)) + 1
        self._devices.append((name, node))
        self._fabric.show(*self._devices)
        wait_for(f"{name} is bound on {node}", lambda: len(by_hand.bound(folder)) == wanted)
        by_hand.run(folder, "nvidia-smi", "-L")

    def has(self, name: str) -> bool:
        """Return whether a GPU of this name is plugged in."""
        return any(name == plugged for plugged, _node in self._devices)


def await_announced(lab: Lab, node: str, *uuids: str) -> None:
    """Wait until the node's slice has just these devices."""
    wait_for(f"{', '.join(uuids)} in the slice of {node}", lambda: by_hand.announced(lab, node) == list(uuids))


def plugin_pod(lab: Lab, node: str) -> dict[str, Any] | None:
    """The pod of the vendor's plugin that runs on the node, found as the node agent finds it."""
    listed = lab.api.get(f"{PLUGIN_PODS}?labelSelector={_LABEL}%3D{LABELS[_LABEL]}")["items"]
    return next((pod for pod in listed if pod["spec"].get("nodeName") == node and _running(pod)), None)


def restart_plugin(lab: Lab, node: str) -> None:
    """Delete the plugin's pod, and wait until another one runs in its place."""
    before = wait_for(f"the plugin of {node}", lambda: plugin_pod(lab, node), 60)
    lab.api.request("DELETE", f"{PLUGIN_PODS}/{before['metadata']['name']}")
    wait_for(f"another plugin of {node}", functools.partial(_replaced, lab, node, before["metadata"]["uid"]), 60)


def programs(node: RealNode, name: str) -> list[int]:
    """Pids of a program of the node: "kubelet" or "containerd"."""
    folders = [folder / node.cgroup / cgroups.PROGRAMS for folder in cgroups.hierarchies()]
    return [pid for pid in cgroups.members(folders) if _command(pid) == str(node.bin / name)]


def kill(node: RealNode, name: str) -> None:
    """`kill -9` a program of the node, and wait until the node has started it again."""
    (pid,) = wait_for(f"{name} of {node.name}", lambda: programs(node, name))
    os.kill(pid, signal.SIGKILL)
    wait_for(f"{name} of {node.name} again", lambda: programs(node, name) not in ([], [pid]))


def _running(pod: dict[str, Any]) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") == "Running"


def _replaced(lab: Lab, node: str, uid: str) -> bool:
    pod = plugin_pod(lab, node)
    return pod is not None and pod["metadata"]["uid"] != uid


def _command(pid: int) -> str:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    except OSError:
        return ""
