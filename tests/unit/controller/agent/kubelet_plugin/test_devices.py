# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node's bus a DRA driver can offer, under which names, and what the slices say of it."""

from __future__ import annotations

import re

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import (
    DEFAULT_KINDS,
    KINDS,
    NodeDevice,
    offered,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.publisher import entry
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.device_users import DeviceName, whole
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import PluginNode

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def names(node: PluginNode, *kinds: str) -> list[str]:
    return [device.name for device in offered(node.root, kinds or KINDS)]


def test_gpu_that_was_used_once_is_offered_with_its_file(node: PluginNode) -> None:
    (found,) = offered(node.root, DEFAULT_KINDS)
    assert (found.name, found.uuid, found.type, found.files) == ("gpu-a", "GPU-a", "gpu", ("/dev/nvidia0",))


def test_gpu_that_nobody_has_used_yet_has_no_uuid_and_waits(node: PluginNode) -> None:
    node.kernel.plug([PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100") for name in "ab"])
    assert names(node) == ["gpu-a"]


def test_lost_gpu_is_not_offered(node: PluginNode) -> None:
    (found,) = offered(node.root, KINDS)
    (node.root / "sys/bus/pci/devices" / found.address / "config").write_bytes(b"\xff" * 64)
    assert names(node) == []


def test_other_pci_device_is_offered_by_its_address_where_its_files_are_known(node: PluginNode) -> None:
    node.pci_device("0000:81:00.0", "0x120000", "vfio-pci", iommu_group="../../iommu_groups/7")
    node.pci_device("0000:82:00.0", "0x120000", "somedriver")
    node.pci_device("0000:83:00.0", "0x120000")
    assert names(node) == ["gpu-a", "pci-0000-81-00-0"]
    assert names(node, *DEFAULT_KINDS) == ["gpu-a"]
    assert offered(node.root, KINDS)[1].files == ("/dev/vfio/7",)


def test_cxl_memory_is_offered_when_its_driver_has_made_a_memory_device(node: PluginNode) -> None:
    folder = node.pci_device("0000:35:00.0", "0x050210", "cxl_pci")
    assert names(node) == ["gpu-a"]
    (folder / "mem0").mkdir()
    (found,) = offered(node.root, ["cxl-memory"])
    assert (found.name, found.files) == ("cxl-memory-0000-35-00-0", ("/dev/cxl/mem0",))
    (folder / "mem0/serial").write_text("0x1a2b3c\n")
    (found,) = offered(node.root, ["cxl-memory"])
    assert (found.name, entry(found)["attributes"]["uuid"]) == ("cxl-memory-0x1a2b3c", {"string": "0x1a2b3c"})


def test_root_complex_is_read_from_the_place_of_the_device(node: PluginNode) -> None:
    real = node.root / "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"
    folder = node.pci_device("0000:81:00.0", "0x120000", "vfio-pci", iommu_group="../../iommu_groups/7")
    real.parent.mkdir(parents=True)
    folder.rename(real)
    (node.root / "sys/bus/pci/devices/0000:81:00.0").symlink_to(real)
    (found,) = offered(node.root, ["generic-pci"])
    assert found.root == "pci0000:80"
    attributes = entry(found)["attributes"]
    assert attributes["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:80"}
    assert attributes["resource.kubernetes.io/pciBusID"] == {"string": "0000:81:00.0"}
    assert "uuid" not in attributes


@pytest.mark.parametrize(("uuid", "name"), [
    ("GPU-5C1E2B3A-0000-1111-2222-333344445555", "gpu-5c1e2b3a-0000-1111-2222-333344445555"),
    ("GPU-" + "x" * 80, "gpu-" + "x" * 59), ("odd_ID!", "gpu-odd-id"), ("", "gpu-0000-10-00-0")])
def test_name_is_a_label(uuid: str, name: str) -> None:
    device = NodeDevice("nvidia", "0000:10:00.0", "10de", "2330", ("/dev/nvidia0",), uuid)
    assert device.name == name
    assert LABEL.fullmatch(name)


def test_entry_of_a_device_without_a_uuid_is_known_as_the_whole_device() -> None:
    device = NodeDevice("amd", "0000:10:00.0", "1002", "74a1", ("/dev/dri/card0",), numa_node=1, link_width=16)
    spec = {"driver": "d", "nodeName": "n", "pool": {"name": "n"}, "devices": [entry(device)]}
    assert whole([{"spec": spec}], DeviceName("", "0000:10:00.0")) == ("d", "n", "gpu-0000-10-00-0")
    attributes = entry(device)["attributes"]
    assert attributes["numaNode"] == attributes["resource.kubernetes.io/numaNode"] == {"int": 1}
    assert not {"switch", "linkSpeed"} & set(attributes)


def test_gpus_of_a_node_say_which_of_them_share_a_switch(node: PluginNode) -> None:
    node.plug(*"abcdef")
    seen = [(d.name, d.root, d.numa_node, d.switch) for d in sorted(offered(node.root, KINDS), key=lambda d: d.place)]
    assert seen == [
        ("gpu-a", "pci0000:00", 0, "0000:01:00.0"), ("gpu-b", "pci0000:00", 0, "0000:01:00.0"),
        ("gpu-c", "pci0000:00", 0, "0000:03:00.0"), ("gpu-d", "pci0000:00", 0, "0000:03:00.0"),
        ("gpu-e", "pci0001:00", 1, "0001:01:00.0"), ("gpu-f", "pci0001:00", 1, "0001:01:00.0")]
    attributes = entry(offered(node.root, KINDS)[-1])["attributes"]
    assert (attributes["switch"], attributes["linkSpeed"]) == ({"string": "0001:01:00.0"}, {"string": "32.0 GT/s PCIe"})


def test_bus_that_cannot_be_read_is_said(node: PluginNode) -> None:
    (node.root / "sys/bus/pci/devices").rename(node.root / "elsewhere")
    with pytest.raises(Refused, match="cannot read the bus of the node"):
        node.view().look()
