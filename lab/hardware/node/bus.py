# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's PCI bus as the kernel shows it below /sys: a hot-plug port for each slot, and the device
in it.

    NODE/sys/devices/pci0000:00/0000:00:01.0/                  a root port of a root complex
    …/0000:01:00.0/0000:02:00.0/                               a switch: its upstream port, and the port of a slot
    …/0000:02:00.0/{class,rescan}                              class 0x060400
    …/0000:02:00.0/0000:10:00.0/                               the device in its slot: vendor, class, resource, remove
    NODE/sys/bus/pci/devices/                                  a link to each
    NODE/sys/bus/pci/{rescan,drivers_probe,drivers_autoprobe}
    NODE/sys/bus/pci/drivers/nvidia/{bind,unbind}              and a link to each device that the driver has

A device that is no NVIDIA GPU has the class and driver of its model. It has a render node of DRM,
or, as CXL memory, a memory device with its serial number. CXL memory also has a file that sanitizes
it, unless the model has the attribute `sanitize: false`.

Two slots share a switch. Two switches share a root complex, which is a PCI domain. Root complexes
belong to the NUMA nodes 0 and 1 in turn.

The simulator offers the files that start an operation (control_files.py). This file only knows
their paths.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node.records import CXL_DRIVER, GPU_DRIVER, BusDevice

DRIVER = GPU_DRIVER
REMOVE, RESCAN, SANITIZE = "remove", "rescan", "sanitize"
_FIRST_BUS = 0x10
_SLOTS_PER_SWITCH, _SLOTS_PER_ROOT, _NUMA_NODES = 2, 4, 2
_MEMORY, _MEMORY_64 = 0x40200, 0x14220C
# Number, size and flags of the BARs of a data center GPU.
BARS = ((0, 16 << 20, _MEMORY), (1, 128 << 30, _MEMORY_64), (3, 32 << 20, _MEMORY_64))
_LINES = 13
_CONFIG_BYTES = 64
# Memory behind the port of a slot, for BARs of 64 bits and of 32 bits.
WINDOW, _WINDOW_32 = 256 << 30, 64 << 20


def port_address(slot: int) -> str:
    """Return the PCI address of the port of a slot."""
    return _bridges(slot)[-1]


def device_address(slot: int) -> str:
    """Return the PCI address of the device in a slot."""
    return f"{slot // _SLOTS_PER_ROOT:04x}:{device_bus(slot):02x}:00.0"


def device_bus(slot: int) -> int:
    """Return the number of the bus between a slot's port and its device."""
    return _FIRST_BUS + slot % _SLOTS_PER_ROOT


def root_complex(address: str) -> str:
    """Return the root complex above a device with this address."""
    return f"pci{address.partition(':')[0]}:00"


def numa_node(slot: int) -> int:
    """Return the NUMA node of a slot."""
    return slot // _SLOTS_PER_ROOT % _NUMA_NODES


def _bridges(slot: int) -> tuple[str, str, str]:
    """Return the addresses of the bridges above a slot: root port, switch upstream port, the slot's
    own port."""
    root, place = divmod(slot, _SLOTS_PER_ROOT)
    switch, port = divmod(place, _SLOTS_PER_SWITCH)
    (outer, _last), (inner, _end) = _buses(slot)
    return f"{root:04x}:00:{1 + switch:02x}.0", f"{root:04x}:{outer:02x}:00.0", f"{root:04x}:{inner:02x}:{port:02x}.0"


def _buses(slot: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first and last bus behind a slot's root port, and behind its switch upstream
    port."""
    switch = slot % _SLOTS_PER_ROOT // _SLOTS_PER_SWITCH
    last = _FIRST_BUS + (switch + 1) * _SLOTS_PER_SWITCH - 1
    return (1 + 2 * switch, last), (2 + 2 * switch, last)


class PciBus:
    """The folders of one node's bus. `root` is the node's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pci = root / "sys" / "bus" / "pci"
        self.devices = self.pci / "devices"
        self.driver = self.pci / "drivers" / DRIVER
        self._tree = root / "sys" / "devices"
        for folder in (self.devices, self.driver, self._tree, root / "sys" / "module" / DRIVER,
                       root / "sys" / "module" / "nvidia_uvm", root / "proc" / "1" / "fd", root / "dev"):
            folder.mkdir(parents=True, exist_ok=True)
        for path in (self.pci / "drivers_probe", self.driver / "bind", self.driver / "unbind"):
            path.touch()
        if not (self.pci / "drivers_autoprobe").exists():
            (self.pci / "drivers_autoprobe").write_text("1\n", encoding="utf-8")

    @property
    def autoprobe(self) -> bool:
        """Return whether the kernel looks for a driver when a device appears."""
        return (self.pci / "drivers_autoprobe").read_text(encoding="utf-8").strip() != "0"

    def ports(self) -> Iterator[tuple[str, Path]]:
        """Yield the address and folder of every port."""
        for path in sorted(self._tree.glob("pci*/*:*:*.*/*:*:*.*/*:*:*.*")):
            yield path.name, path

    def add_port(self, slot: int, offer: Callable[[Path], None] = lambda folder: None) -> Path:
        """Return the port of a slot. A new port gets the control files that `offer` makes."""
        folder = self._port(slot)
        if not folder.exists():
            upstream, own = _buses(slot), (device_bus(slot), device_bus(slot))
            for bridge, buses in zip((folder.parent.parent, folder.parent), upstream, strict=True):
                if not bridge.exists():
                    _fill(bridge, _bridge_files(slot, buses))
                    self._link(bridge)
            _fill(folder, _bridge_files(slot, own))
            offer(folder)
            self._link(folder)
        return folder

    def add_device(self, device: BusDevice, width: int, offer: Callable[[Path], None]) -> None:
        """Show a device in a slot that has a port. `width` is the lanes of its link. `offer` makes
        its control files."""
        port = self._port(device.slot)
        staged = self.root / "simulator" / "staged"
        shutil.rmtree(staged, ignore_errors=True)
        _fill(staged, _files(device, width))
        (staged / "config").write_bytes(_config(device))
        offer(staged)
        staged.rename(port / device.address)
        self._link(port / device.address)

    def remove_device(self, device: BusDevice) -> None:
        """Stop showing a device."""
        self.unbind(device)
        (self.devices / device.address).unlink(missing_ok=True)
        shutil.rmtree(self._folder(device), ignore_errors=True)

    def bind(self, device: BusDevice) -> None:
        """Show that the driver has a device."""
        folder, driver = self._folder(device), self.pci / "drivers" / device.driver
        driver.mkdir(exist_ok=True)
        _link_to(driver / device.address, folder)
        _link_to(folder / "driver", driver)
        if device.driver != DRIVER:
            file = self.root / device.file.lstrip("/")
            shown = folder if device.driver == CXL_DRIVER else folder / "drm"
            (shown / file.name).mkdir(parents=True, exist_ok=True)
            (shown / file.name / "dev").write_text(f"{device.number}\n", encoding="ascii")
            if device.driver == CXL_DRIVER:
                (shown / file.name / "serial").write_text(f"{device.uuid}\n", encoding="utf-8")
                self.security(device).mkdir(exist_ok=True)
                self.show_security(device, "disabled")
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{device.number}\n", encoding="ascii")

    def security(self, device: BusDevice) -> Path:
        """Return the folder that sanitizes CXL memory."""
        return self._folder(device) / f"mem{device.slot}" / "security"

    def show_security(self, device: BusDevice, state: str) -> None:
        """Show the state of the memory's security: `sanitize` while it is sanitized, else
        `disabled`."""
        (self.security(device) / "state").write_text(f"{state}\n", encoding="ascii")

    def unbind(self, device: BusDevice) -> None:
        """Show that no driver has a device, and remove the files of the driver."""
        (self._folder(device) / "driver").unlink(missing_ok=True)
        (self.pci / "drivers" / device.driver / device.address).unlink(missing_ok=True)
        for shown in ("drm", f"mem{device.slot}"):
            shutil.rmtree(self._folder(device) / shown, ignore_errors=True)
        shutil.rmtree(self.root / "proc" / "driver" / DRIVER / "gpus" / device.address, ignore_errors=True)
        if device.driver:
            (self.root / device.file.lstrip("/")).unlink(missing_ok=True)

    def wanted_driver(self, device: BusDevice) -> str:
        """Return the driver that the kernel would use: `driver_override`, else the driver for the
        device's IDs."""
        override = (self._folder(device) / "driver_override").read_text(encoding="utf-8").strip()
        return driver_of(device) if override in ("", "(null)") else override

    def is_wanted(self, device: BusDevice) -> bool:
        """Return whether the kernel has that driver. No other driver is ever loaded here."""
        return self.wanted_driver(device) == driver_of(device) != ""

    def lose_link(self, device: BusDevice) -> None:
        """Show the rest of a link to a device that is gone."""
        # A read without an answer returns all ones.
        (self._folder(device) / "config").write_bytes(b"\xff" * _CONFIG_BYTES)
        (self._folder(device) / "current_link_width").write_text("0\n", encoding="utf-8")
        (self._folder(device) / "current_link_speed").write_text("Unknown\n", encoding="utf-8")

    def _folder(self, device: BusDevice) -> Path:
        return self._port(device.slot) / device.address

    def _port(self, slot: int) -> Path:
        bridges = _bridges(slot)
        return self._tree.joinpath(root_complex(bridges[0]), *bridges)

    def _link(self, folder: Path) -> None:
        _link_to(self.devices / folder.name, folder)


def vendor_of(device: BusDevice) -> str:
    """Return the PCI vendor ID, hexadecimal."""
    return str(device.properties.get("vendor_id", "10de"))


def product_of(device: BusDevice) -> str:
    """Return the PCI device ID, hexadecimal."""
    return str(device.properties.get("device_id", "2330"))


def class_of(device: BusDevice) -> str:
    """Return the PCI class, six hexadecimal digits: a GPU without a display, unless the model has
    another."""
    return str((device.properties.get("attributes") or {}).get("pci_class", "030200"))


def driver_of(device: BusDevice) -> str:
    """Return the driver for a device's IDs, which its model may name, or an empty string if there
    is none."""
    named = (device.properties.get("attributes") or {}).get("driver", "")
    return str(named) or (DRIVER if vendor_of(device) == "10de" else "")


def _bridge_files(slot: int, buses: tuple[int, int]) -> dict[str, str]:
    return {"vendor": "0x8086\n", "device": "0x347a\n", "class": "0x060400\n", "subsystem_vendor": "0x0000\n",
            "subsystem_device": "0x0000\n", "numa_node": f"{numa_node(slot)}\n",
            "secondary_bus_number": f"{buses[0]}\n", "subordinate_bus_number": f"{buses[1]}\n",
            "resource": _windows(slot, buses[1] - device_bus(slot) + 1)}


def _windows(slot: int, slots: int) -> str:
    """Return a bridge's BARs, of which it has none, then its windows: ports, memory and
    prefetchable memory."""
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * (_LINES + 4)
    lines[_LINES + 1] = f"0x{0x90000000:016x} 0x{0x90000000 + slots * _WINDOW_32 - 1:016x} 0x{0x200:016x}"
    start = (slot + 1) << 40
    lines[_LINES + 2] = f"0x{start:016x} 0x{start + slots * WINDOW - 1:016x} 0x{0x102201:016x}"
    return "\n".join(lines) + "\n"


def _files(device: BusDevice, width: int) -> dict[str, str]:
    vendor, product, pci_class = vendor_of(device), product_of(device), class_of(device)
    return {
        "vendor": f"0x{vendor}\n",
        "device": f"0x{product}\n",
        "class": f"0x{pci_class}\n",
        "subsystem_vendor": f"0x{vendor}\n",
        "subsystem_device": "0x16c1\n",
        "numa_node": f"{numa_node(device.slot)}\n",
        "enable": "1\n",
        "uevent": f"PCI_CLASS={pci_class.lstrip('0')}\nPCI_ID={vendor.upper()}:{product.upper()}\n"
                  f"PCI_SLOT_NAME={device.address}\n",
        "driver_override": "(null)\n",
        "current_link_width": f"{width}\n",
        "max_link_width": "16\n",
        "current_link_speed": "32.0 GT/s PCIe\n",
        "max_link_speed": "32.0 GT/s PCIe\n",
        "resource": _resource(device),
    }


def _config(device: BusDevice) -> bytes:
    """Return the beginning of the configuration: vendor and device, then zeros, which no program
    reads."""
    ids = b"".join(int(each, 16).to_bytes(2, "little") for each in (vendor_of(device), product_of(device)))
    return ids.ljust(_CONFIG_BYTES, b"\0")


def _resource(device: BusDevice) -> str:
    """Return start, end and flags of each BAR. Without an address it begins at 0, as in the
    kernel."""
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * _LINES
    for number, size, flags in BARS:
        start = ((device.slot + 1) << 40) + (number << 38) if device.room else 0
        lines[number] = f"0x{start:016x} 0x{start + size - 1:016x} 0x{flags:016x}"
    return "\n".join(lines) + "\n"


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def _link_to(link: Path, target: Path) -> None:
    # Relative, so that it has the same target within the node.
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
