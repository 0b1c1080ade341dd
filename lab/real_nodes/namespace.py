# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The namespaces of a real node, and the plan for its first process."""

from __future__ import annotations

import json
import sys
from typing import Any

from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.processes.supervisor import Command
from ansible_collections.composable.infra.lab.real_nodes import cgroups, containerd, kubelet
from ansible_collections.composable.infra.lab.real_nodes.images import ARCHIVE
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE, RealNode

# Folders of a node at the paths that its programs use. Each node sees its own folders there.
_FOLDERS = {
    "kubelet": "/var/lib/kubelet",
    "containerd": "/var/lib/containerd",
    "devices": "/run/cdi",
    "pods": "/var/log/pods",
}
_PRIVATE = ("/run/containerd", "/var/lib/cni", "/var/log/containers")
MOUNT_POINTS = (*_FOLDERS.values(), *_PRIVATE, HARDWARE)
# Folder of the vendor's driver, which exists in every procfs.
_DRIVER = "/proc/driver"


def write_plan(node: RealNode) -> None:
    """Write the plan for the node's first process."""
    for name in _FOLDERS:
        (node.folder / name).mkdir(parents=True, exist_ok=True)
    node.config("plan.json").write_text(json.dumps(_plan(node), indent=2), encoding="utf-8")


def command(node: RealNode) -> Command:
    """Return the command that becomes the node. If it is killed, all processes of the node are."""
    flags = ("--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")
    first = (sys.executable, "-m", f"{__package__}.init", str(node.config("plan.json")))
    return Command(node.name, ("unshare", *flags, *first), {"PYTHONPATH": import_path()})


def _plan(node: RealNode) -> dict[str, Any]:
    binds = [(str(node.folder / name), target) for name, target in _FOLDERS.items()]
    binds += [(str(node.hardware / _DRIVER.lstrip("/")), _DRIVER), (str(node.hardware), HARDWARE)]
    # A program that uses that folder as the node's root sees the node's processes there.
    binds += [("/proc", f"{HARDWARE}/proc")]
    return {
        # Programs on the node know the machine by this name.
        "hostname": node.name,
        "cgroups": cgroups.joins(node.cgroup),
        "tmpfs": list(_PRIVATE),
        "binds": binds,
        # Pods mount these with HostToContainer, so that later mounts reach them.
        "shared": [_FOLDERS["kubelet"], HARDWARE],
        "socket": containerd.SOCKET,
        "prepare": [containerd.import_command(node, node.state_dir / ARCHIVE)],
        "containerd": _service(node, "containerd", containerd.command(node)),
        "kubelet": _service(node, "kubelet", kubelet.command(node)),
    }


def _service(node: RealNode, name: str, line: list[str]) -> dict[str, Any]:
    # containerd finds its shim on PATH.
    path = f"{node.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"command": line, "log": str(node.log(name)), "environment": {"PATH": path}}
