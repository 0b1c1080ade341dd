# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the simulated kernel that start an operation when written, and end the write when it is
done.

A write to /sys/.../remove or rescan returns when the kernel is done, and hangs when the kernel
hangs. A named pipe can do that. The simulator keeps the pipe full, so a writer waits. inotify
reports that a writer opened the pipe. The simulator then acts and empties the pipe. Three
differences to a kernel remain. Opening the file starts the operation, each error reads as a broken
pipe, and a hanging writer can be killed.

After each answer a new pipe replaces the file. The old pipe stays open for a while, for writers
that had opened it and not written yet.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.inotify import Inotify

_PAGE = 4096
_ROOMY = 1 << 18
_LATE_SECONDS = 60.0
# Number of writers at a file at the same time.
_MOST_WRITERS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A program opened a control file.

    `verb` is the file name. `address` is that of the device or port, or "" for the bus.
    """

    node: str
    verb: str
    address: str


class ControlFiles:
    """All control files of all nodes.

    One thread offers and answers. Another may look up requests.
    """

    def __init__(self, inotify: Inotify) -> None:
        self._inotify = inotify
        self._pipes: dict[int, tuple[Asked, int]] = {}
        self._numbers: dict[Asked, int] = {}
        self._late: list[tuple[float, int]] = []

    def offer(self, path: Path, asked: Asked) -> None:
        """Put a pipe at `path`. Opening it requests `asked`. Raise OSError without free files or
        watches."""
        self._let_go_of_orphans(path)
        self._put(path, asked)

    def _put(self, path: Path, asked: Asked) -> None:
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)
        os.mkfifo(fresh, 0o600)
        handle = os.open(fresh, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PAGE)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(handle, bytes(_PAGE))
        number = self._inotify.watch(fresh, opens=True)
        self._pipes[number] = (asked, handle)
        self._numbers[asked] = number
        fresh.rename(path)

    def asked(self, number: int) -> Asked | None:
        """Return the request of the file with this inotify number, or None."""
        found = self._pipes.get(number)
        return found[0] if found else None

    def answer(self, asked: Asked, path: Path | None) -> None:
        """Let all writers go on. `path` is the file for later writers, or None if it is gone."""
        number = self._numbers.pop(asked, None)
        if path is not None:
            self._put(path, asked)
        if number is not None:
            self._empty(self._pipes[number][1])
            self._late.append((time.monotonic() + _LATE_SECONDS, number))
        self._close_late()

    def refuse(self, asked: Asked, path: Path) -> None:
        """Fail the writes of all writers at `path`. Later writers find a new pipe."""
        number = self._numbers.pop(asked, None)
        self._put(path, asked)
        if number is not None:
            self._inotify.forget(number)
            os.close(self._pipes.pop(number)[1])

    def _let_go_of_orphans(self, path: Path) -> None:
        """Let writers at the pipe of an earlier simulator go on."""
        if path.is_fifo():
            handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            number = -handle
            self._pipes[number] = (Asked("", "", ""), handle)
            self._late.append((time.monotonic() + _LATE_SECONDS, number))

    def _close_late(self) -> None:
        now = time.monotonic()
        for _due, number in [entry for entry in self._late if entry[0] <= now]:
            if number >= 0:
                self._inotify.forget(number)
            os.close(self._pipes.pop(number)[1])
        self._late = [entry for entry in self._late if entry[0] > now]

    @staticmethod
    def _empty(handle: int) -> None:
        # A sleeping writer needs a free page, and a full pipe here has only one page.
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _ROOMY)
        with contextlib.suppress(BlockingIOError):
            while os.read(handle, _PAGE):
                pass
        # Each waiting writer takes a page, however little it writes.
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _MOST_WRITERS * _PAGE)
