# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start real nodes beside a control plane, and restore the machine when they end."""

from __future__ import annotations

import functools
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.binaries.node_programs import (
    WITHOUT_SECCOMP,
    WORKLOAD,
    filters_system_calls,
)
from ansible_collections.composable.infra.lab.binaries.releases import NODE_COMPONENTS
from ansible_collections.composable.infra.lab.control_plane.bootstrap import serves_policies
from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.control_plane.components import Layout
from ansible_collections.composable.infra.lab.control_plane.nodes import is_ready
from ansible_collections.composable.infra.lab.errors import LabError, NotYet
from ansible_collections.composable.infra.lab.processes.supervisor import Processes
from ansible_collections.composable.infra.lab.real_nodes import cni, containerd, guard, kubelet, namespace, python_image
from ansible_collections.composable.infra.lab.real_nodes.images import ARCHIVE, write_images
from ansible_collections.composable.infra.lab.real_nodes.ledger import Ledger
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode, real_node_names
from ansible_collections.composable.infra.lab.real_nodes.plugin.daemonset import documents
from ansible_collections.composable.infra.lab.real_nodes.requirements import may_lower_oom_scores, missing

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def check(count: int) -> None:
    """Raise LabError if real nodes are wanted and this machine cannot have them."""
    trouble = missing() if count else None
    if trouble:
        raise LabError(trouble)


def reserve(state_dir: Path, count: int) -> list[RealNode]:
    """Reserve numbers and addresses for the nodes, and record the changes in the ledger."""
    return Ledger().open(state_dir, real_node_names(count)) if count else []


def prepare(nodes: Sequence[RealNode], layout: Layout, authority: Authority, cluster: str) -> None:
    """Write the nodes' files."""
    if nodes:
        write_images(layout.state_dir / ARCHIVE, layout.binaries[WORKLOAD])
    for node in nodes:
        _write_files(node, layout, authority, cluster)


def start(
    nodes: Sequence[RealNode], processes: Processes, api: Api, layout: Layout, plugin_start: float = 0.0
) -> None:
    """Start the nodes and the stand-in of the vendor's plugin, which takes `plugin_start` seconds
    to start."""
    if not nodes:
        return
    records = [processes.start(namespace.command(node)) for node in nodes]
    Ledger().keep(nodes[0].state_dir, [(record.pid, record.started) for record in records])
    processes.start(guard.command(nodes[0].state_dir))
    policies = python_image.documents(layout.address, layout.ports.apiserver)
    for document in (*documents(api.server, plugin_start), *(policies if serves_policies(layout.release) else ())):
        api.apply(document)


def wait_ready(nodes: Sequence[RealNode], processes: Processes, api: Api, seconds: float) -> None:
    """Return when all nodes are ready and the plugin has published on each.

    Raise LabError with the end of a node's logs.
    """
    for node in nodes:
        try:
            processes.wait_until(f"the real node {node.name}", functools.partial(_ready, api, node.name), seconds)
            what = f"the slice of the real node {node.name}"
            processes.wait_until(what, functools.partial(_published, api, node.name), seconds)
        except LabError as error:
            raise LabError(f"{error}\n{_ends(node)}") from error


def stop(state_dir: Path, processes: Processes) -> None:
    """Kill the nodes and undo their changes to the machine."""
    for node in Ledger().nodes(state_dir):
        if any(record.name == node.name for record in processes.records()):
            # The first process of a namespace accepts no other signal from outside.
            processes.stop(node.name, number=signal.SIGKILL)
    Ledger().close(state_dir)


def _write_files(node: RealNode, layout: Layout, authority: Authority, cluster: str) -> None:
    for folder in ("bin", "config", "cni", "logs"):
        (node.folder / folder).mkdir(parents=True)
    for folder in ("sys/bus/pci/devices", "proc/driver/nvidia", "dev"):
        (node.hardware / folder).mkdir(parents=True)
    for name in (*NODE_COMPONENTS, WITHOUT_SECCOMP):
        (node.bin / name).symlink_to(layout.binaries[name].absolute())
    runtime = "runc" if filters_system_calls(layout.binaries["runc"]) else WITHOUT_SECCOMP
    text = containerd.configuration(node, runtime, lower_oom_scores=may_lower_oom_scores())
    node.config("containerd.toml").write_text(text, encoding="utf-8")
    (node.folder / "cni" / "lab.conflist").write_text(cni.configuration(node), encoding="utf-8")
    kubelet.write_identity(node, authority, layout.server, cluster)
    kubelet.write_configuration(node, layout.pki)
    namespace.write_plan(node)


def _ready(api: Api, name: str) -> bool:
    try:
        node = api.get(f"/api/v1/nodes/{name}")
    except ApiRefusal as error:
        raise NotYet(str(error)) from error
    if not is_ready(node):
        raise NotYet("; ".join(_unmet(node)) or "the node has a taint")
    return True


def _unmet(node: dict[str, Any]) -> list[str]:
    """Return the messages of the conditions that keep the node from being ready."""
    conditions = node.get("status", {}).get("conditions", ())
    return [entry.get("message", "") for entry in conditions
            if entry["type"] == "Ready" and entry["status"] != "True"]


def _published(api: Api, name: str) -> bool:
    return bool(api.get(f"{SLICES}?fieldSelector=spec.nodeName%3D{name}")["items"])


def _ends(node: RealNode) -> str:
    logs = [node.log(name) for name in ("containerd", "kubelet")]
    return "\n".join(f"==> {log} <==\n{_end(log)}" for log in logs if log.exists())


def _end(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-5:])
