# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process has a file open whose file system does not answer, as one whose server is away.

A tenant may mount a server of its own, and stop it. Here a program serves the file system (FUSE).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import subprocess
import sys
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import probe

# It has one file, and answers until it reads a line. Source of the structures: <linux/fuse.h>.
SERVER = """
import ctypes, os, struct, sys, threading
fd = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None).mount(b"test", sys.argv[1].encode(), b"fuse", 0, options):
    sys.exit(1)
silent = threading.Event()
def attributes(node, mode):
    return struct.pack("<QQQQQQIIIIIIIIII", node, 1, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def answers():
    while True:
        request = os.read(fd, 1 << 20)
        _length, operation, unique, _node = struct.unpack("<IIQQ", request[:24])
        if silent.is_set():
            continue
        answer, error = b"", 0
        if operation == 26:  # init
            answer = struct.pack("<IIIIHHI", 7, 31, 1 << 17, 0, 12, 9, 1 << 17) + bytes(40)
        elif operation == 1:  # lookup; the attributes are not kept
            answer = struct.pack("<QQQQII", 2, 1, 0, 0, 0, 0) + attributes(2, 0o100644)
        elif operation == 14:  # open
            answer = struct.pack("<QII", 5, 0, 0)
        elif operation != 25:  # flush
            error = -38
        os.write(fd, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)
threading.Thread(target=answers, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
silent.set()
print("silent", flush=True)
sys.stdin.read()
"""
HOLDER = "import os, sys\nprint(os.open(sys.argv[1], os.O_RDONLY), flush=True)\nsys.stdin.read()\n"
Process = subprocess.Popen[str]


@contextlib.contextmanager
def program(text: str, argument: Path) -> Iterator[Process]:
    """Run a program until the end of the block."""
    started = subprocess.Popen([sys.executable, "-c", text, str(argument)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def line(process: Process) -> str:
    """The next line that a program prints."""
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """The link of an open file whose file system has stopped to answer."""
    folder = tmp_path / "mount"
    folder.mkdir()
    # The server ends first: what waits for its answers goes on then.
    with contextlib.ExitStack() as holders, program(SERVER, folder) as server:
        if line(server) != "ready":
            pytest.skip("mounting a file system needs root and /dev/fuse")
        holders.callback(subprocess.run, ["umount", "-l", str(folder)], check=False)
        holder = holders.enter_context(program(HOLDER, folder / "file"))
        number = line(holder)
        assert server.stdin
        server.stdin.write("\n")
        server.stdin.flush()
        assert line(server) == "silent"
        yield f"/proc/{holder.pid}/fd/{number}"


def ended(work: t.Callable[[], object]) -> bool:
    """Whether a function ends within some seconds."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(3.0)
    return not thread.is_alive()


def test_file_of_a_file_system_that_hangs_is_known_to_be_no_device(link: str) -> None:
    found: list[str] = []
    assert ended(lambda: found.append(probe._number(link)))
    assert found == [""]


def not_served(*_arguments: object) -> int:
    """The system call of an old kernel, or of a filter that does not know it."""
    ctypes.set_errno(errno.ENOSYS)
    return -1


@pytest.mark.parametrize("call", [probe._STATX, None, not_served],
                         ids=["statx", "an old C library", "an old kernel"])
def test_number_of_a_real_device(call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_STATX", call)
    with open("/dev/null", "rb") as file:
        assert probe._number(f"/proc/self/fd/{file.fileno()}") == "1:3"
    with open(os.devnull, "rb") as file:
        name = f"/proc/self/fd/{file.fileno()}"
    assert probe._number(name) == ""
