# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control files: a writer waits until it is answered, whoever else writes."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.hardware.inotify import Inotify
from ansible_collections.composable.infra.lab.hardware.node.bus import REMOVE, RESCAN
from ansible_collections.composable.infra.lab.hardware.node.control_files import Asked, ControlFiles

_WRITE = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'1')"
RESCAN_ALL = Asked("node-0", RESCAN, "")


class Kernel:
    """Control files, and what is asked by them."""

    def __init__(self) -> None:
        inotify = Inotify()
        self.files = ControlFiles(inotify)
        self.asked: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()

        def follow() -> None:
            for number, _path in inotify.events():
                self.asked.put(self.files.asked(number))

        threading.Thread(target=follow, daemon=True).start()


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to a file; killed at the end when it hangs."""
    process = subprocess.Popen([sys.executable, "-IS", "-c", _WRITE, str(path)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def test_writer_waits_for_the_answer(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "rescan"
    kernel.files.offer(path, RESCAN_ALL)
    with writer(path) as process:
        assert kernel.asked.get(timeout=10) == RESCAN_ALL
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        kernel.files.answer(RESCAN_ALL, path)
        assert process.wait(10) == 0


def test_next_writer_waits_for_an_answer_of_its_own(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "rescan"
    kernel.files.offer(path, RESCAN_ALL)
    for _round in range(3):
        with writer(path) as process:
            assert kernel.asked.get(timeout=10) == RESCAN_ALL
            assert process.poll() is None
            kernel.files.answer(RESCAN_ALL, path)
            assert process.wait(10) == 0


def test_nobody_asks_by_offering_or_answering(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "rescan"
    kernel.files.offer(path, RESCAN_ALL)
    kernel.files.answer(RESCAN_ALL, path)
    other = Asked("node-0", RESCAN, "0000:00:01.0")
    kernel.files.offer(tmp_path / "other", other)
    with writer(tmp_path / "other"):
        assert kernel.asked.get(timeout=10) == other, "events come in order"


def test_one_answer_is_for_all_who_wrote(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "rescan"
    kernel.files.offer(path, RESCAN_ALL)
    with writer(path) as one, writer(path) as other:
        await_open(one, path)
        await_open(other, path)
        assert kernel.asked.get(timeout=10) == RESCAN_ALL
        kernel.files.answer(RESCAN_ALL, path)
        assert (one.wait(10), other.wait(10)) == (0, 0)


def await_open(process: subprocess.Popen[bytes], path: Path) -> None:
    """Wait until a process has a file open."""
    folder, deadline = Path(f"/proc/{process.pid}/fd"), time.monotonic() + 10
    while not any(_leads_to(link, path) for link in folder.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _leads_to(link: Path, path: Path) -> bool:
    try:
        return os.readlink(link) == str(path)
    except FileNotFoundError:  # closed meanwhile
        return False


def test_writer_to_a_file_that_goes_with_its_device_is_let_go(kernel: Kernel, tmp_path: Path) -> None:
    asked = Asked("node-0", REMOVE, "0000:10:00.0")
    folder = tmp_path / "device"
    folder.mkdir()
    kernel.files.offer(folder / "remove", asked)
    with writer(folder / "remove") as process:
        assert kernel.asked.get(timeout=10) == asked
        (folder / "remove").unlink()
        folder.rmdir()
        kernel.files.answer(asked, None)
        assert process.wait(10) == 0


def test_file_that_moves_with_its_folder_still_asks(kernel: Kernel, tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    staged.mkdir()
    kernel.files.offer(staged / "rescan", RESCAN_ALL)
    staged.rename(tmp_path / "bus")
    with writer(tmp_path / "bus" / "rescan"):
        assert kernel.asked.get(timeout=10) == RESCAN_ALL


def test_a_plain_file_of_before_is_replaced(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "rescan").touch()
    kernel.files.offer(tmp_path / "rescan", RESCAN_ALL)
    assert (tmp_path / "rescan").is_fifo()


def test_writer_that_waits_for_an_earlier_simulator_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "rescan"
    os.mkfifo(path)
    with writer(path) as process:
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            assert process.poll() is None
        later = Kernel()
        later.files.offer(path, RESCAN_ALL)
        deadline = time.monotonic() + 10
        # One that opens the file only now is answered as usual.
        while process.poll() is None:
            assert time.monotonic() < deadline
            with suppress(queue.Empty):
                later.files.answer(later.asked.get(timeout=0.05) or RESCAN_ALL, path)
        assert process.returncode == 0


def test_refused_write_fails_and_the_next_one_is_asked_again(kernel: Kernel, tmp_path: Path) -> None:
    path, asked = tmp_path / "sanitize", Asked("node-0", "sanitize", "0000:10:00.0")
    kernel.files.offer(path, asked)
    with writer(path) as first:
        assert kernel.asked.get(timeout=10) == asked
        kernel.files.refuse(asked, path)
        assert first.wait(timeout=10) == 1
    with writer(path) as second:
        assert kernel.asked.get(timeout=10) == asked
        kernel.files.answer(asked, path)
        assert second.wait(timeout=10) == 0
