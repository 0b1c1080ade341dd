# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Composable devices on a node's PCI bus in sysfs: presence, link, memory windows and users.

Standard library only, Python 3.8, because the file runs on nodes. ``root`` contains the node's /sys
and /proc. It is ``/`` on the node itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .evidence import Link
from .probe import NotProven, openers

# GPUs, other accelerators, CXL memory: prefixes of the PCI class.
CLASSES = ("03", "12", "0b40", "0502")
_BRIDGE, _MEMORY_CLASS = "0604", "0502"
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
# The first lines of the file ``resource``. The expansion ROM and the windows of virtual functions
# follow.
_BARS = 6
_UNSET, _MEMORY = 0x20000000, 0x200
# Documentation/admin-guide/devices.txt of Linux assigns this major number to NVIDIA's devices.
_NVIDIA_MAJOR = 195
_DEVICE_NUMBER = re.compile(r"\d+:\d+")


class UnknownDevice(Exception):
    """The node does not show the device. The message lists the devices that it shows."""


@dataclass(frozen=True)
class PciDevice:
    """A device. Its ids are hexadecimal without 0x.

    ``uuid``, ``minor`` and ``model`` are from the NVIDIA driver. For CXL memory, ``uuid`` is the
    serial number that its driver shows.
    """

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
    """Return the node's devices of the PCI classes in CLASSES, sorted by address.

    ``root`` contains the node's /sys and /proc. Raise NotProven if the bus cannot be read.
    """
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
        driver=Path(os.readlink(str(driver))).name if driver.is_symlink() else None,
        numa_node=int(numa) if numa.isdecimal() else None,
        uuid=_uuid(told.get("GPU UUID", "")) or _memory_serial(root, entry.name, pci_class),
        minor=int(minor) if minor.isdecimal() else None, model=told.get("Model") or None)


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _hex(path: Path) -> str:
    text = _line(path)
    return text[2:] if text.startswith("0x") else text


def _told(path: Path) -> dict[str, str]:
    fields = (line.partition(":") for line in _line(path).splitlines())
    return {name.strip(): value.strip() for name, _colon, value in fields}


def _uuid(text: str) -> str | None:
    """Return the UUID. The NVIDIA driver shows question marks until the first use of the device."""
    return None if not text or "?" in text else text


def _memory_serial(root: Path, address: str, pci_class: str) -> str | None:
    """Return a serial number such as ``0x1a2b3c``, or None.

    There is none before the driver has made a memory device, or if the memory has no number.
    """
    name = memdev(root, address) if pci_class.startswith(_MEMORY_CLASS) else ""
    serial = _line(root / "sys/bus/pci/devices" / address / name / "serial") if name else ""
    return serial if serial not in ("", "0x0", "0") else None


def find(root: Path, wanted: str) -> PciDevice | None:
    """Return the device with this GPU UUID or PCI address, or None if the node does not show it."""
    return next((d for d in devices(root) if wanted and wanted in (d.uuid, d.address)), None)


def need(root: Path, wanted: str) -> PciDevice:
    """Return the device with this GPU UUID or PCI address. Raise UnknownDevice."""
    found = find(root, wanted)
    if found is None:
        known = ", ".join(f"{d.address} ({d.uuid})" if d.uuid else d.address for d in devices(root))
        raise UnknownDevice(f"device: {wanted!r} is not on this node. Allowed are {known or 'none, the bus is empty'}")
    return found


def device_files(root: Path, device: PciDevice) -> list[str]:
    """Return the files below /dev by which programs use the device. Raise NotProven if unknown."""
    entry = root / "sys/bus/pci/devices" / device.address
    drm = entry / "drm"
    found = [f"/dev/dri/{p.name}" for p in sorted(drm.iterdir())] if drm.is_dir() else []
    if device.driver == "nvidia":
        if device.minor is None:
            raise NotProven(f"the NVIDIA driver has {device.address} and shows no Device Minor for it")
        return [f"/dev/nvidia{device.minor}", *found]
    if device.driver == "vfio-pci":
        group = entry / "iommu_group"
        if not group.is_symlink():
            raise NotProven(f"{device.address} is bound to vfio-pci and has no iommu_group")
        return [f"/dev/vfio/{Path(os.readlink(str(group))).name}", *found]
    if device.driver == "cxl_pci" and memdev(root, device.address):
        return [f"/dev/cxl/{memdev(root, device.address)}"]
    if device.driver is not None and not found:
        raise NotProven(f"driver {device.driver} has {device.address}, and the files by which it is used are unknown")
    return found


def has_files(root: Path, device: PciDevice) -> bool:
    """Return whether the device's files are in /dev, and False if the files are unknown."""
    try:
        return all((root / path.lstrip("/")).exists() for path in device_files(root, device))
    except NotProven:
        return False


def users(root: Path, device: PciDevice) -> list[str]:
    """Return the processes that use the device, as ``pid <n> (<name>)``. Raise NotProven.

    The list is empty if the device is idle.
    """
    return openers(root, device_numbers(root, device))


def device_numbers(root: Path, device: PciDevice) -> list[str]:
    """Return the numbers of the character devices of the device, such as ``195:0``.

    Raise NotProven if the kernel does not show them.
    """
    files = device_files(root, device)
    entry = root / "sys/bus/pci/devices" / device.address
    found = [_device_number(path / "dev") for path in sorted((entry / "drm").glob("*"))]
    if device.driver == "nvidia":
        return [f"{_NVIDIA_MAJOR}:{device.minor}", *found]
    if device.driver == "vfio-pci":
        return [*_vfio_numbers(root, entry, Path(files[0]).name), *found]
    if device.driver == "cxl_pci":
        return [_device_number(entry / Path(files[0]).name / "dev")]
    return found


def _vfio_numbers(root: Path, entry: Path, group: str) -> list[str]:
    """Return the numbers of the device's IOMMU group and, for iommufd, of the device itself.

    A kernel supports one of these ways or both, and shows the numbers of what it supports.
    """
    shown = [root / "sys/class/vfio" / name / "dev" for name in (group, f"noiommu-{group}")]
    shown += sorted(entry.glob("vfio-dev/vfio*/dev"))
    found = [_device_number(path) for path in shown if os.path.lexists(str(path))]
    if not found:
        raise NotProven(f"{entry.name} is bound to vfio-pci and shows no device number")
    return found


def _device_number(path: Path) -> str:
    number = _line(path)
    if not _DEVICE_NUMBER.fullmatch(number):
        raise NotProven(f"{path} does not show the number of a device")
    return number


def link(root: Path, address: str) -> Link | None:
    """Return the device's PCIe link, or None if the kernel does not show it.

    ``max_width`` is the width that both ends support. A device for 16 lanes has a full link of 8
    lanes in a slot with 8.
    """
    entry = root / "sys/bus/pci/devices" / address
    width, most = (_line(entry / name) for name in ("current_link_width", "max_link_width"))
    if not (width.isdecimal() and most.isdecimal()):
        return None
    above = _line(entry.resolve().parent / "max_link_width")
    return Link(int(width), min(int(most), int(above)) if above.isdecimal() and int(above) else int(most),
                _line(entry / "current_link_speed"), _line(entry / "max_link_speed"))


def bars_without_room(root: Path, address: str) -> list[int]:
    """Return the numbers of the memory windows (BARs) that have a size but no address."""
    lines = _line(root / "sys/bus/pci/devices" / address / "resource").splitlines()[:_BARS]
    return [number for number, line in enumerate(lines) if _no_room(line.split())]


def _no_room(fields: list[str]) -> bool:
    try:
        start, end, flags = (int(field, 16) for field in fields)
    except ValueError:
        return False
    return flags != 0 and end > 0 and (start == 0 or bool(flags & _UNSET))


def is_lost(root: Path, address: str) -> bool:
    """Return whether a device on the bus no longer answers: its configuration is all ones."""
    try:
        with open(root / "sys/bus/pci/devices" / address / "config", "rb") as config:
            return config.read(4) == b"\xff" * 4
    except OSError:
        return False


def ports(root: Path) -> list[str]:
    """Return the PCI addresses of the bridges without devices, where a new device may appear.

    Raise NotProven.
    """
    folder = root / "sys/bus/pci/devices"
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise NotProven(f"{folder} cannot be read: {error.strerror}") from None
    return [e.name for e in entries if _hex(e / "class").startswith(_BRIDGE) and (e / "rescan").exists()
            and not any(_ADDRESS.fullmatch(child.name) for child in e.iterdir())]


def is_behind(root: Path, address: str, bridges: Collection[str]) -> bool:
    """Return whether the device is behind one of the bridges.

    Return True without bridges, and if sysfs shows no bridge above the device.
    """
    entry = (root / "sys/bus/pci/devices" / address).resolve()
    above = {part for part in entry.parent.parts if _ADDRESS.fullmatch(part)}
    return not bridges or not above or not above.isdisjoint(bridges)


def switch(root: Path, address: str) -> str:
    """Return the PCI address of the upstream port of the device's switch, or empty.

    Above the device, sysfs shows a root port, and an upstream and a downstream port of each switch.
    """
    entry = (root / "sys/bus/pci/devices" / address).resolve()
    above = [part for part in entry.parent.parts if _ADDRESS.fullmatch(part)]
    return above[-2] if len(above) > 2 else ""


def shared_places(root: Path, bridges: Collection[str]) -> dict[str, str | int]:
    """Return ``pcieRoot`` and ``numaNode`` of these bridges, if all have the same value."""
    roots = {root_complex(root, address) for address in bridges}
    nodes = {_line(root / "sys/bus/pci/devices" / address / "numa_node") for address in bridges}
    found: dict[str, str | int] = {}
    if len(roots) == 1 and all(roots):
        found["pcieRoot"] = roots.pop()
    if len(nodes) == 1 and all(node.isdecimal() for node in nodes):
        found["numaNode"] = int(nodes.pop())
    return found


def memory_windows(root: Path, bridges: Collection[str]) -> int:
    """Return the bytes of memory windows that firmware and kernel assigned to these bridges."""
    return sum(_window(line.split()) for address in bridges for line in
               _line(root / "sys/bus/pci/devices" / address / "resource").splitlines()[_BARS + 1:])


def _window(fields: list[str]) -> int:
    try:
        start, end, flags = (int(field, 16) for field in fields)
    except ValueError:
        return 0
    return end - start + 1 if flags & _MEMORY and end > start else 0


def root_complex(root: Path, address: str) -> str:
    """Return the root complex of a device, such as pci0000:00, or empty if sysfs shows none."""
    above = (root / "sys/bus/pci/devices" / address).resolve().parts
    return next((part for part in above if _ROOT.fullmatch(part)), "")


def memdev(root: Path, address: str) -> str:
    """Return the name of the CXL memory device, such as ``mem0``, or empty without its driver."""
    entry = root / "sys/bus/pci/devices" / address
    return next((p.name for p in sorted(entry.glob("mem[0-9]*"))), "")
