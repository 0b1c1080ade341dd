# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes that hold a real character device in other ways than by its usual name.

The number of /dev/zero stands for that of an accelerator: it is harmless, and programs can map it.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import probe
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven, openers

ZERO = "1:5"
OPEN = "import os, sys, threading\nfile = os.open(sys.argv[1], os.O_RDWR)\n"
READY = "print('ready', flush=True)\nsys.stdin.read()\n"
# The descriptor is closed, and so is the copy that the mapping keeps for itself.
MAPPED = ("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
          "libc.mmap(None, ctypes.c_size_t(4096), 3, 2, file, ctypes.c_long(0))\nos.close(file)\n")
THREAD = "import ctypes\ndef work():\n    {body}\n    print('ready', flush=True)\n    sys.stdin.read()\n"
RUN = "threading.Thread(target=work).start()\n"
END_MAIN = "ctypes.CDLL(None).pthread_exit(None)\n"
OWN_TABLE = ("import os, sys, threading\n"
             + THREAD.format(body="ctypes.CDLL(None).unshare(0x400); os.open(sys.argv[1], os.O_RDONLY)") + RUN)
PROGRAMS = {
    "open": OPEN + READY,
    "file removed while open": OPEN + "os.unlink(sys.argv[1])\n" + READY,
    "mapped and closed": OPEN + MAPPED + READY,
    "a thread with its own file table": OWN_TABLE,
    "the first thread has ended": OPEN + THREAD.format(body="pass") + RUN + END_MAIN,
    "the first thread has ended, mapped and closed": OPEN + MAPPED + THREAD.format(body="pass") + RUN + END_MAIN,
}
Start = Callable[..., Path]


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A device file with a name that no driver gives."""
    path = tmp_path / "other-name"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        pytest.skip("making device files needs root")
    return path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program, wait until it holds the file, and return a node's root that shows it beside process 1."""
    begun: list[subprocess.Popen[bytes]] = []
    (tmp_path / "proc/1/fd").mkdir(parents=True)

    def started(program: str, *arguments: t.Any) -> Path:
        process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (tmp_path / f"proc/{process.pid}").symlink_to(f"/proc/{process.pid}")
        return tmp_path

    yield started
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_holder_is_found_by_the_number(device: Path, start: Start, program: str) -> None:
    root = start(program, device)
    pid = next(path.name for path in (root / "proc").iterdir() if path.name != "1")
    assert [user.split()[1] for user in openers(root, [ZERO])] == [pid]
    assert openers(root, ["1:7"]) == []


def test_plain_file_with_a_number_in_it_is_no_device_on_a_real_node(tmp_path: Path, start: Start) -> None:
    (tmp_path / "text").write_text(ZERO)
    assert openers(start(OPEN + READY, tmp_path / "text"), [ZERO]) == []


def test_files_that_the_kernel_does_not_show_prove_nothing(
        tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").touch()
    root, read = start(OPEN + READY, tmp_path / "text"), probe._file

    def refuse(link: str) -> tuple[int, int, int]:
        if "map_files" in link:
            raise PermissionError(1, "Operation not permitted", link)
        return read(link)

    monkeypatch.setattr(probe, "_file", refuse)
    with pytest.raises(NotProven, match=r"map_files/\S+ cannot be read: Operation not permitted"):
        openers(root, [ZERO])


def test_file_system_that_hangs_proves_nothing(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at most waits for it, however often somebody asks."""
    (tmp_path / "text").touch()
    root, answered, asked = start(OPEN + READY, tmp_path / "text"), threading.Event(), list[str]()

    def hang(link: str) -> str:
        asked.append(link)
        answered.wait()
        return ""

    monkeypatch.setattr(probe, "_number", hang)
    monkeypatch.setattr(probe, "PATIENCE", 0.05)
    with pytest.raises(NotProven, match=r"fd/\d+ has not been read within 0\.05 s. Its file system hangs"):
        openers(root, [ZERO])
    with pytest.raises(NotProven, match=r"an earlier search .* has not ended\. A file system hangs"):
        openers(root, [ZERO])
    assert len(asked) == 1
    answered.set()
    monkeypatch.setattr(probe, "PATIENCE", 30)
    assert openers(root, [ZERO]) == []
