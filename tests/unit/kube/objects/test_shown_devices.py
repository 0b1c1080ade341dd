# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over a slice finds what a look at every entry for every name finds."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import device_users, slice_values, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.device_users import DeviceKey, DeviceName
from ansible_collections.composable.infra.plugins.module_utils.model.slice import Shown

Json = dict[str, t.Any]
BUS = "resource.kubernetes.io/pciBusID"
ADDRESSES = ("0000:3b:00.0", "0000:3B:00.0", "0000:3c:00.0", "0000:3d:00.0")


def looked_up(item: Json) -> Shown:
    """Name by name, with the definitions themselves."""
    names = set(device_users.identities(item))

    def whole(name: str) -> DeviceKey | None:
        return device_users.whole([item], DeviceName(name)) or device_users.whole([item], DeviceName("", name))

    def parts(name: str) -> tuple[DeviceKey, ...]:
        found = device_users.keys([item], DeviceName(name)) or device_users.keys([item], DeviceName("", name))
        return tuple(found)

    return Shown({name: key for name in names if (key := whole(name))}, {name: parts(name) for name in names})


def drawn(rng: random.Random) -> Json:
    """A slice with whole devices, partitions, entries for virtual machines, GPUs without UUID, and odd ones."""
    uuids = [f"GPU-{i}" for i in range(rng.randint(1, 4))]
    entries = []
    for number in range(rng.randint(0, 8)):
        some: Json = {"type": rng.choice(("gpu", "mig", "vfio", "amdgpu", "amdgpu-partition"))}
        for name, values in (("uuid", (*uuids, "MIG-0", "MIG-1")), ("parentUUID", uuids),
                             (BUS, ADDRESSES), ("pciAddr", ADDRESSES)):
            if rng.random() < 0.4:
                some[name] = rng.choice(values)
        name = rng.choice((f"dev-{number}", f"0000-3b-00-{number}-0x56c0", f"gpu-0000-3c-00-{number}"))
        entries.append({"name": name, "attributes": {key: {"string": value} for key, value in some.items()}})
    return {"spec": {"driver": "gpu.example.com", "nodeName": "node-0", "pool": {"name": "node-0"},
                     "devices": entries}}


@pytest.mark.parametrize("seed", range(4))
def test_one_pass_finds_what_a_look_for_each_name_finds(seed: int) -> None:
    rng = random.Random(seed)
    for _unused in range(300):
        item = drawn(rng)
        assert slice_values.shown(item) == looked_up(item), item


def test_work_grows_with_the_devices_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    attribute = slices.attribute

    def counted(device: Json, name: str) -> str | None:
        looks.append(name)
        return attribute(device, name)

    monkeypatch.setattr(slices, "attribute", counted)

    def work(devices: int) -> int:
        looks.clear()
        shown = slice_values.shown({"spec": {"driver": "d", "nodeName": "n", "pool": {"name": "n"}, "devices": [
            {"name": f"gpu-{i}", "attributes": {"uuid": {"string": f"GPU-{i}"}, BUS: {"string": f"0000:{i:02x}:00.0"}}}
            for i in range(devices)]}})
        assert len(shown.whole) == devices
        return len(looks)

    assert work(64) == 8 * work(8)


def test_devices_that_their_driver_keeps_from_new_claims() -> None:
    taints = [{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"},
              {"key": "gpu.example.com/app", "effect": "None"},
              {"key": "gpu.example.com/xid", "value": "48", "effect": "NoExecute"}]
    devices = [{"name": f"gpu-{n}", "taints": taints[:n]} for n in range(4)]
    item = {"spec": {"driver": "gpu.example.com", "nodeName": "node-0", "pool": {"name": "node-0"},
                     "devices": devices}}
    key = ("gpu.example.com", "node-0", "gpu-3")
    assert slice_values.shown(item).sick == ((key, "gpu.example.com/xid=48:NoExecute"),)
