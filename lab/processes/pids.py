# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identify processes by PID and start time, because a PID alone may be used again."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path


def start_time(pid: int) -> str | None:
    """Return the boot ID and start time (clock ticks since boot) of `pid`, or None if gone or a
    zombie."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name is in brackets and may contain spaces and brackets.
    fields = line.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{_boot_id()}:{fields[19]}"


def is_same(pid: int, started: str) -> bool:
    """Return whether `pid` is alive and still the process that started at `started`."""
    return start_time(pid) == started


def resident(pid: int) -> int:
    """Return the resident memory of `pid` in bytes, or 0 if it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def send_signal(pid: int, started: str, number: signal.Signals) -> bool:
    """Signal `pid` if it is still the process that started at `started`. Otherwise return False."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Checked after opening, because the handle cannot refer to another process from now on.
        if not is_same(pid, started):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def wait_gone(pid: int, started: str, seconds: float) -> bool:
    """Wait until the process has ended. Return False if it still runs after `seconds`."""
    deadline = time.monotonic() + seconds
    while is_same(pid, started):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        _wait_exit(pid, min(left, 0.5))
    return True


def _wait_exit(pid: int, seconds: float) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        poller.poll(seconds * 1000)
    finally:
        os.close(handle)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
