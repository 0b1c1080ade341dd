# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a device's files open on a node, from the links in ``/proc/<pid>/fd``. Standard library only: it travels."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

_DELETED = " (deleted)"


class NotProven(Exception):
    """Whether the device is in use cannot be told; the message says why."""


def openers(root: Path, targets: Iterable[str]) -> list[str]:
    """Processes below ``root`` that have one of the files open. Raises NotProven."""
    return _openers(processes(root), frozenset(targets))


def processes(root: Path) -> list[Path]:
    """The folders of all processes of a node, by their number.

    Raises NotProven when process 1 is not among them: an empty /proc, one of a container, or one that hides the
    processes of others shows nobody who holds a device, and that is no proof.
    """
    proc = root / "proc"
    try:
        found = sorted((p for p in proc.iterdir() if p.name.isdecimal()), key=lambda p: int(p.name))
    except OSError as error:
        raise NotProven(f"{proc} cannot be read: {error.strerror}") from None
    if not found or found[0].name != "1":
        raise NotProven(f"{proc} does not show all processes: process 1 is missing")
    return found


def _openers(seen: Iterable[Path], targets: Collection[str]) -> list[str]:
    return [_name(p) for p in seen if not _open_files(p).isdisjoint(targets)]


def _open_files(process: Path) -> set[str]:
    """Targets of the process's open files; the kernel marks a file that was removed while open."""
    try:
        links = list((process / "fd").iterdir())
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise NotProven(f"{process / 'fd'} cannot be read: {error.strerror}") from None
    return {_plain(target) for link in links if (target := _target(link))}


def _plain(target: str) -> str:
    return target[:-len(_DELETED)] if target.endswith(_DELETED) else target


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
