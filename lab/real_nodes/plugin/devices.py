# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plugin finds on its node: the GPUs that the vendor's driver has, read once from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.node import faults

_GPUS = "proc/driver/nvidia/gpus"
# Where the simulated kernel keeps what it knows of a device, which the vendor's library would ask the driver.
_RECORD = "simulator/devices/{address}.json"


@dataclass(frozen=True, slots=True)
class FoundGpu:
    """A GPU as the vendor's library shows it. `minor`: the driver's number; `properties`: the fabric's of its model."""

    uuid: str
    model: str
    address: str
    minor: int
    properties: Mapping[str, Any] = field(default_factory=dict)


def look(root: Path) -> list[FoundGpu]:
    """GPUs with a driver and a device file below `root`, the node's folder, by minor number.

    LabError where the vendor's library would answer with an error.
    """
    if faults.PLUGIN_FAILS in faults.read(root):
        raise LabError(f"the fault {faults.PLUGIN_FAILS} is on")
    found = (_device(root, path) for path in root.glob(f"{_GPUS}/*/information"))
    return sorted((device for device in found if device is not None), key=lambda device: device.minor)


def _device(root: Path, information: Path) -> FoundGpu | None:
    rows = dict(_row(line) for line in information.read_text("utf-8").splitlines())
    address, minor = information.parent.name, int(rows["Device Minor"])
    record = _record(root, address)
    if record.get("lost"):
        raise LabError(f"the device {address} is lost and still on the bus")
    # No file in /dev before the first use, and no UUID either: the vendor's library leaves such a device out.
    used = (root / "dev" / f"nvidia{minor}").exists() and "?" not in rows["GPU UUID"]
    if not used or record.get("draining"):
        return None
    return FoundGpu(rows["GPU UUID"], rows["Model"], address, minor, record.get("properties", {}))


def _row(line: str) -> tuple[str, str]:
    name, _colon, value = line.partition(":")
    return name.strip(), value.strip()


def _record(root: Path, address: str) -> dict[str, Any]:
    path = root / _RECORD.format(address=address)
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}
