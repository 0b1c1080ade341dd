# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's folder: what the kernel and the vendor's driver would show below /sys, /proc and /dev.

    NODE/sys/bus/pci/rescan                        write to it to look for new devices
    NODE/sys/bus/pci/devices/0000:10:00.0/         vendor, device, class, ..., remove
    NODE/proc/driver/nvidia/gpus/0000:10:00.0/information
    NODE/dev/nvidia0

Everything is kept on disk, so that the simulator can be stopped and started again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice

IDENTITY = "lab_device.json"
_FIRST_BUS = 0x10


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device as a program on the node finds it; `appeared` in seconds since the epoch."""

    uid: str
    uuid: str
    model: str
    address: str
    minor: int
    appeared: float
    properties: Mapping[str, Any]


class NodeTree:
    """The simulated kernel of one node. Not thread-safe: one thread changes it, any may read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pci = root / "sys" / "bus" / "pci"
        self.devices = self.pci / "devices"
        self._removed = root / "removed"
        self.fresh = not root.exists()
        for folder in (
            self.devices,
            self.pci / "drivers" / "nvidia",
            root / "proc" / "1" / "fd",
            root / "dev",
            self._removed,
        ):
            folder.mkdir(parents=True, exist_ok=True)
        (self.pci / "rescan").touch()

    def found(self) -> list[FoundDevice]:
        """What is on the bus, by minor number."""
        paths = self.devices.glob(f"*/{IDENTITY}")
        return sorted((FoundDevice(**json.loads(path.read_text("utf-8"))) for path in paths), key=_minor)

    def sync(self, plugged: Iterable[PluggedDevice], *, discover: bool, rescanned: bool = False) -> bool:
        """Make the bus show what is plugged in, new devices only with `discover`. True when it changed.

        They appear now when they were looked for, `rescanned`, else when the fabric plugged them in.
        """
        wanted = {device.uid: device for device in plugged}
        present = {device.uid: device for device in self.found()}
        for uid in present.keys() - wanted.keys():
            self._unplug(present[uid])
        for marker in self._removed.iterdir():
            if marker.name not in wanted:
                marker.unlink()
        hidden = {marker.name for marker in self._removed.iterdir()}
        fresh = sorted(wanted.keys() - present.keys() - hidden) if discover else []
        for uid in fresh:
            self._plug(wanted[uid], 0.0 if rescanned else wanted[uid].since)
        return bool(fresh or present.keys() - wanted.keys())

    def rescan(self) -> None:
        """Forget which devices were removed by hand: what a write to `rescan` does."""
        for marker in self._removed.iterdir():
            marker.unlink()

    def remove(self, address: str) -> bool:
        """What a write to a device's `remove` does: it leaves the bus, unless a process has it open."""
        for device in self.found():
            if device.address == address and not self.is_open(device.minor):
                (self._removed / device.uid).touch()
                self._unplug(device)
                return True
        return False

    def is_open(self, minor: int) -> bool:
        """Whether a simulated process has /dev/nvidia<minor> open."""
        handles = self.root.glob("proc/[0-9]*/fd/*")
        return any(path.is_symlink() and os.readlink(path) == f"/dev/nvidia{minor}" for path in handles)

    def _plug(self, device: PluggedDevice, since: float) -> None:
        present = self.found()
        minor = _lowest({entry.minor for entry in present}, 0)
        bus = _lowest({int(entry.address[5:7], 16) for entry in present}, _FIRST_BUS)
        address = f"0000:{bus:02x}:00.0"
        found = FoundDevice(device.uid, device.serial, device.model, address, minor,
                            since or time.time(), device.properties)
        _fill(self._proc(address), {"information": _information(found)})
        (self.root / "dev" / f"nvidia{minor}").touch()
        # Built aside and renamed: a program that looks meanwhile sees all of the device or nothing.
        staged = self.root / "staged"
        shutil.rmtree(staged, ignore_errors=True)
        _fill(staged, _sysfs_files(found))
        (staged / "driver").symlink_to("../../drivers/nvidia")
        staged.rename(self.devices / address)

    def _unplug(self, device: FoundDevice) -> None:
        gone = self.root / "gone"
        shutil.rmtree(gone, ignore_errors=True)
        (self.devices / device.address).rename(gone)
        shutil.rmtree(gone)
        shutil.rmtree(self._proc(device.address), ignore_errors=True)
        (self.root / "dev" / f"nvidia{device.minor}").unlink(missing_ok=True)

    def _proc(self, address: str) -> Path:
        return self.root / "proc" / "driver" / "nvidia" / "gpus" / address


def _sysfs_files(device: FoundDevice) -> dict[str, str]:
    vendor = device.properties.get("vendor_id", "10de")
    product = device.properties.get("device_id", "2330")
    identity = {name: getattr(device, name) for name in FoundDevice.__slots__}
    return {
        "vendor": f"0x{vendor}\n",
        "device": f"0x{product}\n",
        "class": "0x030200\n",
        "subsystem_vendor": "0x10de\n",
        "subsystem_device": "0x16c1\n",
        "numa_node": "-1\n",
        "enable": "1\n",
        "uevent": f"DRIVER=nvidia\nPCI_ID={vendor.upper()}:{product.upper()}\nPCI_SLOT_NAME={device.address}\n",
        "uuid": f"{device.uuid}\n",
        "remove": "",
        IDENTITY: json.dumps(identity),
    }


def _information(device: FoundDevice) -> str:
    rows = {
        "Model:": device.model,
        "IRQ:": "128",
        "GPU UUID:": device.uuid,
        "Bus Type:": "PCIe",
        "Bus Location:": device.address,
        "Device Minor:": str(device.minor),
        "GPU Excluded:": "No",
    }
    return "".join(f"{name} \t {value}\n" for name, value in rows.items())


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def _lowest(taken: set[int], first: int) -> int:
    return next(number for number in range(first, first + len(taken) + 1) if number not in taken)


def _minor(device: FoundDevice) -> int:
    return device.minor
