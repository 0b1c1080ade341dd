# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes of a node hold a device: by the device's number, not by the names of its files.

One device has many names: another path, a bind mount, a file that was renamed or removed while open. A process also
holds a device that it has mapped after it closed the file. Standard library only: the file travels to nodes.
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

# A root with this file belongs to a stand-in of a node. Its commands are programs that lie below it, and its device
# files are plain files with the device's number as their text.
SIMULATED = ".simulated-node"
_NUMBER = re.compile(r"\d+:\d+")
_LONGEST_NUMBER = 32
PATIENCE = 30.0
_LOOKING = threading.Lock()
# statx(2) of <linux/stat.h>, which C libraries have since glibc 2.28.
_STATX = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
_AT_FDCWD, _DONT_SYNC, _TYPE, _STATX_SIZE = -100, 0x4000, 0x1, 256
_MODE_AT, _RDEV_AT = 28, 128


class NotProven(Exception):
    """Whether the device is in use cannot be told; the message says why."""


def openers(root: Path, numbers: Iterable[str]) -> list[str]:
    """Return the processes below ``root`` that have a device with one of these numbers open or mapped.

    ``numbers``: of character devices, as the kernel writes them in the file ``dev`` of sysfs, such as ``195:0``.
    Threads may have file tables of their own, so all are read. Raises NotProven, also when the files cannot be read
    within PATIENCE seconds.
    """
    look = _Look(root, frozenset(numbers))
    # A file system that hangs, such as that of a server which is away, holds the thread. So there is one at most.
    if not _LOOKING.acquire(timeout=PATIENCE):
        raise NotProven("an earlier look at the files of the node's processes has not ended; a file system hangs")
    try:
        look.start()
    except RuntimeError as error:
        _LOOKING.release()
        raise NotProven(f"the files of the node's processes cannot be read: {error}") from None
    look.join(PATIENCE)
    if look.is_alive():
        raise NotProven(f"{look.at} has not been read within {PATIENCE:g} s; its file system hangs")
    if look.error:
        raise look.error
    return look.found


class _Look(threading.Thread):
    """One look at all processes. ``at``: the link that is read; ``error``: why ``found`` is not all."""

    def __init__(self, root: Path, wanted: Collection[str]) -> None:
        super().__init__(daemon=True)
        self._root, self._wanted = root, wanted
        self._number = _simulated_number(root) if (root / SIMULATED).exists() else _number
        self.at = ""
        self.found: list[str] = []
        self.error: Exception | None = NotProven("the look at the node's processes broke off")

    def run(self) -> None:
        """Read until the end. Another look may begin then."""
        try:
            self.found = [_name(p) for p in processes(self._root) if any(map(self._is_wanted, _links(p)))]
            self.error = None
        except Exception as error:  # the caller's thread raises it
            self.error = error
        finally:
            _LOOKING.release()

    def _is_wanted(self, link: str) -> bool:
        self.at = link
        return self._number(link) in self._wanted


def processes(root: Path) -> list[Path]:
    """The folders of all processes of a node, by their number.

    Raises NotProven when process 1 is not among them: an empty /proc, one of a container, or one that hides the
    processes of others shows nobody who holds a device, and that is no proof.
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
    """Yield a link for each file that a thread of the process has open, and for each part of a file in its memory."""
    threads = [name for name in _list(process / "task") if name != process.name]
    for folder in (process, *(process / "task" / name for name in threads)):
        yield from _entries(folder / "fd")
    # All threads share their memory. A first thread that has ended shows none. The folder of another thread beside
    # the process's own does, though /proc does not list it.
    for folder in (process, *(process / os.pardir / name for name in threads)):
        yield from _entries(folder / "map_files")
        if _list(folder / "map_files"):  # the thread has not ended meanwhile, so all could be read
            break


def _entries(folder: Path) -> list[str]:
    return [f"{folder}/{name}" for name in _list(folder)]


def _list(folder: Path) -> list[str]:
    try:
        return os.listdir(str(folder))
    except (FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
        return []
    except OSError as error:
        raise NotProven(f"{folder} cannot be read: {error.strerror}") from None


def _number(link: str) -> str:
    """Return the number of the character device that the link leads to, empty for other files."""
    try:
        mode, major, minor = _file(link)
    except (FileNotFoundError, ProcessLookupError):  # closed meanwhile
        return ""
    except OSError as error:
        raise NotProven(f"{link} cannot be read: {error.strerror}") from None
    return f"{major}:{minor}" if stat.S_ISCHR(mode) else ""


def _file(link: str) -> tuple[int, int, int]:
    """Return the mode of an open file, and the major and minor number of a device. Raises OSError.

    The server of its file system is asked nothing. A tenant may mount one that does not answer,
    and no device of the node would ever be proven idle.
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
    """Read numbers on a stand-in of a node, where links of made-up processes lead to files below ``root``."""
    def number(link: str) -> str:
        try:
            target = os.readlink(link)
        except (FileNotFoundError, ProcessLookupError):
            return ""
        except OSError as error:
            raise NotProven(f"{link} cannot be read: {error.strerror}") from None
        # The mount of an ended container has no place, so that the file's name alone is left.
        unmounted = f"{root}/dev/{target[1:]}" if target.rfind("/") == 0 else link
        return _text(f"{root}/{target.lstrip('/')}") or _text(link) or _text(unmounted)

    return number


def _text(path: str) -> str:
    """Return the number that a plain file of a stand-in has as its text, empty for other files."""
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
        # The kernel cuts a name after 15 bytes, which may be in the midst of a character.
        name = (process / "comm").read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        name = ""
    return f"pid {process.name} ({name})" if name else f"pid {process.name}"
