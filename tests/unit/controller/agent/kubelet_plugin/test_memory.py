# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CXL memory is given to a claim only after it was sanitized, or where the administrator allows it."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin import memory
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.plugins.module_utils.node import bus
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import PluginNode

FIRST, NAME, OTHER = "0000:10:00.0", "cxl-memory-0x1a2b", "cxl-memory-0x1a2c"


@pytest.fixture
def node(tmp_path: Path) -> PluginNode:
    """A node without GPUs."""
    return PluginNode(tmp_path)


@pytest.fixture
def writes(node: PluginNode, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two memory devices on the node. Addresses of those that the kernel was asked to sanitize."""
    plug(node)
    asked: list[str] = []

    def write(path: Path, text: str, patience: float, begun: t.Callable[[int], None]) -> None:
        assert (path.name, text) == ("sanitize", "1")
        address = path.parents[2].name
        if not node.kernel.sanitize(address):
            raise bus.NotDone(f"{path} cannot be written: OSError: [Errno 16] Device or resource busy")
        asked.append(address)

    monkeypatch.setattr(bus, "write", write)
    monkeypatch.setattr(memory, "BRIEF_SECONDS", 0.0)
    return asked


def plug(node: PluginNode) -> None:
    properties = {"vendor_id": "1234", "attributes": {"pci_class": "050210", "driver": "cxl_pci"}}
    node.kernel.plug([PluggedDevice(f"uid-{n}", f"0x1a2{n}", "Example", properties) for n in "bc"])
    for device in node.kernel.records.devices():
        (node.kernel.bus.security(device) / "sanitize").touch()


def finish(node: PluginNode) -> None:
    """All memory is sanitized by now."""
    node.kernel.sanitizing = dict.fromkeys(node.kernel.sanitizing, 0.0)
    node.kernel.end_sanitizing()


def no_way(node: PluginNode) -> None:
    """The kernel offers no way to sanitize memory."""
    for path in node.root.glob("sys/bus/pci/devices/*/mem*/security"):
        shutil.rmtree(path)


def test_claim_waits_until_the_memory_is_sanitized(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME)
    mine = node.preparation()
    for _time in range(2):
        with pytest.raises(Refused, match=f"the memory of the device {NAME} is being sanitized"):
            mine.prepare("default", "c", "uid-c")
    assert (writes, mine.claims(), node.specs()) == ([FIRST], [], [])
    finish(node)
    assert mine.prepare("default", "c", "uid-c").devices
    assert writes == [FIRST]


def test_memory_that_is_sanitized_at_once_is_given_at_once(
    node: PluginNode, writes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.kernel, "sanitize", lambda address: True)
    node.claim(NAME)
    assert node.preparation().prepare("default", "c", "uid-c").devices
    assert writes == [FIRST]


def test_next_claim_gets_it_sanitized_again_and_the_same_claim_keeps_its_content(
    node: PluginNode, writes: list[str]
) -> None:
    mine = given(node)
    shutil.rmtree(node.cdi)
    assert mine.prepare("default", "c", "uid-c").devices, "as after a restart of the node"
    assert len(writes) == 1
    mine.unprepare("uid-c")
    node.claim(NAME, name="next")
    with pytest.raises(Refused, match="is being sanitized"):
        mine.prepare("default", "next", "uid-next")
    assert len(writes) == 2


def given(node: PluginNode) -> t.Any:
    """The claim c has the memory."""
    node.claim(NAME)
    mine = node.preparation()
    with pytest.raises(Refused):
        mine.prepare("default", "c", "uid-c")
    finish(node)
    mine.prepare("default", "c", "uid-c")
    return mine


def test_memory_of_a_claim_is_not_sanitized_for_another(node: PluginNode, writes: list[str]) -> None:
    mine = given(node)
    node.claim(NAME, name="thief")
    with pytest.raises(Refused, match="is still prepared for the claim default/c"):
        mine.prepare("default", "thief", "uid-thief")
    assert len(writes) == 1


def test_several_devices_of_a_claim_are_sanitized_together(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME, OTHER)
    mine = node.preparation()
    with pytest.raises(Refused, match=rf"{NAME} is being sanitized.*{OTHER} is being sanitized"):
        mine.prepare("default", "c", "uid-c")
    finish(node)
    assert len(mine.prepare("default", "c", "uid-c").devices) == 2
    assert len(writes) == 2


def test_restarted_plugin_does_not_believe_an_end_that_it_has_not_seen(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME)
    with pytest.raises(Refused):
        node.preparation().prepare("default", "c", "uid-c")
    finish(node)
    with pytest.raises(Refused, match="is being sanitized"):
        node.preparation().prepare("default", "c", "uid-c")
    assert len(writes) == 2


def test_device_that_left_and_came_back_is_sanitized_again(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME)
    mine = node.preparation()
    with pytest.raises(Refused):
        mine.prepare("default", "c", "uid-c")
    finish(node)
    folder = (node.root / "sys/bus/pci/devices" / FIRST).resolve()
    shutil.copytree(folder, folder.with_name("new"), symlinks=True)
    folder.rename(folder.with_name("old"))
    folder.with_name("new").rename(folder)
    with pytest.raises(Refused, match="is being sanitized"):
        mine.prepare("default", "c", "uid-c")
    assert len(writes) == 2


def test_memory_that_cannot_be_sanitized_is_refused_but_to_namespaces_that_are_allowed(
    node: PluginNode, writes: list[str]
) -> None:
    node.claim(NAME)
    no_way(node)
    with pytest.raises(Refused, match=r"offers no way to sanitize the memory of 0000:10:00\.0.*--unsanitized-memory"):
        node.preparation(unsanitized=("other",)).prepare("default", "c", "uid-c")
    assert node.specs() == []
    assert node.preparation(unsanitized=("default",)).prepare("default", "c", "uid-c").devices
    assert writes == []


def test_all_namespaces_may_be_allowed(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME)
    no_way(node)
    assert node.preparation(unsanitized=("*",)).prepare("default", "c", "uid-c").devices


def test_memory_that_the_kernel_does_not_sanitize_now_is_refused_everywhere(
    node: PluginNode, writes: list[str]
) -> None:
    node.claim(NAME)
    node.process(42, "trainer", "/dev/cxl/mem0", cgroup="/user.slice")
    with pytest.raises(Refused, match=r"cannot be sanitized: .*Device or resource busy"):
        node.preparation(unsanitized=("*",)).prepare("default", "c", "uid-c")
    assert node.specs() == []


def test_state_that_cannot_be_read_is_no_end(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME)
    next(node.root.glob("sys/bus/pci/devices/*/mem0/security/state")).unlink()
    with pytest.raises(Refused, match="state cannot be read"):
        node.preparation().prepare("default", "c", "uid-c")


def test_administrators_look_at_memory_as_it_is(node: PluginNode, writes: list[str]) -> None:
    node.claim(NAME, adminAccess=True)
    assert node.preparation().prepare("default", "c", "uid-c").devices
    assert writes == []
