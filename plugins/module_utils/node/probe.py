# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the processes of a node that use a device, by its number and not by the names of its files.

One device has many names, such as another path, a bind mount, or a file that was renamed or removed
while open. A process also uses a device that it has mapped after it closed the file. Standard
library only, because the file runs on nodes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

# A root with this file is a simulated node. Its commands are programs below the root, and its
# device files are plain files with the number of the device as text.
SIMULATED = ".simulated-node"
_NUMBER = re.compile(r"\d+:\d+")
_LONGEST_NUMBER = 32
PATIENCE = 30.0
_LOOKING = threading.Lock()
# statx(2) of <linux/stat.h>, in C libraries since glibc 2.28.
_STATX = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
_AT_FDCWD, _DONT_SYNC, _TYPE, _STATX_SIZE = -100, 0x4000, 0x1, 256
_MODE_AT, _RDEV_AT = 28, 128


class NotProven(Exception):
    """The use of the device cannot be determined. The message says why."""


def openers(root: Path, numbers: Iterable[str]) -> list[str]:
    """Return the processes with an open or mapped device of one of these numbers.

    ``root`` is the path of the node's ``/``.

    ``numbers`` are those of character devices as in the file ``dev`` of sysfs, such as ``195:0``.
    Threads may have their own file tables, so all are read. Raise NotProven, also if the files
    cannot be read within PATIENCE seconds.
    """
    look = _Look(root, frozenset(numbers))
    # A hanging file system, as of a server that is away, blocks the thread. So allow only one
    # thread.
    if not _LOOKING.acquire(timeout=PATIENCE):
        raise NotProven("an earlier search of the files of the node's processes has not ended. A file system hangs")
    try:
        look.start()
    except RuntimeError as error:
        _LOOKING.release()
        raise NotProven(f"the files of the node's processes cannot be read: {error}") from None
    look.join(PATIENCE)
    if look.is_alive():
        raise NotProven(f"{look.at} has not been read within {PATIENCE:g} s. Its file system hangs")
    if look.error:
        raise look.error
    return look.found


class _Look(threading.Thread):
    """One reading of all processes. ``at`` is the current link.

    ``error`` says why ``found`` is incomplete.
    """

    def __init__(self, root: Path, wanted: Collection[str]) -> None:
        super().__init__(daemon=True)
        self._root, self._wanted = root, wanted
        self._number = _simulated_number(root) if (root / SIMULATED).exists() else _number
        self.at = ""
        self.found: list[str] = []
        self.error: Exception | None = NotProven("the search of the node's processes ended early")

    def run(self) -> None:
        """Read to the end. Then another reading may begin."""
        try:
            self.found = [_name(p) for p in processes(self._root) if any(map(self._is_wanted, _links(p)))]
            self.error = None
        except Exception as error:  # The caller's thread raises the error.
            self.error = error
        finally:
            _LOOKING.release()

    def _is_wanted(self, link: str) -> bool:
        self.at = link
        return self._number(link) in self._wanted


def processes(root: Path) -> list[Path]:
    """Return the folders of all processes of a node, by number.

    Raise NotProven if process 1 is missing. An empty /proc, the /proc of a container, or a /proc
    that hides other users' processes shows no users, which proves nothing.
    """
    proc = root / "proc"
    try:
        found = sorted((p for p in proc.iterdir() if p.name.isdecimal()), key=lambda p: int(p.name))
    except OSError as error:
        raise NotProven(f"{proc} cannot be read: {error.strerror}") from None
    if not found or found[0].name != "1":
        raise NotProven(f"{proc} does not show all processes: process 1 is missing")
    return found


def _links(process: Path) -> Iterator[str]:
    """Yield a link for each open file of a thread of the process, and for each mapped file."""
    threads = [name for name in _list(process / "task") if name != process.name]
    for folder in (process, *(process / "task" / name for name in threads)):
        yield from _entries(folder / "fd")
    # All threads share their memory. A first thread that has ended shows none. The folder of
    # another thread beside the process's own shows it, though /proc does not list it.
    for folder in (process, *(process / os.pardir / name for name in threads)):
        yield from _entries(folder / "map_files")
        if _list(folder / "map_files"):  # The thread was alive, so its list is complete.
            break


def _entries(folder: Path) -> list[str]:
    return [f"{folder}/{name}" for name in _list(folder)]


def _list(folder: Path) -> list[str]:
    try:
        return os.listdir(str(folder))
    except (FileNotFoundError, ProcessLookupError):  # The process has ended meanwhile.
        return []
    except OSError as error:
        raise NotProven(f"{folder} cannot be read: {error.strerror}") from None


def _number(link: str) -> str:
    """Return the number of the character device behind the link, or empty for other files."""
    try:
        mode, major, minor = _file(link)
    except (FileNotFoundError, ProcessLookupError):  # The file was closed meanwhile.
        return ""
    except OSError as error:
        raise NotProven(f"{link} cannot be read: {error.strerror}") from None
    return f"{major}:{minor}" if stat.S_ISCHR(mode) else ""


def _file(link: str) -> tuple[int, int, int]:
    """Return the mode of an open file, and the major and minor number of a device. Raise OSError.

    Do not query the server of its file system. A tenant may mount a file system that does not
    answer, and then no device of the node could ever be proven idle.
    """
    if _STATX is not None:
        found = ctypes.create_string_buffer(_STATX_SIZE)
        if not _STATX(_AT_FDCWD, os.fsencode(link), _DONT_SYNC, _TYPE, found):
            major, minor = struct.unpack_from("=II", found, _RDEV_AT)
            return struct.unpack_from("=H", found, _MODE_AT)[0], major, minor
        code = ctypes.get_errno()
        if code != errno.ENOSYS:
            raise OSError(code, os.strerror(code), link)
    known = os.stat(link)
    return known.st_mode, os.major(known.st_rdev), os.minor(known.st_rdev)


def _simulated_number(root: Path) -> Callable[[str], str]:
    """Return a function that reads numbers by links of a simulated node below ``root``."""
    def number(link: str) -> str:
        try:
            target = os.readlink(link)
        except (FileNotFoundError, ProcessLookupError):
            return ""
        except OSError as error:
            raise NotProven(f"{link} cannot be read: {error.strerror}") from None
        # The mount of an ended container has no path, so only the name of the file is left.
        unmounted = f"{root}/dev/{target[1:]}" if target.rfind("/") == 0 else link
        return _text(f"{root}/{target.lstrip('/')}") or _text(link) or _text(unmounted)

    return number


def _text(path: str) -> str:
    """Return the number in a plain file of a simulated node, or empty for other files."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(_LONGEST_NUMBER).strip()
    except OSError:
        return ""
    return text if _NUMBER.fullmatch(text) else ""


def _name(process: Path) -> str:
    try:
        # The kernel cuts a name after 15 bytes, perhaps within a character.
        name = (process / "comm").read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        name = ""
    return f"pid {process.name} ({name})" if name else f"pid {process.name}"
