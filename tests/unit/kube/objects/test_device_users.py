# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a device, or a part of it: whole, as a partition, by a virtual machine, and where nobody can tell."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import device_users, slice_values
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.device_users import DeviceName

DRIVER = "gpu.nvidia.com"
DEVICE = DeviceName("GPU-a", "0000:3b:00.0")
BUS = "resource.kubernetes.io/pciBusID"


def entry(name: str, **attributes: str) -> dict[str, t.Any]:
    """An entry; a keyword ``bus`` is the PCI address."""
    named = {BUS if key == "bus" else key: {"string": value} for key, value in attributes.items()}
    return {"name": name, "attributes": named}


def node_slice(*entries: dict[str, t.Any], driver: str = DRIVER) -> dict[str, t.Any]:
    """A slice of the node."""
    return {"spec": {"driver": driver, "nodeName": "node-0", "pool": {"name": "node-0"}, "devices": list(entries)}}


def claim(device: str, node: str = "node-0", driver: str = DRIVER, **more: t.Any) -> dict[str, t.Any]:
    """A claim that has a device of the node."""
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    result = {"request": "r", "driver": driver, "pool": node, "device": device, **more}
    return {"metadata": {"namespace": "default", "name": "train"},
            "status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}}


def test_device_is_in_use_while_any_claim_has_a_share_of_it() -> None:
    mine = [claim("gpu-0", shareID="one"), claim("gpu-0", shareID="two")]
    for left in (mine, mine[1:], mine[:1]):
        assert device_users.user(left, [node_slice(GPU)], "node-0", DEVICE, {DRIVER}) == USES
    assert device_users.user([], [node_slice(GPU)], "node-0", DEVICE, {DRIVER}) == ""


GPU = entry("gpu-0", type="gpu", uuid="GPU-a", bus="0000:3b:00.0")
MIG = entry("gpu-0-mig-1g", type="mig", uuid="MIG-x", parentUUID="GPU-a")
VFIO = entry("gpu-vfio-0", type="vfio", bus="0000:3B:00.0")
OTHER = entry("gpu-1", type="gpu", uuid="GPU-b", bus="0000:3c:00.0")
OTHER_MIG = entry("gpu-1-mig-1g", type="mig", uuid="MIG-y", parentUUID="GPU-b")
NAMELESS = entry("odd", type="gpu")
USES = "claim default/train uses the device"
UNSURE = "claim default/train uses a device of node node-0, and no ResourceSlice shows whether it is this device"


def user(claimed: str, *entries: dict[str, t.Any], device: DeviceName = DEVICE, **more: t.Any) -> str:
    """Why the device may be in use, when a claim has the device ``claimed``."""
    return device_users.user([claim(claimed, **more)], [node_slice(*entries)], "node-0", device, {DRIVER})


@pytest.mark.parametrize(("claimed", "entries", "said"), [
    ("gpu-0", [GPU, OTHER], USES),
    ("gpu-1", [GPU, OTHER], ""),
    ("gpu-0-mig-1g", [MIG, OTHER], USES),
    ("gpu-0-mig-1g", [GPU, MIG], USES),
    ("gpu-0-mig-1g", [MIG, GPU], USES),
    ("gpu-1-mig-1g", [GPU, MIG, OTHER_MIG], ""),
    ("gpu-vfio-0", [GPU, VFIO], USES),
    ("gpu-vfio-0", [VFIO], USES),
    ("gpu-gone", [], UNSURE),
    ("gpu-gone", [OTHER], UNSURE),
    ("gpu-gone", [MIG], UNSURE),
    ("gpu-gone", [GPU], ""),
    ("gpu-1", [OTHER], ""),
    ("odd", [GPU, NAMELESS], UNSURE),
    ("odd", [NAMELESS], UNSURE),
])
def test_use(claimed: str, entries: list[dict[str, t.Any]], said: str) -> None:
    assert user(claimed, *entries) == said


def test_address_is_learned_from_the_entry_of_the_whole_device() -> None:
    assert user("gpu-vfio-0", GPU, VFIO, device=DeviceName("GPU-a")) == USES


def test_claims_elsewhere_and_of_other_kinds_are_no_obstacle() -> None:
    assert user("gpu-gone", node="node-1") == ""
    assert user("nic-0", driver="dra.net") == ""
    assert user("a100-0", bindingConditions=["FabricDeviceReady"]) == ""
    assert user("gpu-0", GPU, adminAccess=True) == ""


def test_device_without_any_name_may_be_any() -> None:
    assert user("gpu-gone", device=DeviceName("")) == UNSURE
    assert user("gpu-1", OTHER, device=DeviceName("")) == UNSURE


def test_keys_of_a_device_begin_with_the_whole() -> None:
    found = device_users.keys([node_slice(MIG, VFIO, OTHER, OTHER_MIG), node_slice(GPU)], DEVICE)
    assert [key[2] for key in found] == ["gpu-0", "gpu-0-mig-1g", "gpu-vfio-0"]
    assert device_users.keys([node_slice(OTHER)], DEVICE) == []


ADDRESS = "0000:3b:00.0"
AMD = entry("gpu-0-128", type="amdgpu", pciAddr=ADDRESS)
AMD_PART = entry("gpu-1-129", type="amdgpu-partition", pciAddr=ADDRESS)
INTEL = entry("0000-3b-00-0-0x56c0", model="Flex 170")


@pytest.mark.parametrize("shown", [AMD, INTEL], ids=["amd", "intel"])
def test_gpu_without_a_uuid_is_known_by_its_address(shown: dict[str, t.Any]) -> None:
    item, name = node_slice(shown), DeviceName("", ADDRESS)
    assert device_users.whole([item], name) == (DRIVER, "node-0", shown["name"])
    assert slice_values.shown(item).whole == {ADDRESS: (DRIVER, "node-0", shown["name"])}
    assert device_users.whole([item], DeviceName("", "0000:3c:00.0")) is None
    assert user(shown["name"], shown, device=name) == USES


def test_part_of_a_gpu_without_a_uuid_is_no_whole_one() -> None:
    item, name = node_slice(AMD_PART), DeviceName("", ADDRESS)
    assert device_users.whole([item], name) is None
    assert user("gpu-1-129", AMD_PART, device=name) == USES
    assert [key[2] for key in device_users.keys([node_slice(AMD_PART, AMD)], name)] == ["gpu-0-128", "gpu-1-129"]


def test_entry_for_a_virtual_machine_is_no_whole_one() -> None:
    assert device_users.whole([node_slice(VFIO)], DeviceName("", ADDRESS)) is None
