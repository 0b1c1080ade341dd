# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Learn when programs on the nodes use the simulated kernel's files, without polling thousands of
files.

Uses libc's inotify through ctypes, with the standard library only.
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
    """Watches folders for written files, and single files for being opened."""

    def __init__(self) -> None:
        self._handle = _LIBC.inotify_init1(os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed: too many inotify instances?")
        self._paths: dict[int, Path] = {}

    def watch(self, path: Path, *, opens: bool = False) -> int:
        """Report files written in the folder `path`, or with `opens` that the file `path` is
        opened.

        Return the watch's number, or -1 if the path is gone. Raise OSError if there are too many
        watches.
        """
        number = int(_LIBC.inotify_add_watch(self._handle, os.fsencode(path), _IN_OPEN if opens else _IN_CLOSE_WRITE))
        if number >= 0:
            self._paths[number] = path
        elif path.exists():
            raise OSError(ctypes.get_errno(), f"inotify_add_watch failed for {path}")
        return number

    def forget(self, number: int) -> None:
        """End a watch. A watch that has already ended is no error."""
        _LIBC.inotify_rm_watch(self._handle, number)

    def events(self) -> Iterator[tuple[int, Path]]:
        """Yield the number of the watch and the path of each event. Blocks."""
        while True:
            yield from self._decode(os.read(self._handle, 65536))

    def written(self) -> Iterator[Path]:
        """Yield the paths of files as they are written. Blocks."""
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
