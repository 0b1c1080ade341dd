# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One simulated node for the tests of its hardware."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.hardware.node.kernel import NodeKernel
from ansible_collections.composable.infra.lab.hardware.node.records import BusDevice


class Bench:
    """A node with its kernel, and what people and programs do to it."""

    def __init__(self, root: Path, *, events: bool = True) -> None:
        self.root, self.events = root, events
        self.lost: list[str] = []
        self.offered: list[tuple[str, bool]] = []
        self.kernel = self.boot()

    def boot(self) -> NodeKernel:
        """The kernel, as a simulator that starts makes it."""
        return NodeKernel(self.root, 4, self.events, self._offer, lambda: self.lost.append("lost"))

    def _offer(self, folder: Path, verb: str, address: str) -> None:
        (folder / verb).touch()
        # Whether the device could be seen already.
        self.offered.append((address, (self.root / "sys/bus/pci/devices" / address).exists()))

    def plug(self, *names: str) -> None:
        """The fabric has these devices plugged in now."""
        self.kernel.plug(PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100") for name in names)

    def devices(self) -> dict[str, BusDevice]:
        """What is on the bus, by the name in its uid."""
        return {device.uid.removeprefix("uid-"): device for device in self.kernel.records.devices()}

    def fault(self, kind: str, on: bool = True) -> None:
        """Switch a fault."""
        faults.switch(self.root, kind, on)

    def sysfs(self, address: str, name: str) -> str:
        """A file of a device."""
        return (self.root / "sys/bus/pci/devices" / address / name).read_text(encoding="utf-8").strip()

    def write(self, address: str, name: str, text: str) -> None:
        """Write a file of a device."""
        (self.root / "sys/bus/pci/devices" / address / name).write_text(text, encoding="utf-8")

    def open(self, minor: int, pid: int = 4711) -> Path:
        """A process that has a device open; the link to remove."""
        handle = self.root / "proc" / str(pid) / "fd" / "3"
        handle.parent.mkdir(parents=True)
        handle.symlink_to(f"/dev/nvidia{minor}")
        return handle

    def said(self, text: str) -> list[str]:
        """Lines of the kernel log that hold a text."""
        path = self.root / "dev" / "kmsg"
        return [line for line in path.read_text(encoding="utf-8").splitlines() if text in line]

    def dev(self) -> list[str]:
        """Device files of the GPUs."""
        return sorted(path.name for path in (self.root / "dev").glob("nvidia*"))


def addresses(devices: Iterable[BusDevice]) -> list[str]:
    """PCI addresses, sorted."""
    return sorted(device.address for device in devices)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A node whose devices announce themselves."""
    return Bench(tmp_path / "node-0")
