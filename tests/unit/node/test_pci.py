# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's bus on made-up /sys and /proc trees: what is found, who holds it, its link and windows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Link
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import A, B, drm, gpu, number, plug, process


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


def test_device_that_was_never_used_has_no_uuid_yet(tmp_path: Path) -> None:
    plug(tmp_path, A, driver="nvidia")
    gpu(tmp_path, A, "GPU-????????-????-????-????-????????????", 0)
    assert (pci.need(tmp_path, A).uuid, pci.need(tmp_path, A).minor) == (None, 0)


def test_device_is_found_by_uuid_or_address(root: Path) -> None:
    assert pci.need(root, "GPU-a") == pci.need(root, A)
    assert pci.need(root, B).uuid is None
    assert pci.find(root, "GPU-z") is None


def test_unknown_device_names_the_known_ones(root: Path) -> None:
    with pytest.raises(pci.UnknownDevice, match=r"^device: 'GPU-z' is not on this node. Allowed are "
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
    drm(root / "sys/bus/pci/devices" / A, "renderD129")
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
    with pytest.raises(NotProven, match=f"{A} is bound to vfio-pci and shows no device number"):
        pci.users(tmp_path, pci.need(tmp_path, A))
    number(tmp_path / "sys/class/vfio/17", "240:17")
    process(tmp_path, 42, "qemu", "/dev/vfio/17")
    assert pci.users(tmp_path, pci.need(tmp_path, A)) == ["pid 42 (qemu)"]


@pytest.mark.parametrize("group", ["240:17", ""], ids=["groups too", "iommufd only"])
def test_device_of_a_virtual_machine_is_used_by_iommufd(tmp_path: Path, group: str) -> None:
    folder = plug(tmp_path, A, driver="vfio-pci")
    (folder / "iommu_group").symlink_to("../../../kernel/iommu_groups/17")
    if group:
        number(tmp_path / "sys/class/vfio/17", group)
    number(folder / "vfio-dev/vfio0", "241:0")
    process(tmp_path, 1, "init")
    process(tmp_path, 41, "other-vm", "/dev/vfio/devices/vfio1", "/dev/iommu")
    assert pci.users(tmp_path, pci.need(tmp_path, A)) == []
    process(tmp_path, 42, "qemu-kvm", "/dev/vfio/devices/vfio0", "/dev/iommu")
    assert pci.users(tmp_path, pci.need(tmp_path, A)) == ["pid 42 (qemu-kvm)"]


def test_group_without_an_iommu_counts_too(tmp_path: Path) -> None:
    folder = plug(tmp_path, A, driver="vfio-pci")
    (folder / "iommu_group").symlink_to("../../../kernel/iommu_groups/17")
    number(tmp_path / "sys/class/vfio/noiommu-17", "240:3")
    process(tmp_path, 1, "init")
    process(tmp_path, 42, "dpdk", "/dev/vfio/3")
    assert pci.users(tmp_path, pci.need(tmp_path, A)) == ["pid 42 (dpdk)"]


def test_file_of_the_driver_without_a_number_proves_nothing(tmp_path: Path) -> None:
    folder = plug(tmp_path, A, driver="amdgpu")
    process(tmp_path, 1, "init")
    (folder / "drm/renderD128").mkdir(parents=True)
    with pytest.raises(NotProven, match="renderD128/dev does not show the number of a device"):
        pci.users(tmp_path, pci.need(tmp_path, A))


@pytest.mark.parametrize("driver", ["amdgpu", "cxl_pci"])
def test_driver_whose_files_are_not_known_proves_nothing(tmp_path: Path, driver: str) -> None:
    plug(tmp_path, A, driver=driver)
    process(tmp_path, 1, "init")
    with pytest.raises(NotProven, match=f"driver {driver} has {A}"):
        pci.users(tmp_path, pci.need(tmp_path, A))


def test_nvidia_device_that_the_driver_does_not_describe_proves_nothing(tmp_path: Path) -> None:
    plug(tmp_path, A, driver="nvidia")
    process(tmp_path, 1, "init")
    with pytest.raises(NotProven, match="shows no Device Minor"):
        pci.users(tmp_path, pci.need(tmp_path, A))


@pytest.mark.parametrize("minor", [None, "", "N/A", "-1"])
def test_nvidia_device_without_a_number_proves_nothing(tmp_path: Path, minor: str | None) -> None:
    plug(tmp_path, A, driver="nvidia")
    gpu(tmp_path, A, "GPU-a", minor)
    process(tmp_path, 1, "init")
    with pytest.raises(NotProven, match="shows no Device Minor"):
        pci.users(tmp_path, pci.need(tmp_path, A))


def resource(*bars: tuple[int, int, int]) -> str:
    """The file ``resource``: start, end and flags of each window."""
    return "\n".join(" ".join(f"0x{number:016x}" for number in window) for window in bars)


@pytest.mark.parametrize(("bars", "without"), [
    ([(0xfa000000, 0xfaffffff, 0x40200), (0, 0, 0)], []),
    ([(0xfa000000, 0xfaffffff, 0x40200), (0, 0xfffffffff, 0x14220c)], [1]),
    ([(0x1000, 0xfffffffff, 0x2014220c)], [0]),
    ([(0, 0, 0)] * 6 + [(0, 0x7ffff, 0x46200)], []),
], ids=["placed", "no address", "marked as unset", "only the expansion ROM"])
def test_windows_without_room(tmp_path: Path, bars: list[tuple[int, int, int]], without: list[int]) -> None:
    plug(tmp_path, A, resource=resource(*bars))
    assert pci.bars_without_room(tmp_path, A) == without


def test_device_without_the_file_of_its_windows_is_not_judged(root: Path) -> None:
    assert pci.bars_without_room(root, A) == []


def test_link_is_as_sysfs_has_it(tmp_path: Path) -> None:
    plug(tmp_path, A, current_link_width="8", max_link_width="16", current_link_speed="16.0 GT/s PCIe",
         max_link_speed="32.0 GT/s PCIe")
    assert pci.link(tmp_path, A) == Link(8, 16, "16.0 GT/s PCIe", "32.0 GT/s PCIe")


@pytest.mark.parametrize("files", [{}, {"current_link_width": "8"},
                                   {"current_link_width": "Unknown", "max_link_width": "16"}])
def test_link_that_is_not_told(tmp_path: Path, files: dict[str, str]) -> None:
    plug(tmp_path, A, **files)
    assert pci.link(tmp_path, A) is None


def behind(root: Path, bridge: str, address: str, **files: str) -> None:
    """A bridge with a device behind it, as real sysfs nests them."""
    folder = root / "sys/devices/pci0000:00" / bridge
    (folder / address).mkdir(parents=True)
    for place, name, content in [(folder, "class", "0x060400"), (folder, "rescan", ""), *(
            (folder, name, content) for name, content in files.items()), (folder / address, "class", "0x030200"),
            (folder / address, "current_link_width", "8"), (folder / address, "max_link_width", "16")]:
        (place / name).write_text(content, encoding="utf-8")
    for target in (folder, folder / address):
        (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        (root / "sys/bus/pci/devices" / target.name).symlink_to(target)


def test_slot_with_fewer_lanes_has_a_full_link(tmp_path: Path) -> None:
    behind(tmp_path, "0000:00:01.0", A, max_link_width="8")
    assert pci.link(tmp_path, A) == Link(8, 8)


def test_ports_have_nothing_behind_them(tmp_path: Path) -> None:
    behind(tmp_path, "0000:00:01.0", A)
    plug(tmp_path, "0000:00:02.0", pci_class="0x060400", rescan="")
    plug(tmp_path, "0000:00:03.0", pci_class="0x060000", rescan="")
    assert pci.ports(tmp_path) == ["0000:00:02.0"]


def test_device_is_behind_its_bridges(tmp_path: Path) -> None:
    behind(tmp_path, "0000:00:01.0", A)
    plug(tmp_path, B)
    assert pci.is_behind(tmp_path, A, ["0000:00:01.0", "0000:00:02.0"])
    assert not pci.is_behind(tmp_path, A, ["0000:00:02.0"])
    assert pci.is_behind(tmp_path, A, [])
    assert pci.is_behind(tmp_path, B, ["0000:00:02.0"])


@pytest.mark.parametrize(("nodes", "bridges", "shared"), [
    (("1", "1"), ["0000:00:01.0", "0000:00:02.0"], {"pcieRoot": "pci0000:00", "numaNode": 1}),
    (("0", "1"), ["0000:00:01.0", "0000:00:02.0"], {"pcieRoot": "pci0000:00"}),
    (("-1", "-1"), ["0000:00:01.0"], {"pcieRoot": "pci0000:00"}), (("0", "0"), [], {}),
    (("0", "0"), ["0000:00:01.0", "0000:00:03.0"], {})],
    ids=["one of each", "two NUMA nodes", "no NUMA node", "no port", "a port that is not there"])
def test_what_all_devices_behind_the_ports_share(tmp_path: Path, nodes: tuple[str, str], bridges: list[str],
                                                 shared: dict[str, object]) -> None:
    for bridge, address, numa in zip(("0000:00:01.0", "0000:00:02.0"), (A, B), nodes, strict=True):
        behind(tmp_path, bridge, address, numa_node=numa)
    assert pci.shared_places(tmp_path, bridges) == shared


UNSET = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
IO = "0x0000000000001000 0x0000000000001fff 0x0000000000000101"
MEMORY = "0x0000000090000000 0x0000000093ffffff 0x0000000000000200"
AHEAD = "0x0000010000000000 0x0000013fffffffff 0x0000000000102201"
OWN = "0x0000000080000000 0x000000008000ffff 0x0000000000040200"


@pytest.mark.parametrize(("windows", "size"), [
    ([IO, MEMORY, AHEAD, UNSET], (256 << 30) + (64 << 20)), ([IO, UNSET, AHEAD, UNSET], 256 << 30), ([IO], 0), ([], 0),
    (["garbage", AHEAD], 256 << 30)])
def test_memory_behind_a_bridge_is_what_its_windows_have(tmp_path: Path, windows: list[str], size: int) -> None:
    for bridge, address in (("0000:00:01.0", A), ("0000:00:02.0", B)):
        behind(tmp_path, bridge, address)
        folder = tmp_path / "sys/bus/pci/devices" / bridge
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "resource").write_text("\n".join([OWN, *[UNSET] * 12, *windows]) + "\n")
    assert pci.memory_windows(tmp_path, ["0000:00:01.0"]) == size
    assert pci.memory_windows(tmp_path, ["0000:00:01.0", "0000:00:02.0"]) == 2 * size
    assert pci.memory_windows(tmp_path, ["0000:00:03.0"]) == pci.memory_windows(tmp_path, []) == 0


@pytest.mark.parametrize(("bridges", "switch"), [
    ((), ""), (("0000:00:01.0",), ""), (("0000:00:01.0", "0000:01:00.0", "0000:02:03.0"), "0000:01:00.0"),
    (("0000:00:01.0", "0000:01:00.0", "0000:02:03.0", "0000:03:00.0", "0000:04:01.0"), "0000:03:00.0")],
    ids=["nothing above", "root port", "a switch", "a switch below a switch"])
def test_switch_is_the_nearest_upstream_port(tmp_path: Path, bridges: tuple[str, ...], switch: str) -> None:
    folder = tmp_path.joinpath("sys/devices/pci0000:00", *bridges, A)
    folder.mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices" / A).symlink_to(folder)
    assert pci.switch(tmp_path, A) == switch


@pytest.mark.parametrize(("content", "lost"), [(b"\xff" * 64, True), (b"\xde\x10\x30\x23" + b"\xff" * 60, False),
                                               (b"", False), (None, False)])
def test_device_that_no_longer_answers_reads_as_ones(root: Path, content: bytes | None, lost: bool) -> None:
    if content is not None:
        (root / "sys/bus/pci/devices" / A / "config").write_bytes(content)
    assert pci.is_lost(root, A) is lost


def test_memory_device_of_cxl(root: Path) -> None:
    assert pci.memdev(root, A) == ""
    (root / "sys/bus/pci/devices" / A / "mem3").mkdir()
    assert pci.memdev(root, A) == "mem3"


@pytest.mark.parametrize(("pci_class", "serial", "uuid"), [
    ("0x050210", "0x1a2b3c\n", "0x1a2b3c"), ("0x050210", "0x0\n", None), ("0x050210", None, None),
    ("0x030200", "0x1a2b3c\n", None)])
def test_cxl_memory_is_known_by_its_serial_number(root: Path, pci_class: str, serial: str | None,
                                                  uuid: str | None) -> None:
    folder = root / "sys/bus/pci/devices" / A
    (folder / "class").write_text(f"{pci_class}\n")
    shutil.rmtree(root / "proc", ignore_errors=True)
    assert pci.need(root, A).uuid is None
    (folder / "mem0").mkdir()
    if serial is not None:
        (folder / "mem0/serial").write_text(serial)
    assert pci.need(root, A).uuid == uuid
    assert pci.find(root, "0x1a2b3c") == (pci.need(root, A) if uuid else None)
