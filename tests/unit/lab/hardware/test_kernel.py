# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated kernel: what comes onto the bus and goes, who has a device, and what is refused, hangs or is lost."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.hardware.node.bus import port_address
from ansible_collections.composable.infra.plugins.module_utils.node import bus
from ansible_collections.composable.infra.plugins.module_utils.node.pci import is_lost
from ansible_collections.composable.infra.tests.unit.lab.hardware.conftest import Bench

FIRST, SECOND = "0000:10:00.0", "0000:11:00.0"


def test_plugged_device_is_on_the_bus_below_its_port_and_bound(bench: Bench) -> None:
    bench.plug("a")
    device = bench.devices()["a"]
    folder = (bench.root / "sys/bus/pci/devices" / FIRST).resolve()
    assert (device.address, device.driver, device.minor, device.touched) == (FIRST, "nvidia", 0, False)
    assert folder.parent.name == port_address(0)
    assert bench.sysfs(port_address(0), "class") == "0x060400"
    assert (folder / "driver").resolve() == (bench.root / "sys/bus/pci/drivers/nvidia").resolve()
    assert (bench.root / "sys/bus/pci/drivers/nvidia" / FIRST).resolve() == folder
    assert (bench.sysfs(FIRST, "vendor"), bench.sysfs(FIRST, "class")) == ("0x10de", "0x030200")
    assert not (folder / "uuid").exists(), "only the driver can read a UUID"


def test_another_kind_of_device_has_the_class_and_driver_of_its_model_and_a_render_node(bench: Bench) -> None:
    other = {"vendor_id": "1234", "attributes": {"pci_class": "120000", "driver": "example"}}
    bench.kernel.plug([PluggedDevice("uid-a", "A", "Example", other)])
    assert (bench.sysfs(FIRST, "vendor"), bench.sysfs(FIRST, "class")) == ("0x1234", "0x120000")
    folder = (bench.root / "sys/bus/pci/devices" / FIRST).resolve()
    assert (folder / "driver").resolve().name == "example"
    assert [path.name for path in (folder / "drm").iterdir()] == ["renderD128"]
    assert (bench.root / "dev/dri/renderD128").exists()
    assert not (bench.root / "proc/driver/nvidia/gpus" / FIRST).exists()
    bench.kernel.remove(FIRST)
    assert not (bench.root / "dev/dri/renderD128").exists()
    assert list((bench.root / "sys/bus/pci/drivers/example").iterdir()) == []


def test_cxl_memory_has_a_memory_device_with_its_serial_number(bench: Bench) -> None:
    memory = {"vendor_id": "1234", "attributes": {"pci_class": "050210", "driver": "cxl_pci"}}
    bench.kernel.plug([PluggedDevice("uid-a", "0x1a2b", "Example", memory)])
    assert (bench.sysfs(FIRST, "class"), bench.sysfs(FIRST, "mem0/serial")) == ("0x050210", "0x1a2b")
    assert (bench.root / "dev/cxl/mem0").exists()
    assert not (bench.root / "sys/bus/pci/devices" / FIRST / "drm").exists()
    bench.kernel.unbind(FIRST)
    assert not (bench.root / "sys/bus/pci/devices" / FIRST / "mem0").exists()
    assert not (bench.root / "dev/cxl/mem0").exists()


def test_a_bound_device_has_no_file_in_dev_and_no_uuid_before_its_first_use(bench: Bench) -> None:
    bench.plug("a")
    information = (bench.root / "proc/driver/nvidia/gpus" / FIRST / "information").read_text(encoding="utf-8")
    assert "GPU UUID: \t GPU-????????-????-????-????-????????????\n" in information
    assert "Device Minor: \t 0\n" in information
    assert bench.dev() == []


def test_control_file_is_there_before_the_device_can_be_seen(bench: Bench) -> None:
    bench.plug("a")
    assert bench.offered == [(FIRST, False)]


def test_links_lead_to_the_same_place_from_within_the_node(bench: Bench) -> None:
    bench.plug("a")
    links = [path for path in bench.root.rglob("*") if path.is_symlink()]
    assert links
    assert not [path for path in links if path.readlink().is_absolute()]


def test_unplugged_and_unbound_device_leaves_no_trace(bench: Bench) -> None:
    bench.fault(faults.NO_PROBE)
    bench.plug("a", "b")
    bench.plug("b")
    assert list(bench.devices()) == ["b"]
    assert not (bench.root / "sys/bus/pci/devices" / FIRST).is_symlink()
    assert bench.lost == []


def test_slots_and_minors_are_used_again_but_never_shared(bench: Bench) -> None:
    bench.plug("a", "b")
    bench.kernel.remove(FIRST)
    bench.plug("b", "c")
    assert {name: (d.address, d.minor) for name, d in bench.devices().items()} == {"b": (SECOND, 1), "c": (FIRST, 0)}


def test_more_devices_than_ports_find_a_port(bench: Bench) -> None:
    bench.plug(*"abcdef")
    assert len({device.address for device in bench.devices().values()}) == 6


def test_removed_device_comes_back_by_a_rescan_of_its_own_port_only(bench: Bench) -> None:
    bench.plug("a")
    assert bench.kernel.remove(FIRST)
    bench.plug("a")
    assert bench.kernel.rescan(port_address(1))
    assert bench.devices() == {}
    assert bench.kernel.rescan(port_address(0))
    assert list(bench.devices()) == ["a"]


def test_without_events_only_a_rescan_finds_a_device(bench: Bench) -> None:
    bench.fault(faults.NO_EVENT)
    bench.plug("a")
    assert bench.devices() == {}
    bench.kernel.rescan()
    assert list(bench.devices()) == ["a"]


def test_a_node_without_events_for_all_devices(tmp_path: Path) -> None:
    quiet = Bench(tmp_path / "quiet", events=False)
    quiet.plug("a")
    assert quiet.devices() == {}


def test_driver_is_bound_by_probe_or_bind_where_it_is_not_by_itself(bench: Bench) -> None:
    (bench.root / "sys/bus/pci/drivers_autoprobe").write_text("0\n", encoding="utf-8")
    bench.plug("a", "b")
    assert [device.driver for device in bench.devices().values()] == ["", ""]
    bench.kernel.probe(FIRST)
    bench.kernel.bind(SECOND)
    assert [device.driver for device in bench.devices().values()] == ["nvidia", "nvidia"]


def test_override_keeps_the_driver_away(bench: Bench) -> None:
    bench.fault(faults.NO_PROBE)
    bench.plug("a")
    bench.write(FIRST, "driver_override", "vfio-pci")
    bench.kernel.probe(FIRST)
    assert bench.devices()["a"].driver == ""
    bench.write(FIRST, "driver_override", "nvidia")
    bench.kernel.probe(FIRST)
    assert bench.devices()["a"].driver == "nvidia"


def test_other_vendors_device_gets_no_driver(bench: Bench) -> None:
    bench.kernel.plug([PluggedDevice("uid-x", "x", "Other", {"vendor_id": "1002", "device_id": "74a1"})])
    assert bench.devices()["x"].driver == ""
    assert bench.sysfs(FIRST, "device") == "0x74a1"


def test_unbound_device_shows_nothing_of_its_driver(bench: Bench) -> None:
    bench.plug("a")
    bench.kernel.unbind(FIRST)
    assert not (bench.root / "sys/bus/pci/devices" / FIRST / "driver").is_symlink()
    assert list((bench.root / "proc/driver/nvidia/gpus").iterdir()) == []
    assert bench.devices()["a"].minor == -1


def test_open_device_is_not_unbound(bench: Bench) -> None:
    bench.plug("a")
    bench.open(0)
    bench.kernel.unbind(FIRST)
    assert bench.devices()["a"].driver == "nvidia"
    assert bench.said("non-zero usage count")


def test_driver_that_refuses_says_so_in_the_log(bench: Bench) -> None:
    bench.fault(faults.NO_BIND)
    bench.plug("a")
    assert bench.devices()["a"].driver == ""
    assert bench.said(f"nvidia: probe of {FIRST} failed")


def test_bars_without_room_have_a_size_and_no_address(bench: Bench) -> None:
    bench.fault(faults.NO_ROOM)
    bench.plug("a")
    start, end, flags = (int(word, 16) for word in bench.sysfs(FIRST, "resource").splitlines()[1].split())
    assert (start, end + 1) == (0, 128 << 30)
    assert flags
    assert bench.said("BAR 1: no space for")
    assert bench.said("BAR 1: failed to assign")
    assert bench.devices()["a"].driver == ""


def test_bars_of_two_devices_do_not_overlap(bench: Bench) -> None:
    bench.plug("a", "b")
    ranges = sorted((int(line.split()[0], 16), int(line.split()[1], 16)) for address in (FIRST, SECOND)
                    for line in bench.sysfs(address, "resource").splitlines() if int(line.split()[2], 16))
    assert len(ranges) == 6
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


@pytest.mark.parametrize(("on", "width"), [(False, "16"), (True, "4")])
def test_link_is_as_wide_as_it_should_be_or_narrow(bench: Bench, on: bool, width: str) -> None:
    bench.fault(faults.NARROW_LINK, on)
    bench.plug("a")
    assert (bench.sysfs(FIRST, "current_link_width"), bench.sysfs(FIRST, "max_link_width")) == (width, "16")


@pytest.mark.parametrize("reason", ["open", "persistence", "fault"])
def test_removal_of_a_device_in_use_hangs_until_it_is_free(bench: Bench, reason: str) -> None:
    bench.plug("a")
    if reason == "fault":
        bench.fault(faults.REMOVAL_HANGS)
    elif reason == "open":
        handle = bench.open(0)
    else:
        set_persistence(bench, "a", True)
    assert not bench.kernel.remove(FIRST)
    assert not bench.kernel.remove(FIRST)
    assert len(bench.said("non-zero usage count")) == 1
    if reason == "fault":
        bench.fault(faults.REMOVAL_HANGS, on=False)
    elif reason == "open":
        handle.unlink()
    else:
        set_persistence(bench, "a", False)
    assert bench.kernel.remove(FIRST)
    assert bench.devices() == {}


def test_a_removal_that_hangs_has_a_process_until_it_ends(bench: Bench) -> None:
    """Also when the program that began it was killed: a kernel's writer cannot be."""
    bench.plug("a")
    handle = bench.open(0)
    bench.kernel.remove(FIRST)
    assert bus.removing(bench.root, FIRST)
    assert not bus.removing(bench.root, SECOND)
    handle.unlink()
    bench.kernel.remove(FIRST)
    assert not bus.removing(bench.root, FIRST)


def test_a_process_that_ends_while_it_is_looked_at_holds_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.plug("a")
    handle, read = bench.open(0), os.readlink

    def closed_meanwhile(path: Path) -> str:
        handle.unlink(missing_ok=True)
        return read(path)

    monkeypatch.setattr(os, "readlink", closed_meanwhile)
    assert bench.kernel.remove(FIRST)


def set_persistence(bench: Bench, name: str, on: bool) -> None:
    """What `nvidia-smi -pm` changes."""
    bench.kernel.records.save(bench.devices()[name].but(persistence=on))


def test_bus_is_locked_while_a_removal_hangs(bench: Bench) -> None:
    bench.plug("a", "b")
    handle = bench.open(0)
    assert not bench.kernel.remove(FIRST)
    assert not bench.kernel.rescan()
    assert not bench.kernel.remove(SECOND)
    bench.plug("a", "b", "c")
    assert set(bench.devices()) == {"a", "b"}
    handle.unlink()
    assert bench.kernel.remove(FIRST)
    bench.kernel.notice()
    assert set(bench.devices()) == {"b", "c"}


def test_pulled_device_with_a_driver_is_lost_and_stays_as_a_dead_one(bench: Bench) -> None:
    bench.plug("a", "b")
    bench.plug("b")
    assert bench.devices()["a"].lost
    assert bench.said("Xid (PCI:0000:10:00): 79")
    assert bench.lost == ["lost"]
    assert bench.sysfs(FIRST, "current_link_width") == "0"
    assert [is_lost(bench.root, each) for each in (FIRST, SECOND)] == [True, False]
    bench.plug("b")
    assert len(bench.said("Xid")) == 1


def test_lost_device_goes_by_removal_and_its_slot_is_free_only_then(bench: Bench) -> None:
    bench.plug("a")
    bench.plug()
    bench.plug("a")
    assert [d.address for d in bench.kernel.records.devices()] == [FIRST, SECOND]
    assert bench.kernel.remove(FIRST)
    bench.plug("a", "c")
    assert bench.devices()["c"].address == FIRST


def test_kernel_log_has_the_form_of_kmsg(bench: Bench) -> None:
    bench.plug("a")
    lines = (bench.root / "dev/kmsg").read_text(encoding="utf-8").splitlines()
    priority, number, moment, rest = lines[0].split(",", 3)
    assert (priority, number, rest) == ("6", "0", f"-;pci {FIRST}: [10de:2330] type 00 class 0x030200")
    assert moment.isdecimal()


def test_restarted_simulator_knows_what_is_there_and_what_was_removed(bench: Bench) -> None:
    bench.plug("a", "b")
    bench.kernel.remove(FIRST)
    before = bench.devices()
    bench.kernel = bench.boot()
    bench.plug("a", "b", "c")
    assert bench.devices().keys() == {"b", "c"}
    assert bench.devices()["b"] == before["b"]


def test_device_pulled_while_the_simulator_was_away_is_lost(bench: Bench) -> None:
    bench.plug("a")
    bench.kernel = bench.boot()
    bench.plug()
    assert bench.devices()["a"].lost


def test_folder_says_that_it_is_a_stand_in(bench: Bench) -> None:
    assert (bench.root / ".simulated-node").read_text(encoding="utf-8").startswith("A stand-in: ")
