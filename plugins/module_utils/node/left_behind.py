# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record of processes that hang in the kernel and outlive the program that started them.

A file on the node has the number and the start time of each process, so another process cannot be
mistaken for it. A reboot removes the folder and the processes. Standard library only, Python 3.8,
because the file runs on nodes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = "run/composable.infra/begun"
_UNSAFE = re.compile(r"[^\w.:-]")
# Fields of /proc/PID/stat after the name, which may contain any character.
_STATE, _STARTED = 0, 19


def note(root: Path, work: str, pid: int) -> None:
    """Record that the process ``pid`` of this program does this work. Raise OSError.

    ``root`` is the path of the node's ``/``. ``work`` is a command line, or the path of the written
    file relative to ``root``.
    """
    path = _file(root, work)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(f"{pid} {_started(pid)}", encoding="ascii")
    fresh.replace(path)


def running(root: Path, work: str) -> str:
    """Return the number of the recorded process for this work if it still runs, or empty."""
    try:
        pid, _space, started = _file(root, work).read_text(encoding="ascii").partition(" ")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return pid if started and _started(int(pid)) == started else ""


def _file(root: Path, work: str) -> Path:
    return root / FOLDER / _UNSAFE.sub("_", work)


def _started(pid: int) -> str:
    """Return the start time of a process in ticks since the boot, or empty if it has ended."""
    folder = f"/proc/{pid}"
    try:
        with open(f"{folder}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # The first thread may have ended while others hang.
        ended = fields[_STATE] in (b"Z", b"X") and len(os.listdir(f"{folder}/task")) == 1
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if ended else fields[_STARTED].decode("ascii")
