# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Learn what programs on the nodes do with the simulated kernel's files, without polling thousands of them.

Standard library only: libc's inotify through ctypes.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_IN_CLOSE_WRITE = 0x8
_IN_OPEN = 0x20
_IN_IGNORED = 0x8000
_HEADER = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Watches folders for files that were written and closed, and single files for being opened."""

    def __init__(self) -> None:
        self._handle = _LIBC.inotify_init1(os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed: too many inotify instances?")
        self._paths: dict[int, Path] = {}

    def watch(self, path: Path, *, opens: bool = False) -> int:
        """Report files written in the folder `path`, or with `opens` that the file `path` is opened.

        Returns the watch's number, -1 when the path is gone already. OSError when there are too many watches.
        """
        number = int(_LIBC.inotify_add_watch(self._handle, os.fsencode(path), _IN_OPEN if opens else _IN_CLOSE_WRITE))
        if number >= 0:
            self._paths[number] = path
        elif path.exists():
            raise OSError(ctypes.get_errno(), f"inotify_add_watch failed for {path}")
        return number

    def forget(self, number: int) -> None:
        """End a watch; one that has ended by itself is no error."""
        _LIBC.inotify_rm_watch(self._handle, number)

    def events(self) -> Iterator[tuple[int, Path]]:
        """Number of the watch, and the path, as things happen; blocks."""
        while True:
            yield from self._decode(os.read(self._handle, 65536))

    def written(self) -> Iterator[Path]:
        """Paths of files as they are written; blocks."""
        return (path for _number, path in self.events())

    def _decode(self, data: bytes) -> Iterator[tuple[int, Path]]:
        offset = 0
        while offset < len(data):
            number, mask, _cookie, length = _HEADER.unpack_from(data, offset)
            name = data[offset + _HEADER.size : offset + _HEADER.size + length].rstrip(b"\0")
            offset += _HEADER.size + length
            if mask & _IN_IGNORED:
                self._paths.pop(number, None)
            elif number in self._paths:
                yield number, self._paths[number] / os.fsdecode(name)
