# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written to a bus, on made-up trees: what reaches the kernel, and a kernel that refuses or does not answer."""

from __future__ import annotations

import os
import signal
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import bus, pci
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import A, plug

BRIDGE, NEW = "0000:01:00.0", "0000:12:00.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one device and one bridge."""
    plug(tmp_path, A, driver_override="")
    plug(tmp_path, BRIDGE, pci_class="0x060400", rescan="")
    for name in ("rescan", "drivers_probe"):
        (tmp_path / "sys/bus/pci" / name).touch()
    return tmp_path


@pytest.fixture
def written(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is written, file and text; a rescan shows a new device."""
    found: list[tuple[str, str]] = []

    def kernel(path: Path, text: str, patience: float, begun: t.Callable[[int], None]) -> None:
        found.append((str(path.relative_to(root / "sys/bus/pci")), text))
        if path.name == "rescan":
            plug(root, NEW)

    monkeypatch.setattr(bus, "write", kernel)
    return found


def test_rescan_says_what_is_new(root: Path, written: list[tuple[str, str]]) -> None:
    assert [d.address for d in bus.rescan(root, 1)] == [NEW]
    assert written == [("rescan", "1")]


def test_rescan_of_a_port_leaves_the_rest_alone(root: Path, written: list[tuple[str, str]]) -> None:
    assert [d.address for d in bus.rescan_port(root, BRIDGE, 1)] == [NEW]
    assert written == [(f"devices/{BRIDGE}/rescan", "1")]


def test_bind_names_the_driver_first(root: Path, written: list[tuple[str, str]]) -> None:
    assert not bus.bind(root, A, "nvidia", 0.0)
    assert written == [(f"devices/{A}/driver_override", "nvidia"), ("drivers_probe", A)]
    written.clear()
    (root / "sys/bus/pci/devices" / A / "driver").symlink_to("../../drivers/nvidia")
    assert bus.bind(root, A, "", 0.0)
    assert written == [("drivers_probe", A)]


def test_unbind(root: Path, written: list[tuple[str, str]]) -> None:
    assert bus.unbind(root, pci.need(root, A), 0.0)
    assert written == []
    (root / "sys/bus/pci/devices" / A / "driver").symlink_to("../../drivers/vfio-pci")
    assert not bus.unbind(root, pci.need(root, A), 0.0)
    assert written == [("drivers/vfio-pci/unbind", A)]


def test_write_reaches_the_file(root: Path) -> None:
    bus.rescan(root, 10)
    bus.write(root / "sys/bus/pci/drivers_probe", A, 10)
    assert (root / "sys/bus/pci/rescan").read_bytes() == b"1"
    assert (root / "sys/bus/pci/drivers_probe").read_text(encoding="utf-8") == A


def test_kernel_that_refuses_is_named(root: Path) -> None:
    (root / "sys/bus/pci/rescan").unlink()
    with pytest.raises(bus.NotDone, match=r"rescan cannot be written: FileNotFoundError"):
        bus.rescan(root, 10)


def test_kernel_that_hangs_is_left_behind(root: Path) -> None:
    path = bus.removal_file(root, A)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(bus.Hangs, match=r"the kernel has not answered for 0\.3 s\. The device may hang"):
        bus.remove(root, A, 0.3)
    assert path.exists()
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def test_one_write_is_outstanding_at_a_file(root: Path) -> None:
    """The writer is known again by its number and start time, which the program has written down."""
    path = bus.removal_file(root, A)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(bus.Hangs, match="has not answered for"):
        bus.remove(root, A, 0.3)
    pid = bus.removing(root, A)
    assert str(path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    with pytest.raises(bus.Hangs, match=rf"has not answered an earlier write of process {pid}\. "):
        bus.remove(root, A, 10)
    os.kill(int(pid), signal.SIGKILL)
    assert bus.until(lambda: bus.removing(root, A) == "", 10)
    path.unlink()
    path.touch()
    with pytest.raises(bus.NotDone, match="is still on the bus"):
        bus.remove(root, A, 0.3)


def test_writer_that_cannot_be_noted_may_hang(root: Path) -> None:
    (root / "run").touch()
    with pytest.raises(bus.Hangs, match=r"process \d+ writes to it and cannot be recorded: .*Not a directory"):
        bus.rescan(root, 10)


def test_device_that_stays_on_the_bus_is_told(root: Path) -> None:
    with pytest.raises(bus.NotDone, match=r"0000:10:00\.0 is still on the bus"):
        bus.remove(root, A, 0.3)


def test_removal_returns_when_the_device_is_gone(root: Path) -> None:
    """A kernel of its own thread: it answers the write, and takes the device away."""
    entry = root / "sys/bus/pci/devices" / A
    (entry / "remove").unlink()
    os.mkfifo(entry / "remove")

    def kernel() -> None:
        assert (entry / "remove").read_bytes() == b"1"
        entry.rename(root / "gone")

    answers = threading.Thread(target=kernel)
    answers.start()
    bus.remove(root, A, 10)
    answers.join(10)
    assert (root / "gone").exists()
    assert not entry.exists()


def test_device_that_does_not_come(root: Path) -> None:
    assert bus.await_device(root, "GPU-z", 0.0) is None
    assert bus.await_device(root, A, 0.0) == pci.need(root, A)
