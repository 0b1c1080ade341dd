# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a device open, on made-up /proc trees: what cannot be read is never taken for idle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import probe
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven, openers
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import device_file, gpu, process

DEVICE = "195:0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one idle GPU and a process that has nothing of it."""
    gpu(tmp_path, "0000:10:00.0", "GPU-a", 0)
    process(tmp_path, 1, "init", "/dev/null")
    return tmp_path


def test_idle_device(root: Path) -> None:
    assert openers(root, [DEVICE]) == []


def test_holder_is_named(root: Path) -> None:
    process(root, 42, "python", "/dev/null", "/dev/nvidia0")
    assert openers(root, [DEVICE]) == ["pid 42 (python)"]


def test_file_of_a_stand_in_counts_by_its_name_when_its_mount_is_gone(root: Path) -> None:
    process(root, 41, "first", "/dev/nvidia0")
    process(root, 42, "taker", "/nvidia0")
    assert openers(root, [DEVICE]) == ["pid 41 (first)", "pid 42 (taker)"]


def test_all_holders_are_named_by_their_number(root: Path) -> None:
    for pid in (100, 9, 20):
        process(root, pid, f"p{pid}", "/dev/nvidia0")
    assert openers(root, [DEVICE]) == ["pid 9 (p9)", "pid 20 (p20)", "pid 100 (p100)"]


@pytest.mark.parametrize("other", ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm",
                                   "/tmp/dev/nvidia0", "socket:[1]"])
def test_other_files_are_not_the_device(root: Path, other: str) -> None:
    process(root, 42, "python", other)
    assert openers(root, [DEVICE]) == []


def test_minor_ten_is_not_minor_one(root: Path) -> None:
    process(root, 42, "python", "/dev/nvidia1")
    assert openers(root, ["195:10"]) == []


def test_what_is_no_process_is_left_out(root: Path) -> None:
    (root / "proc/self/fd").mkdir(parents=True)
    (root / "proc/self/fd/0").symlink_to("/dev/nvidia0")
    (root / "proc/meminfo").write_text("", encoding="utf-8")
    assert openers(root, [DEVICE]) == []


def test_process_that_has_ended_meanwhile(root: Path) -> None:
    (root / "proc/77").mkdir()
    assert openers(root, [DEVICE]) == []


def test_process_without_a_name(root: Path) -> None:
    (process(root, 42, "x", "/dev/nvidia0") / "comm").unlink()
    assert openers(root, [DEVICE]) == ["pid 42"]


def test_root_without_proc_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotProven, match="proc cannot be read"):
        openers(tmp_path, [DEVICE])


@pytest.mark.parametrize("pids", [(), (2, 3), (4711,)], ids=str)
def test_proc_without_process_1_proves_nothing(tmp_path: Path, pids: tuple[int, ...]) -> None:
    (tmp_path / "proc").mkdir()
    for pid in pids:
        process(tmp_path, pid, f"p{pid}")
    with pytest.raises(NotProven, match="does not show all processes: process 1 is missing"):
        openers(tmp_path, [DEVICE])


def test_openers_of_any_of_several_files(root: Path) -> None:
    process(root, 42, "python", "/dev/dri/card1")
    process(root, 43, "vllm", "/dev/nvidia0", "/dev/dri/card1")
    assert openers(root, ["195:0", "226:1"]) == ["pid 42 (python)", "pid 43 (vllm)"]
    assert openers(root, []) == []


def test_process_whose_files_cannot_be_listed_proves_nothing(root: Path) -> None:
    (root / "proc/77").mkdir()
    (root / "proc/77/fd").write_text("", encoding="utf-8")
    with pytest.raises(NotProven, match="77/fd cannot be read: Not a directory"):
        openers(root, [DEVICE])


def test_file_that_closes_meanwhile_hides_no_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(root, 42, "python", "/dev/nvidia0", "/tmp/short-lived")
    read = os.readlink

    def closing(path: Path) -> str:
        target = read(path)
        if target == "/tmp/short-lived":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return target

    monkeypatch.setattr(f"{openers.__module__}.os.readlink", closing)
    assert openers(root, [DEVICE]) == ["pid 42 (python)"]


def test_first_thread_that_ends_while_its_memory_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread shows the same memory, in a folder that a real /proc does not list."""
    folder = process(root, 42, "python")
    device_file(root, "/dev/nvidia0")
    (folder / "task/43").mkdir(parents=True)
    for place in (folder, root / "proc/43"):
        (place / "map_files").mkdir(parents=True)
        (place / "map_files/1000-2000").symlink_to("/dev/nvidia0")
    read = os.readlink

    def ending(path: str) -> str:
        if path.startswith(str(folder / "map_files")):
            shutil.rmtree(folder / "map_files")
        return read(path)

    monkeypatch.setattr(f"{openers.__module__}.os.readlink", ending)
    assert openers(root, [DEVICE]) == ["pid 42 (python)", "pid 43"]


def test_only_the_standard_library_travels() -> None:
    """The file runs on nodes by itself: it must load without the collection."""
    source = Path(probe.__file__).read_text(encoding="utf-8")
    space: dict[str, object] = {"__name__": "travelled"}
    exec(compile(source, "probe.py", "exec"), space)
    assert callable(space["openers"])
