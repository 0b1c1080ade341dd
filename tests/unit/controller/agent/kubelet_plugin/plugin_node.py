# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node with devices, an API server in a dictionary, and what the kubelet plugin needs of an agent."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.allocation import Place
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.container_edits import ContainerEdits
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.specs import SpecFolder
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.checkpoint import (
    FILE,
    Checkpoint,
    PreparedClaim,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.device_view import DeviceView
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import KINDS
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.keepers import Keepers
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.memory import MemoryGuard
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.preparation import OnNode, Preparation
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node import driver_files
from ansible_collections.composable.infra.lab.hardware.node.kernel import NodeKernel
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import READY, Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import process
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

Json = dict[str, t.Any]
DRIVER, NODE = "devices.composable.infra", "node-0"


class PluginNode:
    """``folder`` gets the node's root and the folders of kubelet and specs."""

    def __init__(self, folder: Path, slots: int = 3) -> None:
        self.folder, self.api = folder, FakeApi()
        self.kernel = NodeKernel(folder / "node", slots, True, lambda folder, verb, address: None)
        self.root, self.cdi = self.kernel.root, folder / "cdi"
        self.evidences: list[Evidence] = []
        self.slices: list[Json] = []
        self.kept: dict[str, Evidence | None] = {}
        self.prepared: list[PreparedClaim] = []
        self.pods: list[Json] = []
        self.api.put(NODES, {"metadata": {"name": NODE, "uid": "node-uid"}})

    def plug(self, *names: str) -> None:
        """These GPUs, and no others, are in the node, each used once."""
        self.kernel.plug([PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100") for name in names])
        with self.kernel.records.lock():
            for device in self.kernel.records.devices():
                driver_files.touch(self.kernel.records, device)

    def pci_device(self, address: str, pci_class: str, driver: str = "", **links: str) -> Path:
        """Some other device, with its driver; ``links``: further links of its folder."""
        folder = self.root / "sys/bus/pci/devices" / address
        folder.mkdir()
        for name, text in (("class", pci_class), ("vendor", "0x1234"), ("device", "0x5678")):
            (folder / name).write_text(f"{text}\n")
        for name, target in {**({"driver": f"../../drivers/{driver}"} if driver else {}), **links}.items():
            (folder / name).symlink_to(target)
        return folder

    def claim(self, *devices: str, name: str = "c", **result: t.Any) -> Json:
        """A claim that has these devices, as the API server has it; ``result``: more of each result."""
        results = [{"request": "gpu", "driver": DRIVER, "pool": NODE, "device": it, **result} for it in devices]
        field = {"key": "metadata.name", "operator": "In", "values": [NODE]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": selector}
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        return self.api.put(CLAIMS, {"metadata": meta, "status": {"allocation": allocation} if devices else {}})

    def keep(self, name: str, pool_device: str, **more: t.Any) -> None:
        """One claim has the GPU ``name`` as a pool device of the fabric."""
        evidence = Evidence(**{"phase": READY, "device": f"uid-{name}", "uuid": f"GPU-{name}", **more})
        self.evidences, self.kept = [*self.evidences, evidence], {**self.kept, pool_device: evidence}

    def view(self) -> DeviceView:
        """Of all kinds."""
        return DeviceView(DRIVER, self.root, KINDS, lambda: self.evidences, lambda: self.slices, lambda: self.kept)

    def preparation(self, unsanitized: t.Collection[str] = ()) -> Preparation:
        """As after a start: what was before is read from the files. ``unsanitized``: see MemoryGuard."""
        on_node = OnNode(self.view(), ContainerEdits(Host(self.root)), SpecFolder(self.cdi, DRIVER),
                         Checkpoint(self.checkpoint), Keepers(self.root, lambda: self.pods),
                         MemoryGuard(self.root, unsanitized))
        return Preparation(Place(DRIVER, NODE), self.api.client, on_node, self.prepared.append)

    def process(self, pid: int, name: str, *opened: str, cgroup: str) -> Path:
        """A process of the node with these files open, in a control group."""
        folder = process(self.root, pid, name, *opened)
        (folder / "cgroup").write_text(f"{cgroup}\n" if cgroup[0] == "0" else f"0::{cgroup}\n")
        return folder

    @property
    def checkpoint(self) -> Path:
        """The file."""
        return self.folder / "kubelet/plugins" / DRIVER / FILE

    def specs(self) -> list[str]:
        """Names of all files in the folder of specs."""
        return sorted(path.name for path in self.cdi.iterdir()) if self.cdi.exists() else []

    def program(self, name: str, script: str) -> None:
        """A command of the node."""
        path = self.root / "usr/bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
