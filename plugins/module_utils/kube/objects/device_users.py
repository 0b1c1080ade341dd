# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the ResourceSlice entries of one device, whole or part, and the claim that has one of them.

NVIDIA's DRA driver publishes a GPU as ``gpu`` with its ``uuid``, as MIG partitions with
``parentUUID``, and for a virtual machine as ``vfio`` with its PCI address only. If no entry names a
device, a claim may nevertheless have it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ...model.value import Json
from . import claims, slices

DeviceKey = claims.DeviceKey
PARTITION_PREFIX: t.Final = "MIG-"
AMD_WHOLE: t.Final = "amdgpu"
_OWN_NAME: t.Final = re.compile(r"(?:gpu|pci|cxl-memory)-([0-9a-f]{4,})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])")
_INTEL_NAME: t.Final = re.compile(r"([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])-0x[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class DeviceName:
    """The names of a device on a node: its UUID and its PCI address, each empty if unknown."""

    uuid: str
    address: str = ""


def keys(node_slices: Iterable[Json], device: DeviceName) -> list[DeviceKey]:
    """Return (driver, pool, device) of the device and its parts in the slices of its node, the
    whole first.
    """
    listed = list(node_slices)
    device = _with_address(listed, device)
    found = [(_is_whole(entry, device), key) for entry, key in _entries(listed) if _is_of(entry, device)]
    return [key for _whole, key in sorted(found, key=lambda pair: (not pair[0], pair[1]))]


def whole(node_slices: Iterable[Json], device: DeviceName) -> DeviceKey | None:
    """Return (driver, pool, device) under which the slices publish the whole device, None if they
    do not.
    """
    return next((key for entry, key in _entries(node_slices) if _is_whole(entry, device)), None)


def user(items: Iterable[Json], node_slices: Iterable[Json], node: str, device: DeviceName,
         drivers: Collection[str]) -> str:
    """Return why a device of a node may be in use, in a sentence, empty if no claim has it.

    ``items``: all claims. ``node_slices``: the slices of the node. ``drivers``: drivers that may
    publish the device. If a claim has a device of the node that no slice distinguishes from this
    one, the claim may have this one.
    """
    listed = list(node_slices)
    device = _with_address(listed, device)
    entries = {key: _is_of(entry, device) for entry, key in _entries(listed)}
    hidden = whole(listed, device) is None
    for claim in items:
        pool = {(r["driver"], r["pool"], r["device"]) for r in claims.binding_results(claim)}
        for key in claims.device_keys(claim):
            name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
            if entries.get(key):
                return f"claim {name} uses the device"
            here = claims.node(claim) == node and key[0] in drivers and key not in pool
            if here and (entries[key] is None if key in entries else hidden):
                return (f"claim {name} uses a device of node {node}, and "
                        "no ResourceSlice shows whether it is this device")
    return ""


def keeper(items: Iterable[Json], node: str, pool_device: str) -> str:
    """Return which claim has a device as a pool device (``<pool>/<device>``) of a node, in a
    sentence, empty for none.
    """
    for claim in items if pool_device else ():
        if claims.node(claim) == node and any(f"{r['pool']}/{r['device']}" == pool_device
                                              for r in claims.binding_results(claim)):
            return f"claim {claim['metadata']['namespace']}/{claim['metadata']['name']} uses the device"
    return ""


def identities(node_slice: Json) -> Iterator[str]:
    """Yield the UUIDs and PCI addresses in the entries of a slice, for an index."""
    for device in slices.devices(node_slice):
        yield from filter(None, (slices.attribute(device, "uuid"), entry_parent(device), entry_address(device)))


def _entries(node_slices: Iterable[Json]) -> Iterator[tuple[Json, DeviceKey]]:
    for item in node_slices:
        for device in slices.devices(item):
            yield device, (slices.driver(item), slices.pool(item), device["name"])


def _with_address(node_slices: Iterable[Json], device: DeviceName) -> DeviceName:
    """Return the name with the PCI address from the slices, if it was unknown."""
    if device.address or not device.uuid:
        return device
    told = (entry_address(entry) for entry, _key in _entries(node_slices) if _is_whole(entry, device))
    return DeviceName(device.uuid, next(filter(None, told), ""))


def _is_whole(entry: Json, device: DeviceName) -> bool:
    if uuid := slices.attribute(entry, "uuid"):
        return uuid == device.uuid
    return bool(device.address) and by_address(entry) == device.address.lower()


def by_address(entry: Json) -> str:
    """Return the PCI address of a whole device without a UUID, empty for any other entry.

    Such devices are GPUs of AMD or Intel, and devices of the node agent's own driver
    (controller/agent/kubelet_plugin/devices.py).

    Source: docs/driver-attributes.md of ``ROCm/k8s-gpu-dra-driver``, and pkg/gpu/device of
    intel/intel-resource-drivers-for-kubernetes, which names devices by address and ID.
    """
    if slices.attribute(entry, "type") == AMD_WHOLE:
        return (slices.attribute(entry, "pciAddr") or "").lower()
    named = _INTEL_NAME.fullmatch(entry["name"]) or _OWN_NAME.fullmatch(entry["name"])
    return "{}:{}:{}.{}".format(*named.groups()) if named else ""


def _is_of(entry: Json, device: DeviceName) -> bool | None:
    """Return whether an entry is the device or a part of it, None if that is unknown."""
    uuid = slices.attribute(entry, "uuid") or ""
    parent = entry_parent(entry) or ("" if uuid.startswith(PARTITION_PREFIX) else uuid)
    if parent and device.uuid:
        return parent == device.uuid
    address = entry_address(entry)
    if address and device.address:
        return address == device.address.lower()
    return None


def entry_parent(entry: Json) -> str:
    """Return the UUID of the device of which an entry is a part, empty for none."""
    return slices.attribute(entry, "parentUUID") or ""


def entry_address(entry: Json) -> str:
    """Return the PCI address of an entry, whole or part, in lower case, empty for none."""
    named = (slices.attribute(entry, name) for name in ("resource.kubernetes.io/pciBusID", "pciBusID", "pciAddr"))
    return (next(filter(None, named), "") or by_address(entry)).lower()
