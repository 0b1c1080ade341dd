# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container Device Interface specs for containers that use a claim, one file for each prepared
claim.

Names are those of NVIDIA's plugin: file `k8s.gpu.nvidia.com-claim_<uid>.yaml`, device
`k8s.gpu.nvidia.com/claim=<uid>-gpu-0`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.real_nodes.plugin.devices import FoundGpu

_VENDOR, _CLASS = "k8s.gpu.nvidia.com", "claim"
# The device file has the numbers of /dev/null, so that it can be opened without a GPU.
_MAJOR, _MINOR = 1, 3


def device_name(device: FoundGpu) -> str:
    """Return the device's name in the node's pool."""
    return f"gpu-{device.minor}"


def device_id(claim_uid: str, name: str) -> str:
    """Return the name by which the container runtime finds a device of a claim."""
    return f"{_VENDOR}/{_CLASS}={claim_uid}-{name}"


def path(folder: Path, claim_uid: str) -> Path:
    """Return the file of a claim."""
    return folder / f"{_VENDOR}-{_CLASS}_{claim_uid}.yaml"


def document(claim_uid: str, devices: Sequence[FoundGpu]) -> dict[str, Any]:
    """Return the spec for a claim. Each device adds an environment variable and a file in /dev."""
    entries = [{"name": f"{claim_uid}-{device_name(it)}", "containerEdits": _edits(it)} for it in devices]
    common = {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
    return {"cdiVersion": "0.6.0", "kind": f"{_VENDOR}/{_CLASS}", "devices": entries, "containerEdits": common}


def write(folder: Path, claim_uid: str, devices: Sequence[FoundGpu]) -> None:
    """Write the claim's file in one step, because the container runtime may read it at any time."""
    target = path(folder, claim_uid)
    # The runtime does not read a file with this suffix.
    temporary = target.with_suffix(".new")
    temporary.write_text(json.dumps(document(claim_uid, devices), indent=2) + "\n", encoding="utf-8")
    temporary.replace(target)


def remove(folder: Path, claim_uid: str) -> None:
    """Remove the claim's file, if it exists."""
    path(folder, claim_uid).unlink(missing_ok=True)


def _edits(device: FoundGpu) -> dict[str, Any]:
    node = {"path": f"/dev/nvidia{device.minor}", "type": "c", "major": _MAJOR, "minor": _MINOR, "permissions": "rw"}
    return {"env": [f"GPU_DEVICE_{device.minor}={device.uuid}"], "deviceNodes": [node]}
