# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that hang in the kernel outlive the program that began them. A file on the node says which they are.

The file has the number and the start time of a process, so no other process can pass for it. The folder is lost with a
reboot, as the processes are. Standard library only, Python 3.8: it travels to nodes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = "run/composable.infra/begun"
_UNSAFE = re.compile(r"[^\w.:-]")
# Fields of /proc/PID/stat after the name, which may contain anything.
_STATE, _STARTED = 0, 19


def note(root: Path, work: str, pid: int) -> None:
    """Write down that the process ``pid`` of this program does this work. Raises OSError.

    ``root``: where the node's ``/`` is seen. ``work``: a command line, or the path of the file that is written, below
    ``root`` and without it.
    """
    path = _file(root, work)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(f"{pid} {_started(pid)}", encoding="ascii")
    fresh.replace(path)


def running(root: Path, work: str) -> str:
    """Return the number of the process that was noted for this work and has not ended, empty for none."""
    try:
        pid, _space, started = _file(root, work).read_text(encoding="ascii").partition(" ")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return pid if started and _started(int(pid)) == started else ""


def _file(root: Path, work: str) -> Path:
    return root / FOLDER / _UNSAFE.sub("_", work)


def _started(pid: int) -> str:
    """Return when the process started, in ticks since the boot, empty for one that has ended."""
    folder = f"/proc/{pid}"
    try:
        with open(f"{folder}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # The first thread may have ended and others hang.
        ended = fields[_STATE] in (b"Z", b"X") and len(os.listdir(f"{folder}/task")) == 1
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if ended else fields[_STARTED].decode("ascii")
