# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator does on a simulated node by hand, where no agent does it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.plugin.daemonset import LABELS, NAMESPACE
from ansible_collections.composable.infra.tests.e2e.support.lab_support import SLICES

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SELECTOR = quote(",".join(f"{name}={value}" for name, value in LABELS.items()))


def run(folder: Path, *arguments: str) -> str:
    """What a command of the node prints; it must end well."""
    command = [str(folder / "usr" / "bin" / arguments[0]), *arguments[1:]]
    done = subprocess.run(command, env={**os.environ, "NODE_ROOT": str(folder)}, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def gpus(folder: Path) -> list[str]:
    """PCI addresses of the GPUs on a node's bus."""
    found = (folder / "sys/bus/pci/devices").iterdir()
    return sorted(path.name for path in found if (path / "class").read_text(encoding="utf-8").startswith("0x03"))


def bound(folder: Path) -> list[str]:
    """PCI addresses of those that a driver has."""
    return [address for address in gpus(folder) if (folder / "sys/bus/pci/devices" / address / "driver").is_symlink()]


def kernel_log(folder: Path) -> str:
    """The node's kernel log."""
    path = folder / "dev" / "kmsg"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def open_device(folder: Path, minor: int, pid: int = 4711) -> Path:
    """A process of the node opens the device with this number; returns the link to remove when it closes it."""
    handle = folder / "proc" / str(pid) / "fd" / "7"
    handle.parent.mkdir(parents=True, exist_ok=True)
    (handle.parent.parent / "comm").write_text("python3\n", encoding="utf-8")
    handle.symlink_to(f"/dev/nvidia{minor}")
    return handle


def restart_plugin(lab: Lab, node: str) -> None:
    """Delete the vendor's plugin pod of a node, unless it left by itself; the DaemonSet makes another."""
    for pod in plugin_pods(lab, node):
        lab.api.remove(f"{PODS}/{pod['metadata']['name']}")


def plugin_pods(lab: Lab, node: str) -> list[dict[str, Any]]:
    """The vendor's plugin pods of a node."""
    query = f"labelSelector={_SELECTOR}&fieldSelector=spec.nodeName%3D{node}"
    found: list[dict[str, Any]] = lab.api.get(f"{PODS}?{query}")["items"]
    return found


def announced(lab: Lab, node: str) -> list[str] | None:
    """UUIDs in the slice of a node; None when it has none."""
    spec = slice_spec(lab, node)
    if spec is None:
        return None
    return [device["attributes"]["uuid"]["string"] for device in spec.get("devices") or []]


def empty(folder: Path) -> list[str]:
    """UUIDs in the slice of a simulated node that the plugin could give to no container: it saw no file of them."""
    found: list[str] = json.loads((folder / "simulator/plugin.json").read_text(encoding="utf-8"))["empty"]
    return found


def slice_spec(lab: Lab, node: str) -> dict[str, Any] | None:
    """The spec of the node's only slice."""
    items = lab.api.get(f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")["items"]
    assert len(items) <= 1
    found: dict[str, Any] | None = items[0]["spec"] if items else None
    return found
