# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in of cxl: memory goes offline unless a process has it open, and comes back."""

from __future__ import annotations

import os

import pytest

from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice, parse_state
from ansible_collections.composable.infra.lab.hardware.node import cxl
from ansible_collections.composable.infra.tests.unit.lab.hardware.conftest import Bench

FIRST = "0000:10:00.0"
MEMORY = {"vendor_id": "1234", "attributes": {"pci_class": "050210", "driver": "cxl_pci"}}


@pytest.fixture
def node(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A node with CXL memory."""
    monkeypatch.setenv("NODE_ROOT", str(bench.root))
    bench.kernel.plug([PluggedDevice("uid-a", "0x1a2b", "Example", MEMORY)])
    return bench


def draining(node: Bench) -> bool:
    """Whether the memory is offline."""
    device = node.kernel.records.device(FIRST)
    assert device is not None
    return device.draining


def test_memory_goes_offline_and_comes_back(node: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert cxl.main(["disable-memdev", "mem0"]) == 0
    assert "disabled 1 mem" in capsys.readouterr().err
    assert draining(node)
    assert cxl.main(["enable-memdev", "mem0"]) == 0
    assert not draining(node)


def test_memory_that_is_used_stays(node: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = node.root / "proc/77/fd"
    folder.mkdir(parents=True)
    os.symlink("/dev/cxl/mem0", folder / "3")
    assert cxl.main(["disable-memdev", "mem0"]) == 1
    assert "is part of an active region" in capsys.readouterr().err
    assert not draining(node)


@pytest.mark.parametrize(("arguments", "code"), [(["disable-memdev", "mem7"], 1), (["list"], 129), ([], 129)])
def test_what_it_does_not_know_is_refused(node: Bench, arguments: list[str], code: int) -> None:
    assert cxl.main(arguments) == code


@pytest.mark.parametrize(("kind", "properties", "there"), [
    ("gpu", {}, True), ("memory", MEMORY, True), ("memory", {}, False), ("memory", {"attributes": None}, False)])
def test_bus_shows_gpus_and_what_has_a_pci_class(kind: str, properties: dict[str, object], there: bool) -> None:
    device = {"uid": "u", "serial": "s", "model": "m", "kind": kind, "machine": "x", "state": "attached"}
    found = parse_state({"generation": 1, "devices": [device], "models": {"m": properties}})
    assert ("x" in found.machines) is there


def test_memory_is_sanitized_in_the_background(node: Bench) -> None:
    assert (node.sysfs(FIRST, "mem0/security/state"), node.sysfs(FIRST, "mem0/security/sanitize")) == ("disabled", "")
    assert node.kernel.sanitize(FIRST)
    assert node.sysfs(FIRST, "mem0/security/state") == "sanitize"
    assert not node.kernel.sanitize(FIRST), "one at a time"
    node.kernel.sanitizing[FIRST] = 0.0
    node.kernel.end_sanitizing()
    assert node.sysfs(FIRST, "mem0/security/state") == "disabled"
    assert len(node.said("Sanitization operation ended")) == 1


def test_memory_that_is_disabled_or_used_is_not_sanitized(node: Bench) -> None:
    assert cxl.main(["disable-memdev", "mem0"]) == 0
    assert not node.kernel.sanitize(FIRST)
    assert cxl.main(["enable-memdev", "mem0"]) == 0
    folder = node.root / "proc/77/fd"
    folder.mkdir(parents=True)
    os.symlink("/dev/cxl/mem0", folder / "3")
    assert not node.kernel.sanitize(FIRST)
    assert node.sysfs(FIRST, "mem0/security/state") == "disabled"


def test_model_that_cannot_be_sanitized_has_no_such_file(bench: Bench) -> None:
    attributes = {"pci_class": "050210", "driver": "cxl_pci", "sanitize": False}
    bench.kernel.plug([PluggedDevice("uid-a", "0x1a2b", "Example", {"vendor_id": "1234", "attributes": attributes})])
    folder = bench.root / "sys/bus/pci/devices" / FIRST / "mem0/security"
    assert [path.name for path in folder.iterdir()] == ["state"]
