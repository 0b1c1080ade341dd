# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources that a process has used, as the kernel counts them (proc(5)).

It imports nothing of the project, because programs that measure their own memory load it too.
"""

from __future__ import annotations

import os
from pathlib import Path


def cpu(pid: int) -> float:
    """Return the processor seconds that a process has used, in user and kernel mode."""
    return sum(_ticks(pid)[:2]) / os.sysconf("SC_CLK_TCK")


def children_cpu(pid: int) -> float:
    """Return the processor seconds of ended child processes."""
    return sum(_ticks(pid)[2:]) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """Return utime, stime, cutime and cstime."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return [int(each) for each in fields[11:15]]


def rss(pid: int) -> float:
    """Return the present memory of a process, in MiB."""
    return _mib(pid, "VmRSS")


def peak_rss(pid: int) -> float:
    """Return the peak memory of a process, in MiB."""
    return _mib(pid, "VmHWM")


def transferred(pid: int) -> tuple[int, int]:
    """Return the bytes that a process has read and written, of files and connections."""
    found = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines())
    return int(found["rchar"]), int(found["wchar"])


def _mib(pid: int, field: str) -> float:
    """Return one field of ``status`` in MiB, 0 for a zombie, which has no memory any more."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith(f"{field}:")), 0.0)
