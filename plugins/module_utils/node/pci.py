# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Composable devices on a node's PCI bus: what is there, who holds it, look for new ones, take one away.

Standard library only: it travels to nodes. ``root`` is where the node's /sys and /proc are, ``/`` on the node itself.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .probe import NotProven, openers

# GPUs, other accelerators, CXL memory: prefixes of the PCI class.
CLASSES = ("03", "12", "0b40", "0502")
POLL_SECONDS = 0.05
_WRITER = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'1')"


class UnknownDevice(Exception):
    """The node shows no such device; the message says which ones it shows."""


class NotDone(Exception):
    """The kernel did not do what was written to it; the message says what was seen."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A device; ids are hexadecimal without 0x, ``uuid``, ``minor`` and ``model`` are what the NVIDIA driver says."""

    address: str
    vendor: str
    device: str
    pci_class: str
    driver: str | None = None
    numa_node: int | None = None
    uuid: str | None = None
    minor: int | None = None
    model: str | None = None


def devices(root: Path) -> list[PciDevice]:
    """Devices of the classes that are composed, by address. Raises NotProven when the bus cannot be read."""
    folder = root / "sys/bus/pci/devices"
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise NotProven(f"{folder} cannot be read: {error.strerror}") from None
    found = (_device(root, entry) for entry in entries)
    return [d for d in found if d is not None]


def _device(root: Path, entry: Path) -> PciDevice | None:
    pci_class = _hex(entry / "class")
    if not pci_class.startswith(CLASSES):
        return None
    told = _told(root / "proc/driver/nvidia/gpus" / entry.name / "information")
    minor, numa = told.get("Device Minor", ""), _line(entry / "numa_node")
    driver = entry / "driver"
    return PciDevice(
        address=entry.name, vendor=_hex(entry / "vendor"), device=_hex(entry / "device"), pci_class=pci_class,
        driver=driver.readlink().name if driver.is_symlink() else None,
        numa_node=int(numa) if numa.isdecimal() else None, uuid=told.get("GPU UUID") or None,
        minor=int(minor) if minor.isdecimal() else None, model=told.get("Model") or None)


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _hex(path: Path) -> str:
    return _line(path).removeprefix("0x")


def _told(path: Path) -> dict[str, str]:
    fields = (line.partition(":") for line in _line(path).splitlines())
    return {name.strip(): value.strip() for name, _colon, value in fields}


def find(root: Path, wanted: str) -> PciDevice | None:
    """The device with this GPU UUID or PCI address, None when the node does not show it."""
    return next((d for d in devices(root) if wanted in (d.uuid, d.address)), None)


def need(root: Path, wanted: str) -> PciDevice:
    """The device with this GPU UUID or PCI address. Raises UnknownDevice."""
    found = find(root, wanted)
    if found is None:
        known = ", ".join(f"{d.address} ({d.uuid})" if d.uuid else d.address for d in devices(root))
        raise UnknownDevice(f"device: {wanted!r} is not on this node; allowed are {known or 'none, the bus is empty'}")
    return found


def device_files(root: Path, device: PciDevice) -> list[str]:
    """Files below /dev by which programs use the device. Raises NotProven when that cannot be told."""
    entry = root / "sys/bus/pci/devices" / device.address
    drm = entry / "drm"
    found = [f"/dev/dri/{p.name}" for p in sorted(drm.iterdir())] if drm.is_dir() else []
    if device.driver == "nvidia":
        if device.minor is None:
            raise NotProven(f"the NVIDIA driver has {device.address} and names no Device Minor for it")
        return [f"/dev/nvidia{device.minor}", *found]
    if device.driver == "vfio-pci":
        group = entry / "iommu_group"
        if not group.is_symlink():
            raise NotProven(f"{device.address} is bound to vfio-pci and has no iommu_group")
        return [f"/dev/vfio/{group.readlink().name}", *found]
    if device.driver is not None and not found:
        raise NotProven(f"driver {device.driver} has {device.address}; by which files it is used is not known")
    return found


def users(root: Path, device: PciDevice) -> list[str]:
    """Processes that have the device open, as ``pid <n> (<name>)``; empty when it is idle. Raises NotProven."""
    return openers(root, device_files(root, device))


def rescan(root: Path, patience: float) -> list[PciDevice]:
    """Have the kernel look for new devices; returns those that appeared while the write took. Raises NotDone."""
    before = {d.address for d in devices(root)}
    _write(root / "sys/bus/pci/rescan", patience)
    return [d for d in devices(root) if d.address not in before]


def await_device(root: Path, wanted: str, patience: float) -> PciDevice | None:
    """The device as soon as the node shows it, None when it does not within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while (found := find(root, wanted)) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found


def remove(root: Path, device: PciDevice, patience: float) -> None:
    """Take the device off the bus; returns when it is gone. Raises NotDone."""
    entry = root / "sys/bus/pci/devices" / device.address
    deadline = time.monotonic() + patience
    _write(entry / "remove", patience)
    while entry.exists():
        if time.monotonic() >= deadline:
            raise NotDone(f"{device.address} is still on the bus {patience:g} s after its removal was asked for")
        time.sleep(POLL_SECONDS)


def _write(path: Path, patience: float) -> None:
    """Write ``1`` in a process of its own: a removal that hangs in the kernel cannot be ended, only left behind."""
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        said = writer.communicate(timeout=patience)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        raise NotDone(f"{path}: the kernel has not answered for {patience:g} s; the device may hang") from None
    if writer.returncode:
        raise NotDone(f"{path} cannot be written: {said.splitlines()[-1] if said else 'no reason given'}")
