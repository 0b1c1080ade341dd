# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's bus on made-up /sys and /proc trees: what is found, who holds it, and a kernel that does not answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.tests.unit.node.test_probe import gpu, process

A, B = "0000:10:00.0", "0000:11:00.0"


def plug(root: Path, address: str, pci_class: str = "0x030200", driver: str | None = None, **files: str) -> Path:
    """A device on the bus."""
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, content in {"class": pci_class, "vendor": "0x10de", "device": "0x20f1", "remove": "", **files}.items():
        (folder / name).write_text(f"{content}\n", encoding="utf-8")
    if driver:
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one GPU that the NVIDIA driver has, one without a driver, and a network card."""
    plug(tmp_path, A, driver="nvidia", numa_node="1")
    plug(tmp_path, B, numa_node="-1")
    plug(tmp_path, "0000:01:00.0", pci_class="0x020000", driver="mlx5_core")
    gpu(tmp_path, A, "GPU-a", 3)
    process(tmp_path, 1, "init")
    (tmp_path / "sys/bus/pci/rescan").touch()
    return tmp_path


def test_devices_that_are_composed_are_listed_by_address(root: Path) -> None:
    first, second = pci.devices(root)
    assert first == pci.PciDevice(A, "10de", "20f1", "030200", "nvidia", 1, "GPU-a", 3, "NVIDIA A100")
    assert second == pci.PciDevice(B, "10de", "20f1", "030200")


@pytest.mark.parametrize(("pci_class", "shown"), [("0x030000", True), ("0x120000", True), ("0x0b4000", True),
                                                  ("0x050210", True), ("0x050000", False), ("0x010802", False),
                                                  ("", False)])
def test_classes_that_are_composed(tmp_path: Path, pci_class: str, shown: bool) -> None:
    plug(tmp_path, A, pci_class)
    assert bool(pci.devices(tmp_path)) is shown


def test_device_is_found_by_uuid_or_address(root: Path) -> None:
    assert pci.need(root, "GPU-a") == pci.need(root, A)
    assert pci.need(root, B).uuid is None
    assert pci.find(root, "GPU-z") is None


def test_unknown_device_names_the_known_ones(root: Path) -> None:
    with pytest.raises(pci.UnknownDevice, match=r"^device: 'GPU-z' is not on this node; allowed are "
                       r"0000:10:00.0 \(GPU-a\), 0000:11:00.0$"):
        pci.need(root, "GPU-z")


def test_bus_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotProven, match="sys/bus/pci/devices cannot be read"):
        pci.devices(tmp_path)


def test_nvidia_device_is_used_by_its_minor(root: Path) -> None:
    process(root, 42, "python", "/dev/nvidia3")
    process(root, 43, "other", "/dev/nvidia1")
    assert pci.users(root, pci.need(root, A)) == ["pid 42 (python)"]


def test_display_of_a_device_counts_too(root: Path) -> None:
    (root / "sys/bus/pci/devices" / A / "drm/renderD129").mkdir(parents=True)
    process(root, 42, "Xorg", "/dev/dri/renderD129")
    assert pci.device_files(root, pci.need(root, A)) == ["/dev/nvidia3", "/dev/dri/renderD129"]
    assert pci.users(root, pci.need(root, A)) == ["pid 42 (Xorg)"]


def test_device_without_a_driver_is_idle(root: Path) -> None:
    assert pci.users(root, pci.need(root, B)) == []


def test_device_of_a_virtual_machine_is_used_by_its_group(tmp_path: Path) -> None:
    folder = plug(tmp_path, A, driver="vfio-pci")
    process(tmp_path, 1, "init")
    with pytest.raises(NotProven, match="bound to vfio-pci and has no iommu_group"):
        pci.users(tmp_path, pci.need(tmp_path, A))
    (folder / "iommu_group").symlink_to("../../../kernel/iommu_groups/17")
    process(tmp_path, 42, "qemu", "/dev/vfio/17")
    assert pci.users(tmp_path, pci.need(tmp_path, A)) == ["pid 42 (qemu)"]


@pytest.mark.parametrize("driver", ["amdgpu", "cxl_pci"])
def test_driver_whose_files_are_not_known_proves_nothing(tmp_path: Path, driver: str) -> None:
    plug(tmp_path, A, driver=driver)
    process(tmp_path, 1, "init")
    with pytest.raises(NotProven, match=f"driver {driver} has {A}"):
        pci.users(tmp_path, pci.need(tmp_path, A))


def test_nvidia_device_that_the_driver_does_not_describe_proves_nothing(tmp_path: Path) -> None:
    plug(tmp_path, A, driver="nvidia")
    process(tmp_path, 1, "init")
    with pytest.raises(NotProven, match="names no Device Minor"):
        pci.users(tmp_path, pci.need(tmp_path, A))


def test_rescan_writes_and_says_what_is_new(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []

    def kernel(path: Path, patience: float) -> None:
        written.append(path)
        plug(root, "0000:12:00.0")

    monkeypatch.setattr(pci, "_write", kernel)
    assert [d.address for d in pci.rescan(root, 1)] == ["0000:12:00.0"]
    assert written == [root / "sys/bus/pci/rescan"]


def test_write_reaches_the_file(root: Path) -> None:
    pci.rescan(root, 10)
    assert (root / "sys/bus/pci/rescan").read_bytes() == b"1"


def test_kernel_that_refuses_is_named(root: Path) -> None:
    (root / "sys/bus/pci/rescan").unlink()
    with pytest.raises(pci.NotDone, match=r"rescan cannot be written: FileNotFoundError"):
        pci.rescan(root, 10)


def test_kernel_that_hangs_is_left_behind(root: Path) -> None:
    (root / "sys/bus/pci/rescan").unlink()
    os.mkfifo(root / "sys/bus/pci/rescan")
    with pytest.raises(pci.NotDone, match=r"the kernel has not answered for 0\.1 s; the device may hang"):
        pci.rescan(root, 0.1)
    os.close(os.open(root / "sys/bus/pci/rescan", os.O_RDONLY | os.O_NONBLOCK))


def test_device_that_stays_on_the_bus_is_told(root: Path) -> None:
    with pytest.raises(pci.NotDone, match=r"0000:11:00\.0 is still on the bus 0\.3 s after its removal"):
        pci.remove(root, pci.need(root, B), 0.3)


def test_device_that_does_not_come(root: Path) -> None:
    assert pci.await_device(root, "GPU-z", 0.0) is None
    assert pci.await_device(root, "GPU-a", 0.0) == pci.need(root, A)
