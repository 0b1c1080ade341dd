# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated kernel of a node remembers: the devices on its bus, and its log.

    NODE/simulator/devices/0000:10:00.0.json    one device
    NODE/simulator/plugged.json                 slot of each device that the fabric has plugged in, by uid
    NODE/dev/kmsg                               records as a reader of /dev/kmsg gets them

All of it is on disk, so that the simulator can be stopped and started again, and since the stand-in of `nvidia-smi` is
a process of its own. Whoever changes something holds the lock. Standard library only, and of that little: each
`nvidia-smi` imports it, and a quarter of its time was `dataclasses`.
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
# The last one is any free one: the kernel gives it when the module is loaded.
_NVIDIA_MAJOR, _DRM_MAJOR, _CXL_MAJOR = 195, 226, 252


class BusDevice(NamedTuple):
    """A device on the bus.

    `uuid` is the GPU's, which only its driver can read, or the serial number of CXL memory. `minor` is the driver's
    number for it, -1 without a driver. `room`: its BARs have addresses. `touched`: a program has used it since it was
    bound, so it has its files in /dev and /proc. `lost`: the fabric took it away while it was on the bus. `draining`:
    new programs do not see it.
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
        """The device with other values for these fields."""
        return self._replace(**changes)

    @property
    def file(self) -> str:
        """By which file programs use it: the GPU driver's own, that of CXL memory, or a render node of DRM."""
        if self.driver == GPU_DRIVER:
            return f"/dev/nvidia{self.minor}"
        if self.driver == CXL_DRIVER:
            return f"/dev/cxl/mem{self.slot}"
        return f"/dev/dri/renderD{_FIRST_RENDER_NODE + self.slot}"

    @property
    def number(self) -> str:
        """The number of that file, as the kernel shows it. The file of the stand-in has it as its text."""
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
        """Hold the node: one process at a time changes it."""
        with (self._own / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def devices(self) -> list[BusDevice]:
        """All devices on the bus, by address."""
        found = (self._read(path) for path in sorted(self._devices.glob("*.json")))
        return [device for device in found if device is not None]

    def device(self, address: str) -> BusDevice | None:
        """The device at `address`, None when there is none."""
        return self._read(self._devices / f"{address}.json")

    def save(self, device: BusDevice) -> None:
        """Write a device down."""
        _replace(self._devices / f"{device.address}.json", device._asdict())

    def delete(self, address: str) -> None:
        """Forget the device at `address`."""
        (self._devices / f"{address}.json").unlink(missing_ok=True)

    def read_note(self, name: str) -> dict[str, Any]:
        """What was kept as `name`, empty when nothing was."""
        try:
            found: dict[str, Any] = json.loads((self._own / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def keep_note(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep a small document as `name`."""
        _replace(self._own / f"{name}.json", content)

    def log(self, text: str, priority: int = ERROR) -> None:
        """One record of the kernel's log, in the form that /dev/kmsg has: priority,sequence,microseconds,flags;text."""
        path = self.root / "dev" / "kmsg"
        path.parent.mkdir(exist_ok=True)
        with path.open("a+", encoding="utf-8") as handle:
            handle.seek(0)
            number = sum(1 for _line in handle)
            handle.write(f"{priority},{number},{time.monotonic_ns() // 1000},-;{text}\n")

    def is_open(self, device: BusDevice) -> bool:
        """Whether a simulated process has the device open."""
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
        # No link, or closed meanwhile: nobody holds the node while a process ends.
        return ""


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    # A reader without the lock sees the document of before or of after.
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(path)
