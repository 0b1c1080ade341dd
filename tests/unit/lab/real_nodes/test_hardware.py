# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated hardware of a real node: its own plugin announces it, and its containers keep it on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node import containers, driver_files, faults
from ansible_collections.composable.infra.lab.hardware.node.kernel import NodeKernel
from ansible_collections.composable.infra.lab.hardware.node.records import BusDevice
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions, hardware_command
from ansible_collections.composable.infra.lab.real_nodes.plugin.devices import hold, look

GPU = BusDevice("uid-a", "GPU-a", "H100", "0000:10:00.0", 0, driver="nvidia", minor=0)


@pytest.fixture
def kernel(tmp_path: Path) -> NodeKernel:
    """The kernel of a node whose containers have nothing open, with one device that the driver has."""
    made = NodeKernel(tmp_path / "node", 1, True, lambda folder, verb, address: None)
    made.plug([PluggedDevice("uid-a", "GPU-a", "H100", {"memory": "94Gi"})])
    return made


def touch(kernel: NodeKernel) -> BusDevice:
    """Use the node's device for the first time."""
    with kernel.records.lock():
        return driver_files.touch(kernel.records, kernel.records.devices()[0])


def test_plugin_finds_a_device_that_the_driver_has(kernel: NodeKernel) -> None:
    (unused,) = look(kernel.root)
    touched = touch(kernel)
    assert look(kernel.root) == [unused]
    assert (unused.uuid, unused.address, unused.minor) == ("GPU-a", touched.address, touched.minor)
    assert unused.properties == {"memory": "94Gi"}
    kernel.records.save(touched.but(draining=True))
    assert look(kernel.root) == []


def test_plugin_fails_where_the_vendors_library_does(kernel: NodeKernel) -> None:
    kernel.records.save(touch(kernel).but(lost=True))
    with pytest.raises(LabError, match="is lost and still on the bus"):
        look(kernel.root)
    faults.switch(kernel.root, faults.PLUGIN_FAILS, True)
    with pytest.raises(LabError, match="the fault plugin-fails is on"):
        look(kernel.root)


def test_plugin_that_needs_a_gpu_fails_on_an_empty_node(kernel: NodeKernel, tmp_path: Path) -> None:
    empty = NodeKernel(tmp_path / "empty", 1, True, lambda folder, verb, address: None)
    assert look(empty.root) == []
    for node in (kernel, empty):
        faults.switch(node.root, faults.PLUGIN_NEEDS_GPU, True)
    with pytest.raises(LabError, match="the driver is not loaded"):
        look(empty.root)
    assert [device.uuid for device in look(kernel.root)] == ["GPU-a"]
    kernel.records.save(touch(kernel).but(draining=True))
    assert look(kernel.root) == []


def test_plugin_that_holds_opens_what_was_used(kernel: NodeKernel) -> None:
    touch(kernel)
    found = look(kernel.root)
    assert hold(kernel.root, found) == []
    faults.switch(kernel.root, faults.PLUGIN_HOLDS, True)
    (file,) = hold(kernel.root, found)
    with file:
        assert file.name == str(kernel.root / "dev/nvidia0")


@pytest.mark.parametrize(("target", "is_open"), [
    ("/dev/nvidia0", True), ("/run/hardware/dev/nvidia0", True), ("/dev/nvidia1", False), ("/dev/null", False)])
def test_container_that_has_the_device_open_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, is_open: bool
) -> None:
    monkeypatch.setattr(containers, "members", lambda folders: {12, 13})
    (tmp_path / "12" / "fd").mkdir(parents=True)
    (tmp_path / "12" / "fd" / "3").symlink_to(target)
    # 13 has ended since.
    assert containers.is_open_in("composable-lab-1", GPU, tmp_path) is is_open
    assert containers.is_open_in(None, GPU, tmp_path) is False


def test_removal_waits_for_a_container(tmp_path: Path) -> None:
    holding = {"GPU-a"}
    kernel = NodeKernel(tmp_path / "node", 1, True, lambda folder, verb, address: None,
                        is_open=lambda device: device.uuid in holding)
    kernel.plug([PluggedDevice("uid-a", "GPU-a", "H100")])
    (device,) = kernel.records.devices()
    assert not kernel.remove(device.address)
    holding.clear()
    assert kernel.remove(device.address)
    assert kernel.records.devices() == []


def test_options_survive_their_file(tmp_path: Path) -> None:
    options = HardwareOptions(tmp_path, "https://s", "https://e", None, ("node-0",), real_nodes={"real-0": "group"})
    hardware_command(options)
    assert HardwareOptions.from_file(options.file) == options
    assert options.every_node == ("node-0", "real-0")
