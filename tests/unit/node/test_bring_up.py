# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device from its slot to its first use, on a made-up node: events, rescans, which one it is, and what goes wrong."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node.bring_up import bring_up
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, Link, NodeTrouble, moment
from ansible_collections.composable.infra.plugins.module_utils.node.host import Output
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted
from ansible_collections.composable.infra.tests.unit.node.fake_node import (
    NO_ROOM,
    PORT_A,
    PORT_B,
    QUICK,
    A,
    B,
    C,
    Card,
    FakeNode,
    Notes,
    steps,
)
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import wanted

TOUCH = "nvidia-smi --query-gpu=uuid,pci.bus_id --format=csv,noheader"
BIND = [f"devices/{A}/driver_override nvidia", f"drivers_probe {A}"]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    return FakeNode(tmp_path, monkeypatch)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def failure(node: FakeNode, notes: Notes, options: Options = QUICK, of: Wanted | None = None) -> tuple[str, str]:
    """Reason and message of the trouble; what was noted last says the same."""
    with pytest.raises(NodeTrouble) as caught:
        bring_up(node.host, of or wanted(), options, notes)
    trouble = notes.last.trouble
    assert trouble
    assert (trouble.reason, trouble.message) == (caught.value.reason, caught.value.message)
    return caught.value.reason, caught.value.message


def test_device_that_comes_by_itself(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a", {"numa_node": "1", "current_link_width": "16", "max_link_width": "16"}))
    found = bring_up(node.host, wanted(), QUICK, notes)
    assert node.did == [*BIND, TOUCH]
    assert (found.phase, found.device, found.uuid, found.address) == ("Preparing", "cdi-1", "GPU-a", A)
    assert (found.numa_node, found.link, found.trouble, found.by) == (1, Link(16, 16), None, "agent")
    assert steps(found) == ["OnBus", "Bound", "Touched"]
    assert [steps(e) for e in notes.all] == [["OnBus"], ["OnBus", "Bound"], ["OnBus", "Bound", "Touched"]]
    assert found == notes.last


def test_device_that_was_used_before_the_last_boot_only_begins_with_new_steps(node: FakeNode, notes: Notes) -> None:
    """Its files are gone, and a plugin that looked meanwhile knows none."""
    before = node.ready(A, "GPU-a").with_step("Announced", 2.0)
    again = replace(before, device="cdi-1")
    assert bring_up(node.host, wanted(before=again), QUICK, notes) == again, "it has its files"
    (node.root / "dev/nvidia0").unlink()
    found = bring_up(node.host, wanted(before=again), replace(QUICK, clock=lambda: 9.0), notes)
    assert (found.phase, steps(found)) == ("Preparing", ["OnBus", "Bound", "Touched"])
    assert {step.at for step in found.steps} == {moment(9.0)}


def test_ports_are_looked_at_when_no_event_comes(node: FakeNode, notes: Notes) -> None:
    node.behind[PORT_B] = [Card(A, "GPU-a")]
    assert bring_up(node.host, wanted(), QUICK, notes).address == A
    assert node.did == [f"devices/{PORT_A}/rescan 1", f"devices/{PORT_B}/rescan 1", *BIND, TOUCH]


def test_only_the_named_ports_are_looked_at(node: FakeNode, notes: Notes) -> None:
    node.behind[PORT_B] = [Card(A, "GPU-a")]
    bring_up(node.host, wanted(), replace(QUICK, ports=(PORT_B,)), notes)
    assert node.did[0] == f"devices/{PORT_B}/rescan 1"


def test_whole_bus_only_when_told(node: FakeNode, notes: Notes) -> None:
    node.behind[PORT_B] = [Card(A, "GPU-a")]
    bring_up(node.host, wanted(), replace(QUICK, rescan="bus"), notes)
    assert node.did[0] == "rescan 1"


def test_never_means_never(node: FakeNode, notes: Notes) -> None:
    node.behind[PORT_B] = [Card(A, "GPU-a")]
    reason, message = failure(node, notes, replace(QUICK, rescan="never"))
    assert (reason, node.did) == ("NotOnBus", [])
    assert "rescan is never" in message


def test_device_that_does_not_come(node: FakeNode, notes: Notes) -> None:
    reason, message = failure(node, notes)
    assert reason == "NotOnBus"
    assert message == (f"the device is not on the node's bus 0.3 s after it was attached. The ports {PORT_A}, {PORT_B} "
                       "were searched. Check its cable and the fabric's port, or set rescan to bus")
    assert steps(notes.last) == []


def test_without_patience_it_only_looks(node: FakeNode, notes: Notes) -> None:
    at_once = replace(QUICK, event_patience=0.0, search_patience=0.0, rescan="never")
    assert failure(node, notes, at_once)[0] == "NotOnBus"
    node.come(Card(A, "GPU-a"))
    assert bring_up(node.host, wanted(), at_once, notes).address == A


def test_without_a_uuid_it_is_the_new_one(node: FakeNode, notes: Notes) -> None:
    node.ready(A, "GPU-a")
    node.come(Card(B, "GPU-b"))
    found = bring_up(node.host, wanted("", A), QUICK, notes)
    assert (found.address, found.uuid) == (B, "GPU-b")


def test_device_of_another_is_not_taken(node: FakeNode, notes: Notes) -> None:
    node.ready(A, "GPU-a")
    assert failure(node, notes, of=wanted("", "GPU-a"))[0] == "NotOnBus"


def test_uuid_decides_between_several(node: FakeNode, notes: Notes) -> None:
    for address, uuid in ((A, "GPU-a"), (B, "GPU-b"), (C, "GPU-c")):
        node.come(Card(address, uuid))
    found = bring_up(node.host, wanted("GPU-b"), QUICK, notes)
    assert (found.address, found.uuid, steps(found)) == (B, "GPU-b", ["OnBus", "Bound", "Touched"])


def test_address_decides_where_it_is_told(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    node.come(Card(B, "GPU-b"))
    assert bring_up(node.host, Wanted("cdi-1", address=B), QUICK, notes).uuid == "GPU-b"


def test_display_of_the_board_is_no_candidate(node: FakeNode, notes: Notes) -> None:
    node.come(Card("0000:03:00.0", "", {"vendor": "0x1a03"}, "0x030000"))
    assert failure(node, notes)[0] == "NotOnBus"
    assert not any("drivers_probe" in what for what in node.did)


def test_broken_neighbour_is_passed_over(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-x", broken="touch"))
    node.come(Card(B, "GPU-b"))
    assert bring_up(node.host, wanted("GPU-b"), QUICK, notes).address == B


def test_driver_that_took_it_by_itself_is_not_asked(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"), "nvidia")
    bring_up(node.host, wanted(), QUICK, notes)
    assert node.did == [TOUCH]


def test_again_does_nothing_but_look(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    once = bring_up(node.host, wanted(), QUICK, notes)
    node.did.clear()
    later = replace(QUICK, clock=lambda: 99.0)
    assert bring_up(node.host, wanted(before=once), later, notes) == once
    assert node.did == [TOUCH]


def test_ready_stays_ready(node: FakeNode, notes: Notes) -> None:
    before = replace(node.ready(A, "GPU-a"), device="cdi-1")
    assert bring_up(node.host, wanted(before=before), QUICK, notes).phase == "Ready"


@pytest.mark.parametrize(("device", "phase"), [("cdi-0", "Ready"), ("cdi-1", "Removed")])
def test_evidence_of_another_life_is_dropped(node: FakeNode, notes: Notes, device: str, phase: str) -> None:
    before = replace(node.ready(A, "GPU-a"), device=device, phase=phase)
    found = bring_up(node.host, wanted(before=before), QUICK, notes)
    assert (found.phase, found.device, found.steps[0].at) == ("Preparing", "cdi-1", "1970-01-01T00:00:02.000000Z")


def test_modules_are_loaded_before_the_first_bind(node: FakeNode, notes: Notes) -> None:
    (node.root / "sys/module/nvidia_uvm").rmdir()
    node.come(Card(A, "GPU-a"))
    bring_up(node.host, wanted(), QUICK, notes)
    assert node.did == ["modprobe -a nvidia nvidia_uvm", *BIND, TOUCH]


def test_no_room_for_the_windows(node: FakeNode, notes: Notes) -> None:
    node.log(f"pci {A}: BAR 1: no space for [mem size 0x1000000000 64bit pref]")
    node.come(Card(A, "GPU-a", {"resource": NO_ROOM}))
    reason, message = failure(node, notes)
    assert reason == "NoRoomForBars"
    assert message.startswith(f"{A} got no address for its memory windows (BAR 0): pci {A}: BAR 1: no space for")
    assert (steps(notes.last), notes.last.address) == (["OnBus"], A)
    assert TOUCH not in node.did


def test_narrow_link_is_told_and_the_device_goes_on(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a", {"current_link_width": "4", "max_link_width": "16"}))
    found = bring_up(node.host, wanted(), QUICK, notes)
    assert steps(found) == ["OnBus", "Bound", "Touched"]
    assert found.trouble
    assert (found.trouble.reason, found.trouble.message) == (
        "LinkDegraded", f"the link of {A} has 4 lanes of 16. Reseat the device or its cable")
    (node.entry(A) / "current_link_width").write_text("16", encoding="utf-8")
    assert bring_up(node.host, wanted(before=found), QUICK, notes).trouble is None


def test_driver_that_does_not_bind(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a", broken="bind"))
    reason, message = failure(node, notes)
    assert (reason, steps(notes.last)) == ("DriverNotBound", ["OnBus"])
    assert message == f"{A}: bind driver nvidia: the kernel did not bind it. See the node's kernel log"


def test_words_of_the_driver_that_does_not_bind(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a", broken="bind"))
    line = f"nvidia: probe of {A} failed with error -1"
    node.before = lambda what: node.log(line) if what.startswith("drivers_probe") else None
    assert failure(node, notes) == ("DriverNotBound", f"{A}: bind driver nvidia: {line}. See the node's kernel log")


def test_driver_that_binds_at_a_second_attempt_is_in_order(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    node.before = lambda what: node.log(f"nvidia: probe of {A} failed with error -1")
    assert steps(bring_up(node.host, wanted(), QUICK, notes)) == ["OnBus", "Bound", "Touched"]


def test_other_driver_keeps_the_device(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"), "nouveau")
    reason, message = failure(node, notes)
    assert (reason, message) == ("DriverNotBound", f"{A} is bound to nouveau and not to nvidia. Prevent nouveau from "
                                                   "loading on the node")


def test_driver_that_cannot_start_the_device(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a", broken="touch"))
    reason, message = failure(node, notes)
    assert (reason, steps(notes.last)) == ("DriverFailed", ["OnBus", "Bound"])
    assert "RmInitAdapter failed! (0x26:0x56:1474)" in message


def test_xid_during_the_first_use(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    node.log("NVRM: Xid (PCI:0000:10:00): 13, of long ago")
    node.before = lambda what: node.log("NVRM: Xid (PCI:0000:10:00): 119, Timeout") if what == TOUCH else None
    reason, message = failure(node, notes)
    assert reason == "DriverFailed"
    assert "119" in message
    assert "long ago" not in message


@pytest.mark.parametrize("how", ["Xid 79", "all ones", "off the bus"])
def test_device_that_falls_off_the_bus(node: FakeNode, notes: Notes, how: str) -> None:
    node.come(Card(A, "GPU-a"))

    def lose(what: str) -> None:
        if what == TOUCH:
            node.cards[A].broken = "touch"
            if how == "off the bus":
                shutil.rmtree(node.entry(A))
            else:
                (node.entry(A) / "config").write_bytes(b"\xff" * 64)
            if how == "Xid 79":
                node.log("NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus.")

    node.before = lose
    reason, message = failure(node, notes)
    assert reason == "LostOnBus"
    assert message.startswith(f"{A} has fallen off the bus")


def test_xid_79_of_a_device_that_answers_is_not_believed(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    (node.entry(A) / "config").write_bytes(b"\xde\x10\x30\x23")
    node.before = lambda what: node.log("NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus.")
    assert steps(bring_up(node.host, wanted(), QUICK, notes)) == ["OnBus", "Bound", "Touched"]


def test_device_that_answers_and_fails_with_xid_79_is_not_lost(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a", broken="touch"))
    node.before = lambda what: node.log("NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus.")
    assert failure(node, notes)[0] == "DriverFailed"


def test_tool_that_fails_for_another_device_only(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    node.answers[TOUCH] = Output(15, f"GPU-a, 0000{A}\n[Unknown Error], 0000{B}\n", "Unable to determine the handle")
    assert bring_up(node.host, wanted(), QUICK, notes).uuid == "GPU-a"


def test_tool_that_does_not_know_it(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    node.answers[TOUCH] = Output(0, f"[Unknown Error], 0000{A}\n", "")
    assert failure(node, notes)[0] == "DriverFailed"


def test_bus_that_cannot_be_read(node: FakeNode, notes: Notes) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    assert failure(node, notes)[0] == "NotProven"


@pytest.mark.parametrize(("pci_class", "vendor", "driver"), [("0x120000", "0x1da3", "vfio-pci"),
                                                             ("0x050210", "0x1c2c", "cxl_pci")])
def test_vendor_without_a_plugin_is_ready_at_once(node: FakeNode, notes: Notes, pci_class: str, vendor: str,
                                                  driver: str) -> None:
    node.come(Card(A, "", {"vendor": vendor}, pci_class))
    found = bring_up(node.host, wanted(""), QUICK, notes)
    assert (found.phase, steps(found)) == ("Ready", ["OnBus", "Bound", "Touched"])
    assert str((node.entry(A) / "driver").readlink()).endswith(driver)


def test_cxl_memory_is_told_by_the_serial_number_that_its_driver_shows(node: FakeNode, notes: Notes) -> None:
    for address, serial in ((A, "0x1"), (B, "0x2")):
        node.come(Card(address, "", {"vendor": "0x1c2c"}, "0x050210"), "cxl_pci")
        (node.entry(address) / "mem0").mkdir()
        (node.entry(address) / "mem0/serial").write_text(f"{serial}\n")
    found = bring_up(node.host, wanted("0x2"), QUICK, notes)
    assert (found.phase, found.address, found.uuid) == ("Ready", B, "0x2")


def test_cxl_memory_tells_its_serial_number_once_its_driver_is_bound(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "", {"vendor": "0x1c2c"}, "0x050210"))

    def show() -> None:
        if (node.entry(A) / "driver").is_symlink() and not (node.entry(A) / "mem0").exists():
            (node.entry(A) / "mem0").mkdir()
            (node.entry(A) / "mem0/serial").write_text("0x2\n")

    def noted(evidence: Evidence) -> None:
        show()
        notes(evidence)

    found = bring_up(node.host, wanted("0x2"), QUICK, noted)
    assert (found.phase, found.uuid) == ("Ready", "0x2")


def test_driver_can_be_chosen(node: FakeNode, notes: Notes) -> None:
    node.come(Card(A, "GPU-a"))
    found = bring_up(node.host, wanted(""), replace(QUICK, driver="vfio-pci"), notes)
    assert (found.uuid, TOUCH in node.did) == ("", False)
