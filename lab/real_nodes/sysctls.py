# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings of the machine that the kubelet and the pod network change."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path("/proc/sys")
_CHANGED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
)


def read(root: Path = ROOT) -> dict[str, str]:
    """Return the current values of the settings that this machine has."""
    found = {}
    for name in _CHANGED:
        with contextlib.suppress(OSError):
            found[name] = (root / name).read_text("ascii").strip()
    return found


def restore(values: Mapping[str, str], root: Path = ROOT) -> None:
    """Restore settings that differ from `values`.

    Skip settings that cannot be written, because the kubelet could not write them either.
    """
    for name, value in values.items():
        with contextlib.suppress(OSError):
            if (root / name).read_text("ascii").strip() != value:
                (root / name).write_text(value, encoding="ascii")
