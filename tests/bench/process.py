# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process has used, as the kernel counts it (proc(5)).

It imports nothing of the project: who measures its own memory loads this too.
"""

from __future__ import annotations

import os
from pathlib import Path


def cpu(pid: int) -> float:
    """Processor seconds that a process has used, in user and kernel mode."""
    return sum(_ticks(pid)[:2]) / os.sysconf("SC_CLK_TCK")


def children_cpu(pid: int) -> float:
    """The same of the processes that it began, and that have ended."""
    return sum(_ticks(pid)[2:]) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """utime, stime, cutime and cstime."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return [int(each) for each in fields[11:15]]


def rss(pid: int) -> float:
    """The memory that a process has now, in MiB."""
    return _mib(pid, "VmRSS")


def peak_rss(pid: int) -> float:
    """The most memory that a process had, in MiB."""
    return _mib(pid, "VmHWM")


def transferred(pid: int) -> tuple[int, int]:
    """Bytes that a process has read and written, of files and connections alike."""
    found = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines())
    return int(found["rchar"]), int(found["wchar"])


def _mib(pid: int, field: str) -> float:
    """One field of ``status``; 0 for a process that has ended and is only waited for: it has no memory any more."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith(f"{field}:")), 0.0)
