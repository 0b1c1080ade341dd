# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a device open on a node, from its /proc, with the standard library only (it travels to nodes).

The device's minor number comes from ``/proc/driver/nvidia/gpus/<bus id>/information`` (fields ``GPU UUID`` and
``Device Minor``), the holders from ``/proc/<pid>/fd`` links to ``/dev/nvidia<minor>``.
"""

from __future__ import annotations

import os
from pathlib import Path


class NotProven(Exception):
    """Whether the device is in use cannot be told; the message says why."""


def device_minor(root: Path, uuid: str) -> int | None:
    """Minor number of the GPU with this UUID below ``root``, None when the node does not show it."""
    for info in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        fields = dict(_field(line) for line in _text(info).splitlines() if ":" in line)
        if fields.get("GPU UUID") == uuid:
            text = fields.get("Device Minor", "")
            if not text.isdecimal():
                raise NotProven(f"{info} names no Device Minor for {uuid}")
            return int(text)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotProven(f"{path} cannot be read: {error}") from None


def _field(line: str) -> tuple[str, str]:
    name, _unused, value = line.partition(":")
    return name.strip(), value.strip()


def holders(root: Path, uuid: str) -> list[str]:
    """Processes below ``root`` that have the GPU open, as ``pid <n> (<name>)``; empty when it is idle.

    Raises NotProven when ``root`` shows no /proc at all.
    """
    proc = root / "proc"
    if not proc.is_dir():
        raise NotProven(f"{proc} cannot be read")
    minor = device_minor(root, uuid)
    if minor is None:
        return []
    target = f"/dev/nvidia{minor}"
    pids = sorted((p for p in proc.iterdir() if p.name.isdecimal()), key=lambda p: int(p.name))
    return [_name(p) for p in pids if target in _open_files(p)]


def _open_files(process: Path) -> set[str]:
    """Targets of the process's open files; the kernel marks a file that was removed while open."""
    try:
        links = list((process / "fd").iterdir())
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise NotProven(f"{process / 'fd'} cannot be read: {error.strerror}") from None
    return {target.removesuffix(" (deleted)") for link in links if (target := _target(link))}


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # closed meanwhile
        return ""
    except OSError as error:
        raise NotProven(f"{link} cannot be read: {error.strerror}") from None


def _name(process: Path) -> str:
    try:
        name = (process / "comm").read_text(encoding="utf-8").strip()
    except OSError:
        name = ""
    return f"pid {process.name} ({name})" if name else f"pid {process.name}"
