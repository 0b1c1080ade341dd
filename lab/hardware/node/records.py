# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the simulated kernel of a node: the devices on its bus, and its log.

    NODE/simulator/devices/0000:10:00.0.json    one device
    NODE/simulator/plugged.json                 slot of each device that the fabric has plugged in, by uid
    NODE/dev/kmsg                               records as a reader of /dev/kmsg gets them

All records are on disk, because the simulator can be restarted and the stand-in of `nvidia-smi` is
a separate process. A process that changes a record holds the lock. Use little of the standard
library, because each `nvidia-smi` imports this module, and `dataclasses` took a quarter of its
time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ERROR, INFO = 3, 6
GPU_DRIVER, CXL_DRIVER = "nvidia", "cxl_pci"
_FIRST_RENDER_NODE = 128
# The last one is an unused number. The kernel assigns it when the module is loaded.
_NVIDIA_MAJOR, _DRM_MAJOR, _CXL_MAJOR = 195, 226, 252


class BusDevice(NamedTuple):
    """A device on the bus.

    `uuid` is the GPU's, which only its driver can read, or the serial number of CXL memory. `minor`
    is the driver's number, or -1 without a driver. `room` says whether its BARs have addresses.
    `touched` says whether a program has used it since it was bound, so that it has files in /dev
    and /proc. `lost` says whether the fabric took it away while it was on the bus. New programs do
    not see it while it is `draining`.
    """

    uid: str
    uuid: str
    model: str
    address: str
    slot: int
    properties: Mapping[str, Any] = {}
    driver: str = ""
    minor: int = -1
    room: bool = True
    touched: bool = False
    lost: bool = False
    persistence: bool = False
    draining: bool = False

    def but(self, **changes: Any) -> BusDevice:
        """Return the device with other values for these fields."""
        return self._replace(**changes)

    @property
    def file(self) -> str:
        """Return the device file for programs: of the GPU driver, of CXL memory, or a render node
        of DRM."""
        if self.driver == GPU_DRIVER:
            return f"/dev/nvidia{self.minor}"
        if self.driver == CXL_DRIVER:
            return f"/dev/cxl/mem{self.slot}"
        return f"/dev/dri/renderD{_FIRST_RENDER_NODE + self.slot}"

    @property
    def number(self) -> str:
        """Return the number of that file, as the kernel shows it. The stand-in's file has it as
        text."""
        if self.driver == GPU_DRIVER:
            return f"{_NVIDIA_MAJOR}:{self.minor}"
        if self.driver == CXL_DRIVER:
            return f"{_CXL_MAJOR}:{self.slot}"
        return f"{_DRM_MAJOR}:{_FIRST_RENDER_NODE + self.slot}"


class Records:
    """The records of one node. `root` is the node's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._own = root / "simulator"
        self._devices = self._own / "devices"
        self._devices.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the node. One process at a time changes the node."""
        with (self._own / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def devices(self) -> list[BusDevice]:
        """Return all devices on the bus, by address."""
        found = (self._read(path) for path in sorted(self._devices.glob("*.json")))
        return [device for device in found if device is not None]

    def device(self, address: str) -> BusDevice | None:
        """Return the device at `address`, or None."""
        return self._read(self._devices / f"{address}.json")

    def save(self, device: BusDevice) -> None:
        """Write the record of a device."""
        _replace(self._devices / f"{device.address}.json", device._asdict())

    def delete(self, address: str) -> None:
        """Delete the record of the device at `address`."""
        (self._devices / f"{address}.json").unlink(missing_ok=True)

    def read_note(self, name: str) -> dict[str, Any]:
        """Return the document `name`, or an empty one."""
        try:
            found: dict[str, Any] = json.loads((self._own / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def keep_note(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a small document `name`."""
        _replace(self._own / f"{name}.json", content)

    def log(self, text: str, priority: int = ERROR) -> None:
        """Add a record to the kernel's log in the form of /dev/kmsg:
        ``priority,sequence,microseconds,flags;text``."""
        path = self.root / "dev" / "kmsg"
        path.parent.mkdir(exist_ok=True)
        with path.open("a+", encoding="utf-8") as handle:
            handle.seek(0)
            number = sum(1 for _line in handle)
            handle.write(f"{priority},{number},{time.monotonic_ns() // 1000},-;{text}\n")

    def is_open(self, device: BusDevice) -> bool:
        """Return whether a simulated process has the device open."""
        wanted = {device.file, f"{device.file} (deleted)"}
        return any(_target(path) in wanted for path in self.root.glob("proc/[0-9]*/fd/*"))

    @staticmethod
    def _read(path: Path) -> BusDevice | None:
        try:
            return BusDevice(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


def _target(handle: Path) -> str:
    try:
        return os.readlink(handle)
    except OSError:
        # No link, or closed. Processes may end without the lock.
        return ""


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    # A reader without the lock sees the old or the new document.
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(path)
