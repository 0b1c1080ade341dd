# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All nodes together: what the fabric shows and what programs write reaches the right one, and hangs where it must."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.hardware import nodes as module
from ansible_collections.composable.infra.lab.hardware.fabric import FabricState, PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node.bus import port_address
from ansible_collections.composable.infra.lab.hardware.nodes import SimulatedNodes
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.tests.unit.lab.hardware.nodes_support import (
    FakeWatcher,
)

_WRITE = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())"
FIRST, SECOND = "0000:10:00.0", "0000:11:00.0"


class Nodes:
    """Two running nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lost, self.looks = folder / "nodes", list[str](), threading.Semaphore(0)
        options = HardwareOptions(folder, "https://s", "https://e", None, ("node-0", "node-1"), slots=2)
        nodes = SimulatedNodes(options, self.lost.append, self.looks.release, lambda line: None)
        threading.Thread(target=nodes.run, daemon=True).start()

    def show(self, **plugged: str) -> None:
        """The fabric has these devices plugged into node_0 and node_1, named by a letter each."""
        machines = {machine_uuid(node.replace("_", "-")):
                    tuple(PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100") for name in names)
                    for node, names in plugged.items()}
        until(lambda: hasattr(FakeWatcher, "put"))
        FakeWatcher.put(FabricState(1, machines))
        assert self.looks.acquire(timeout=10)

    def pci(self, node: str = "node-0") -> Path:
        """A node's bus."""
        return self.folder / node / "sys/bus/pci"

    def gpus(self, node: str = "node-0") -> list[str]:
        """Addresses of GPUs on a node's bus."""
        found = (self.pci(node) / "devices").iterdir()
        return sorted(path.name for path in found if (path / "max_link_width").exists())


def until(check: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 10
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def writer(path: Path, text: str = "1") -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to a file; killed at the end when it hangs."""
    process = subprocess.Popen([sys.executable, "-IS", "-c", _WRITE, str(path), text])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write(path: Path, text: str = "1") -> None:
    """Write to a file, and see the write end."""
    with writer(path, text) as process:
        assert process.wait(10) == 0


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    if hasattr(FakeWatcher, "put"):
        del FakeWatcher.put
    monkeypatch.setattr(module, "FabricWatcher", FakeWatcher)
    return Nodes(tmp_path)


def test_device_comes_to_its_node_and_goes_by_a_write_that_ends_when_it_is_gone(nodes: Nodes) -> None:
    nodes.show(node_1="a")
    assert (nodes.gpus("node-0"), nodes.gpus("node-1")) == ([], [FIRST])
    write(nodes.pci("node-1") / "devices" / FIRST / "remove")
    assert nodes.gpus("node-1") == []


@pytest.mark.parametrize("file", ["rescan", f"devices/{port_address(0)}/rescan"])
def test_removed_device_is_there_again_when_the_rescan_ends(nodes: Nodes, file: str) -> None:
    nodes.show(node_0="a")
    for _round in range(2):
        write(nodes.pci() / "devices" / FIRST / "remove")
        write(nodes.pci() / file)
        assert nodes.gpus() == [FIRST]


def test_port_that_came_later_can_be_looked_at_too(nodes: Nodes) -> None:
    nodes.show(node_0="abc")
    write(nodes.pci() / "devices" / "0000:12:00.0" / "remove")
    write(nodes.pci() / "devices" / port_address(2) / "rescan")
    assert nodes.gpus() == [FIRST, SECOND, "0000:12:00.0"]


def test_driver_is_unbound_and_bound_by_writes(nodes: Nodes) -> None:
    nodes.show(node_0="a")
    link = nodes.pci() / "devices" / FIRST / "driver"
    for file in ("drivers/nvidia/bind", "drivers_probe"):
        write(nodes.pci() / "drivers/nvidia/unbind", FIRST)
        until(lambda: not link.is_symlink())
        write(nodes.pci() / file, FIRST)
        until(link.is_symlink)


def test_removal_of_an_open_device_hangs_and_keeps_the_bus_until_it_is_closed(nodes: Nodes) -> None:
    nodes.show(node_0="ab")
    handle = nodes.folder / "node-0/proc/7/fd/3"
    handle.parent.mkdir(parents=True)
    handle.symlink_to("/dev/nvidia0")
    with (writer(nodes.pci() / "devices" / FIRST / "remove") as hung,
          writer(nodes.pci() / "devices" / SECOND / "remove") as other, writer(nodes.pci() / "rescan") as rescan):
        until(lambda: "non-zero usage" in (nodes.folder / "node-0/dev/kmsg").read_text(encoding="utf-8"))
        nodes.show(node_0="abc")
        nodes.show(node_0="abc", node_1="d")
        assert nodes.gpus("node-1") == [FIRST], "another node's bus is free"
        assert FIRST in nodes.gpus()
        assert hung.poll() is None
        handle.unlink()
        assert [process.wait(10) for process in (hung, other, rescan)] == [0, 0, 0]
        until(lambda: "0000:12:00.0" in nodes.gpus())


def test_pulled_device_is_told_with_its_node(nodes: Nodes) -> None:
    nodes.show(node_0="a", node_1="b")
    nodes.show(node_0="a")
    assert nodes.lost == ["node-1"]
    assert nodes.gpus("node-1") == [FIRST]
