# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out whether a process on a real node has a device open, such as a container that uses it."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node.records import BusDevice
from ansible_collections.composable.infra.lab.real_nodes.cgroups import hierarchies, members


def is_open_in(cgroup: str | None, device: BusDevice, proc: Path = Path("/proc")) -> bool:
    """Return whether a process in the node's control group has the device open.

    A node without a control group has no such processes.
    """
    if cgroup is None:
        return False
    pids = members([hierarchy / cgroup for hierarchy in hierarchies()])
    # The vendor's plugin sees the node's devices in a folder of its pod.
    return any(target.endswith(device.file) for pid in pids for target in _open_files(proc / str(pid)))


def _open_files(process: Path) -> set[str]:
    found = set()
    try:
        for entry in (process / "fd").iterdir():
            found.add(os.readlink(entry))
    except OSError:
        # The process has ended.
        return found
    return found
