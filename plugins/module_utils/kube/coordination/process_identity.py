# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of this process in a form that another process can check, to see whether a holder is
alive.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """``start``: clock ticks since boot (proc(5), field 22). ``namespace``: inode of the PID
    namespace.
    """

    host: str
    boot: str
    namespace: str
    pid: str
    start: str

    def __str__(self) -> str:
        return "/".join((self.host, self.boot, self.namespace, self.pid, self.start))

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity | None:
        """Parse an identity. Return None for a text of another form (from another program)."""
        parts = text.split("/")
        return cls(*parts) if len(parts) == 5 and all(parts) and parts[3].isdigit() else None

    def shares_processes_with(self, other: ProcessIdentity) -> bool:
        """Return whether both see the same process table, so that a PID means the same to both."""
        known = self.boot != _UNKNOWN and self.namespace != _UNKNOWN
        return known and (self.host, self.boot, self.namespace) == (other.host, other.boot, other.namespace)


def process_identity() -> str:
    """Return ``{hostname}/{boot_id}/{pid namespace}/{pid}/{start time}`` of this process."""
    pid = os.getpid()
    start = start_time(pid) or _UNKNOWN
    host = socket.gethostname().replace("/", "_") or _UNKNOWN
    return str(ProcessIdentity(host, _boot_id(), _pid_namespace(), str(pid), start))


def is_dead(holder: str, ours: str) -> bool:
    """Return whether ``holder`` is certainly a process that ended, False if it lives or that is
    unknown here.
    """
    theirs, me = ProcessIdentity.parse(holder), ProcessIdentity.parse(ours)
    if theirs is None or me is None or not theirs.shares_processes_with(me):
        return False
    if not _exists(int(theirs.pid)):
        return True
    if theirs.start == _UNKNOWN:
        return False
    now = start_time(int(theirs.pid))
    return now is not None and now != theirs.start


def start_time(pid: int) -> str | None:
    """Return when a process started, in ticks since boot, "" for a zombie, None if it cannot be
    read.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The command, in parentheses, may itself contain blanks and parentheses.
            fields = handle.read().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in ("Z", "X") else fields[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            return handle.read().strip()
    except OSError:
        return _UNKNOWN


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").partition("[")[2].rstrip("]") or _UNKNOWN
    except OSError:
        return _UNKNOWN
