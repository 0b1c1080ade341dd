# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a ResourceSlice into its value."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from collections.abc import Iterable
from sys import intern

from ...model.slice import NOTHING, Shown, Slice, SliceDevice
from ...model.value import Json
from ..watch.parts import shared
from . import slices
from .device_users import PARTITION_PREFIX, DeviceKey, by_address, entry_address, entry_parent

_READ: t.Final = frozenset({"driver", "nodeName", "pool", "devices"})


def read(raw: Json) -> Slice:
    """Return the value of a ResourceSlice. Raise KeyError, TypeError or ValueError for an object
    without what the API requires."""
    meta, spec, pool, node = raw["metadata"], raw["spec"], raw["spec"]["pool"], slices.node(raw) or ""
    return Slice(
        name=meta["name"], uid=str(meta.get("uid") or ""), version=str(meta.get("resourceVersion") or ""),
        created=str(meta.get("creationTimestamp") or ""), node=intern(node), driver=intern(slices.driver(raw)),
        pool=intern(slices.pool(raw)), generation=int(pool.get("generation") or 0),
        count=int(pool.get("resourceSliceCount") or 0), devices=tuple(map(_device, slices.devices(raw))),
        shown=shown(raw) if node else NOTHING,
        more=shared({name: value for name, value in spec.items() if name not in _READ}) if node else {},
        whole=None if node else raw)


def _device(entry: Json) -> SliceDevice:
    uuid = slices.attribute(entry, "uuid") or ""
    return SliceDevice(intern(entry["name"]), intern(uuid), shared(slices.without_uuid(entry) if uuid else entry))


class _Entry(t.NamedTuple):
    """A device of a slice. Each field is empty if the entry does not have it.

    ``of``: UUID of the whole device that it is, or of which it is a part. ``own``: PCI address that
    names it as a whole device.
    """

    key: DeviceKey
    uuid: str
    of: str
    address: str
    own: str


def shown(node_slice: Json) -> Shown:
    """Return the devices of a slice of a node by their names.

    The results equal those of ``device_users.whole`` and ``device_users.keys`` for each name, but
    need one pass over the entries. A pass for each name would cost the square of the number of
    devices.
    """
    entries = [_entry(node_slice, device) for device in slices.devices(node_slice)]
    wholes = _Wholes(entries)
    parts = _Parts(entries, wholes)
    names = {name for entry in entries for name in (entry.uuid, entry.of, entry.address) if name}
    once: dict[tuple[DeviceKey, ...], tuple[DeviceKey, ...]] = {}  # a device has the same parts by each of its names
    return Shown({name: found.key for name in names if (found := wholes.named(name))},
                 {name: once.setdefault(found, found) for name in names for found in (parts.named(name),)},
                 tuple((_entry(node_slice, device).key, taint) for device, taint in slices.sick(node_slice)))


def _entry(node_slice: Json, device: Json) -> _Entry:
    key = (intern(slices.driver(node_slice)), intern(slices.pool(node_slice)), intern(device["name"]))
    uuid = slices.attribute(device, "uuid") or ""
    parent = entry_parent(device) or ("" if uuid.startswith(PARTITION_PREFIX) else uuid)
    return _Entry(key, intern(uuid), intern(parent), intern(entry_address(device)), "" if uuid else by_address(device))


class _Wholes:
    """The first entry of each whole device, by UUID, else by address."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        self._by_uuid: dict[str, _Entry] = {}
        self._by_address: dict[str, _Entry] = {}
        self.addresses: dict[str, str] = {}
        for entry in entries:
            if entry.uuid:
                self._by_uuid.setdefault(entry.uuid, entry)
                if entry.address:
                    self.addresses.setdefault(entry.uuid, entry.address)
            elif entry.own:
                self._by_address.setdefault(entry.own, entry)

    def named(self, name: str) -> _Entry | None:
        """Return the device with this UUID or address."""
        return self._by_uuid.get(name) or self._by_address.get(name.lower())


class _Parts:
    """The entries of each device. An entry with the UUID of its device belongs to no other device
    with a UUID.
    """

    def __init__(self, entries: Iterable[_Entry], wholes: _Wholes) -> None:
        self._of: defaultdict[str, list[_Entry]] = defaultdict(list)
        self._nameless: defaultdict[str, list[_Entry]] = defaultdict(list)
        self._at: defaultdict[str, list[_Entry]] = defaultdict(list)
        self._addresses = wholes.addresses
        for entry in entries:
            (self._of[entry.of] if entry.of else self._nameless[entry.address]).append(entry)
            self._at[entry.address].append(entry)

    def named(self, name: str) -> tuple[DeviceKey, ...]:
        """Return the entries of the device with this UUID, else this address, the whole first."""
        address = self._addresses.get(name, "")
        found = [*self._of.get(name, ()), *(self._nameless.get(address, ()) if address else ())]
        ordered = sorted((_place(entry, name, address), entry.key) for entry in found)
        if not ordered:
            address = name.lower()
            ordered = sorted((_place(entry, "", address), entry.key) for entry in self._at.get(address, ()))
        return tuple(key for _first, key in ordered)


def _place(entry: _Entry, uuid: str, address: str) -> bool:
    """Return False, which sorts first, for the whole device."""
    return not (entry.uuid == uuid if entry.uuid else bool(address) and entry.own == address)
