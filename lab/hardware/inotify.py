# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Learn of writes to the simulated `rescan` and `remove` files without polling thousands of them.

Standard library only: three calls of libc's inotify through ctypes.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_IN_CLOSE_WRITE = 0x8
_IN_IGNORED = 0x8000
_HEADER = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Watches folders for files that were written and closed."""

    def __init__(self) -> None:
        self._handle = _LIBC.inotify_init1(os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed: too many inotify instances?")
        self._folders: dict[int, Path] = {}

    def watch(self, folder: Path) -> None:
        """Report files written in `folder`; a folder that is gone already is no error."""
        number = _LIBC.inotify_add_watch(self._handle, os.fsencode(folder), _IN_CLOSE_WRITE)
        if number >= 0:
            self._folders[number] = folder
        elif folder.exists():
            raise OSError(ctypes.get_errno(), f"inotify_add_watch failed for {folder}")

    def written(self) -> Iterator[Path]:
        """Paths of files as they are written; blocks."""
        while True:
            yield from self._decode(os.read(self._handle, 65536))

    def _decode(self, data: bytes) -> Iterator[Path]:
        offset = 0
        while offset < len(data):
            number, mask, _cookie, length = _HEADER.unpack_from(data, offset)
            name = data[offset + _HEADER.size : offset + _HEADER.size + length].rstrip(b"\0")
            offset += _HEADER.size + length
            if mask & _IN_IGNORED:
                self._folders.pop(number, None)
            elif number in self._folders:
                yield self._folders[number] / os.fsdecode(name)
