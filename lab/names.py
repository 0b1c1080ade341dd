# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that the lab and the emulated fabric share."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ansible_collections.composable.infra.emulator.pool.parts import machine_uuid
from ansible_collections.composable.infra.lab.errors import LabError

__all__ = ["DRIVER", "OWN_DRIVER", "cache_dir", "check_lab_name", "default_state_dir", "machine_uuid", "node_names",
           "provider_id"]

DRIVER = "gpu.nvidia.com"
# Driver name of the node agents, if they are the driver.
OWN_DRIVER = "devices.composable.infra"
PROVIDER_SCHEME = "fsas-cdi"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def node_names(count: int) -> list[str]:
    """Return the names of the first `count` nodes."""
    return [f"node-{index}" for index in range(count)]


def provider_id(name: str) -> str:
    """Return `spec.providerID` of the node `name`."""
    return f"{PROVIDER_SCHEME}://{machine_uuid(name)}"


def check_lab_name(name: str) -> str:
    """Return `name` if it can be a folder and part of a context name, else raise LabError."""
    if not _NAME.fullmatch(name):
        raise LabError(f"lab name {name!r} is not allowed: use at most 40 of a-z, 0-9 and '-'")
    return name


def default_state_dir(name: str) -> Path:
    """Return the folder of the lab `name`:
    `${XDG_STATE_HOME:-~/.local/state}/composable-infra/labs/NAME`."""
    root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "composable-infra" / "labs" / check_lab_name(name)


def cache_dir() -> Path:
    """Return the folder of cached binaries: `${XDG_CACHE_HOME:-~/.cache}/composable-infra`."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "composable-infra"
