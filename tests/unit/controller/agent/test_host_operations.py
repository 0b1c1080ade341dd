# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node operations on a made-up node."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.host_operations import FEATURES, HostOperations
from ansible_collections.composable.infra.controller.agent.node_operations import NotThereYet
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    BOUND,
    DRIVER_FAILED,
    NOT_PROVEN,
    ON_BUS,
    PREPARING,
    REMOVED,
    TOUCHED,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted
from ansible_collections.composable.infra.tests.unit.node.fake_node import (
    PORT_A,
    PORT_B,
    A,
    B,
    C,
    Card,
    FakeNode,
)

START = Evidence(PREPARING, "dev-1")
NOBODY: frozenset[str] = frozenset()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    return FakeNode(tmp_path, monkeypatch)


def operations_of(node: FakeNode, **options: t.Any) -> HostOperations:
    return HostOperations(node.host, Options(event_patience=0.05, search_patience=0.3, patience=0.3, **options))


def test_brought_up_by_its_uuid(node: FakeNode) -> None:
    operations, noted = operations_of(node), list[Evidence]()
    with pytest.raises(NotThereYet):
        operations.bring_up(Wanted("dev-1", "GPU-a", before=START), noted.append)
    node.come(Card(A, "GPU-a"))
    done = operations.bring_up(Wanted("dev-1", "GPU-a", before=START), noted.append)
    assert [step.step for step in done.steps] == [ON_BUS, BOUND, TOUCHED]
    assert (done.uuid, done.address, done.by, done.phase) == ("GPU-a", A, "agent", PREPARING)
    assert noted[-1] == done
    assert operations.on_bus(done)
    assert operations.was_used(done)
    (node.root / "dev/nvidia0").unlink()
    assert not operations.was_used(done), "as after a boot"
    assert not operations.was_used(START)
    assert operations.uuids() == frozenset({"GPU-a"})
    plugin = operations.plugin(done)
    assert plugin is not None
    assert plugin.driver == "gpu.nvidia.com"
    chart = {"app.kubernetes.io/name": "dra-driver-nvidia-gpu", "pod-template-generation": "1"}
    assert plugin.owns({**chart, "dra-driver-nvidia-gpu-component": "kubelet-plugin"})
    assert not plugin.owns({**chart, "dra-driver-nvidia-gpu-component": "controller"})


def test_no_plugin_is_told_of_devices_that_the_own_driver_offers(node: FakeNode) -> None:
    node.come(Card(A, "GPU-a"))
    seen = Evidence(PREPARING, "dev-1", uuid="GPU-a", address=A)
    own, others = (HostOperations(node.host, Options(), kinds) for kinds in (("nvidia", "generic-pci"), ("amd",)))
    assert own.is_own(seen)
    assert own.plugin(seen) is None
    assert "gpu.nvidia.com" not in {plugin.driver for plugin in own.plugins()}
    assert not others.is_own(seen)
    assert others.plugin(seen) is not None
    assert {plugin.driver for plugin in others.plugins()} == {"gpu.nvidia.com", "gpu.intel.com"}


def test_while_the_node_has_another_driver_its_plugin_is_told(node: FakeNode) -> None:
    node.come(Card(A, "GPU-a"))
    seen, mine = Evidence(PREPARING, "dev-1", uuid="GPU-a", address=A), [False]
    operations = HostOperations(node.host, Options(), ("nvidia",), lambda: mine[0])
    assert not operations.is_own(seen)
    assert (plugin := operations.plugin(seen)) is not None
    assert plugin in operations.plugins()
    mine[0] = True
    assert operations.is_own(seen)
    assert operations.plugin(seen) is None


def test_another_that_comes_first_is_not_waited_out(node: FakeNode) -> None:
    operations, noted = operations_of(node), list[Evidence]()
    node.come(Card(A, "GPU-b"))
    with pytest.raises(NotThereYet):
        operations.bring_up(Wanted("dev-1", "GPU-a", before=START), noted.append)
    assert noted[-1] == START, "what was noted about another device is taken back"
    with pytest.raises(NotThereYet):
        operations.bring_up(Wanted("dev-1", "GPU-a", before=START), noted.append)
    node.come(Card(B, "GPU-a"))
    assert operations.bring_up(Wanted("dev-1", "GPU-a", before=START), noted.append).address == B
    assert operations.bring_up(Wanted("dev-2", "GPU-b"), noted.append).address == A


def die(node: FakeNode, address: str) -> None:
    """The fabric has pulled the device: its configuration reads as all ones."""
    (node.entry(address) / "config").write_bytes(b"\xff" * 64)


def test_a_dead_device_is_not_taken_for_the_new_one(node: FakeNode) -> None:
    operations, noted = operations_of(node), list[Evidence]()
    operations.take_stock()
    node.come(Card(A, "GPU-old"))
    die(node, A)
    node.come(Card(B, "GPU-a"))
    done = operations.bring_up(Wanted("dev-1", before=START), noted.append)
    assert done.address == B
    assert {each.address for each in noted} <= {"", B}


def test_dead_devices_of_nobody_are_cleared_away(node: FakeNode) -> None:
    """Not that of a ComposableResource, whose release does it, nor one that the node itself has."""
    node.come(Card(A, "GPU-own"), "nvidia")
    operations = operations_of(node)
    operations.take_stock()
    node.ready(B, "GPU-b")
    node.ready(C, "GPU-c")
    for address in (A, B, C):
        die(node, address)
    assert operations.clear_dead(frozenset({C})) == []
    assert [address for address in (A, B, C) if node.entry(address).exists()] == [A, C]


def test_a_dead_device_that_is_open_stays_and_is_told(node: FakeNode) -> None:
    operations = operations_of(node)
    operations.take_stock()
    node.ready(A, "GPU-a")
    node.hold(0)
    die(node, A)
    trouble, = operations.clear_dead(NOBODY)
    assert trouble.reason == "OpenOnNode"
    assert node.entry(A).exists()


def test_a_first_touch_that_fails_is_told_as_such(node: FakeNode) -> None:
    node.come(Card(A, "GPU-a", broken="touch"))
    with pytest.raises(NodeTrouble, match="RmInitAdapter failed") as failed:
        operations_of(node).bring_up(Wanted("dev-1", "GPU-a", before=START), lambda evidence: None)
    assert failed.value.reason == DRIVER_FAILED


def test_a_display_of_the_board_is_nobodys_gpu(node: FakeNode) -> None:
    node.come(Card(C, "", files={"vendor": "0x1a03"}, pci_class="0x030000"))
    with pytest.raises(NotThereYet):
        operations_of(node).bring_up(Wanted("dev-1", "GPU-a", before=START), lambda evidence: None)


def test_without_a_uuid_it_is_the_one_that_is_new(node: FakeNode) -> None:
    node.come(Card(A, "GPU-a"), "nvidia")
    operations_of(node).take_stock()
    node.come(Card(B, "GPU-b"))
    later = operations_of(node)
    assert later.bring_up(Wanted("dev-1", before=START), lambda evidence: None).address == B
    others = frozenset({B, "GPU-b"})
    with pytest.raises(NotThereYet):
        later.bring_up(Wanted("dev-2", "", others), lambda evidence: None)


def test_room_behind_the_named_ports_is_told(node: FakeNode) -> None:
    window = "0x0000010000000000 0x0000013fffffffff 0x0000000000102201"
    for port in (PORT_A, PORT_B):
        lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 14
        (node.host.root / "sys/bus/pci/devices" / port / "resource").write_text("\n".join([*lines, window]) + "\n")
    assert operations_of(node, ports=(PORT_A, PORT_B)).places().get("barRoom") == 512 << 30
    assert operations_of(node, ports=(PORT_A,)).places().get("barRoom") == 256 << 30
    assert "barRoom" not in operations_of(node).places()


@pytest.mark.parametrize(("options", "did"), [
    ({}, [f"devices/{PORT_A}/rescan 1", f"devices/{PORT_B}/rescan 1"]),
    ({"ports": (PORT_B,)}, [f"devices/{PORT_B}/rescan 1"]),
    ({"rescan": "bus"}, ["rescan 1"]),
    ({"rescan": "never"}, [])])
def test_looks_only_where_it_may(node: FakeNode, options: dict[str, object], did: list[str]) -> None:
    operations = operations_of(node, **options)
    operations.look_for_devices()
    assert node.did == did
    assert "the device is not on the node's bus 0.3 s after it was attached" in operations.not_found()


def test_released_and_gone(node: FakeNode) -> None:
    evidence = node.ready(A, "GPU-a")
    operations = operations_of(node)
    assert operations.on_bus(evidence)
    done = operations.release(evidence, NOBODY, lambda evidence: None, lambda: "")
    assert done.phase == REMOVED
    assert not operations.on_bus(evidence)
    assert operations.uuids() == NOBODY


def test_a_claim_keeps_it_usable(node: FakeNode) -> None:
    evidence = node.ready(A, "GPU-a")
    operations = operations_of(node)
    with pytest.raises(NodeTrouble, match="claim team/c uses the device"):
        operations.release(evidence, NOBODY, lambda evidence: None, lambda: "claim team/c uses the device")
    assert operations.on_bus(evidence)
    assert node.drained == set()


def test_a_device_without_driver_makes_the_uuids_no_proof(node: FakeNode) -> None:
    node.ready(A, "GPU-a")
    node.come(Card(B, "GPU-b"))
    assert operations_of(node).uuids() is None


def test_a_bus_that_cannot_be_read_is_no_empty_one(node: FakeNode) -> None:
    evidence = node.ready(A, "GPU-a")
    (node.root / "sys/bus/pci/devices").rename(node.root / "elsewhere")
    with pytest.raises(NodeTrouble) as trouble:
        operations_of(node).on_bus(evidence)
    assert trouble.value.reason == NOT_PROVEN
    assert operations_of(node).uuids() is None


def test_xids_since_the_start_are_told_once(node: FakeNode) -> None:
    evidence = node.ready(A, "GPU-a")
    node.log(f"NVRM: Xid (PCI:{A[:-2]}): 31, an old one")
    operations = operations_of(node)
    assert operations.on_bus(evidence)
    (node.entry(A) / "config").write_bytes(b"\xff" * 64)
    node.log(f"NVRM: Xid (PCI:{A[:-2]}): 79, pid=0, GPU has fallen off the bus.")
    node.log("usb 1-1: new high-speed USB device")
    told = operations.kernel_reports()
    assert [(report.xid, report.address) for report in told] == [(79, A)]
    assert "fallen off the bus" in told[0].line
    assert operations.kernel_reports() == []


def test_xid_79_counts_only_of_a_device_that_answers_no_more(node: FakeNode) -> None:
    evidence = node.ready(A, "GPU-a")
    (node.entry(A) / "config").write_bytes(b"\xde\x10\xf1\x20")
    operations = operations_of(node)
    assert operations.on_bus(evidence)
    node.log(f"NVRM: Xid (PCI:{A[:-2]}): 79, pid=0, GPU has fallen off the bus.")
    node.log(f"NVRM: Xid (PCI:{A[:-2]}): 48, pid=0, Double Bit ECC Error")
    assert [report.xid for report in operations.kernel_reports()] == [48]


def test_feature_discovery_is_told_where_it_is(node: FakeNode) -> None:
    operations = operations_of(node)
    operations.tell_feature_discovery()
    assert not (node.root / "etc").exists()
    (node.root / FEATURES).mkdir(parents=True)
    for cards, said in (([], ""), ([Card(A, "GPU-a"), Card("0000:11:00.0", "GPU-b")], "pci-10de.present=true\n")):
        for card in cards:
            node.come(card)
        operations.tell_feature_discovery()
        (file,) = (node.root / FEATURES).iterdir()
        assert not file.name.startswith(".")
        assert file.read_text(encoding="utf-8") == said
