# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the GPUs of the vendor's driver on the plugin's node, by its files, once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.node import faults

_GPUS = "proc/driver/nvidia/gpus"
# Record of the simulated kernel. The vendor's library would ask the driver instead.
_RECORD = "simulator/devices/{address}.json"
# Seconds for which the vendor's plugin caches device files (`cdi.go` of its source, 0.5).
CACHE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class FoundGpu:
    """A GPU as the vendor's library shows it.

    `minor` is the driver's number. `properties` are the fabric's properties of its model.
    """

    uuid: str
    model: str
    address: str
    minor: int
    properties: Mapping[str, Any] = field(default_factory=dict)


class DeviceFiles:
    """Devices with a file in /dev, as the plugin knows them. It checks at its start and then every
    5 minutes.

    `root` is the node's folder. `clock` returns seconds of a monotonic clock.
    """

    def __init__(self, root: Path, devices: Iterable[FoundGpu], clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._known = {device.uuid: (self._exists(device), clock()) for device in devices}

    def has(self, device: FoundGpu) -> bool:
        """Return whether the device had its file at the last check."""
        known, at = self._known[device.uuid]
        if self._clock() - at >= CACHE_SECONDS:
            known = self._exists(device)
            self._known[device.uuid] = known, self._clock()
        return known

    def _exists(self, device: FoundGpu) -> bool:
        return (self._root / "dev" / f"nvidia{device.minor}").exists()


def look(root: Path) -> list[FoundGpu]:
    """Return the GPUs with a driver in `root`, the node's folder, by minor number.

    The vendor's library starts a GPU that no program has used yet, so include it. Raise LabError
    where the library would return an error.
    """
    if faults.PLUGIN_FAILS in faults.read(root):
        raise LabError(f"the fault {faults.PLUGIN_FAILS} is on")
    found = [_device(root, path) for path in root.glob(f"{_GPUS}/*/information")]
    if not found and faults.PLUGIN_NEEDS_GPU in faults.read(root):
        raise LabError("the driver is not loaded")
    return sorted((device for device in found if device is not None), key=lambda device: device.minor)


def hold(root: Path, devices: Iterable[FoundGpu]) -> list[IO[bytes]]:
    """Open the files of the devices for the life of the plugin, if the fault is on.

    With the gate NVMLDeviceHealthCheck or DynamicMIG the vendor's plugin keeps one session of its
    library (`device_health.go`, `nvlib.go` of its source, 0.4.1).
    """
    if faults.PLUGIN_HOLDS not in faults.read(root):
        return []
    files = (root / "dev" / f"nvidia{device.minor}" for device in devices)
    return [file.open("rb") for file in files if file.exists()]


def _device(root: Path, information: Path) -> FoundGpu | None:
    rows = dict(_row(line) for line in information.read_text("utf-8").splitlines())
    address, minor = information.parent.name, int(rows["Device Minor"])
    record = _record(root, address)
    if record.get("lost"):
        raise LabError(f"the device {address} is lost and still on the bus")
    if record.get("draining"):
        return None
    # /proc has no UUID before the first use. The library reads it from the device.
    uuid = record["uuid"] if "?" in rows["GPU UUID"] else rows["GPU UUID"]
    return FoundGpu(uuid, rows["Model"], address, minor, record.get("properties", {}))


def _row(line: str) -> tuple[str, str]:
    name, _colon, value = line.partition(":")
    return name.strip(), value.strip()


def _record(root: Path, address: str) -> dict[str, Any]:
    path = root / _RECORD.format(address=address)
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}
