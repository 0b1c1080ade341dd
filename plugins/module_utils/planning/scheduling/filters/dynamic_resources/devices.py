# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What selectors can know of devices: of those in a ResourceSlice, and of those that are still to be attached."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ....settings import DeviceModel
from ...cel.values import NON_EMPTY_TEXT, UNKNOWN, DeviceFacts, version
from ...framework.quantity import BadQuantity, quantity
from ...snapshot import Json
from ..taint_toleration import untolerated_taint

PLACE = frozenset({"pcieRoot", "numaNode", "numa", "switch", "linkWidth", "linkSpeed"})
"""Attributes that depend on where a device is."""
INDIVIDUAL = PLACE | {"uuid", "parentUUID", "serial", "index", "minor", "pciBusID", "pciAddress"}
"""Attributes that differ between devices of one model, or with the slot."""


def announced_device(device: Json, driver: str) -> DeviceFacts:
    """A device of a ResourceSlice; what its entry does not name it does not have."""
    return DeviceFacts(driver, _values(device.get("attributes") or {}, driver, _attribute),
                       _values(device.get("capacity") or {}, driver, _capacity), complete=True)


def expected_device(model: DeviceModel, driver: str, samples: tuple[Json, ...]) -> DeviceFacts:
    """A device of the model that is to be attached where ``driver`` shows it.

    ``samples``: entries of ResourceSlices of devices of this model; what they have in common is expected. Without any
    the attributes of ``device_info`` are.
    """
    if not samples:
        known = _values(model.attributes, driver, lambda value: value)
        known[f"{driver}/uuid"] = NON_EMPTY_TEXT
        sizes = {name: {"value": amount} for name, amount in model.capacity.items()}
        return DeviceFacts(driver, known, _values(sizes, driver, _capacity), complete=False)
    facts = [announced_device(sample, driver) for sample in samples]
    attributes = {name: UNKNOWN if name.rpartition("/")[2] in INDIVIDUAL else value
                  for name, value in _common([f.attributes for f in facts]).items()}
    attributes[f"{driver}/uuid"] = NON_EMPTY_TEXT
    return DeviceFacts(driver, attributes, _common([f.capacity for f in facts]), complete=True)


def _values(listed: Mapping[str, t.Any], driver: str, read: t.Callable[[t.Any], t.Any]) -> dict[str, t.Any]:
    return {name if "/" in name else f"{driver}/{name}": read(value) for name, value in listed.items()}


def _attribute(value: Mapping[str, t.Any]) -> t.Any:
    for kind in ("string", "bool", "int"):
        if kind in value:
            return value[kind]
    return version(str(value["version"])) if "version" in value else UNKNOWN


def _capacity(value: Mapping[str, t.Any]) -> t.Any:
    try:
        return quantity(str(value["value"]))
    except (BadQuantity, KeyError):
        return UNKNOWN


def _common(several: list[Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Values that all have; where they differ, or one lacks it, the value is unknown."""
    found: dict[str, t.Any] = {}
    for name in {name for each in several for name in each}:
        values = [each.get(name) for each in several]
        same = all(v is not None and v.__class__ is values[0].__class__ and v == values[0] for v in values)
        found[name] = values[0] if same else UNKNOWN
    return found


def depends_on_place(attribute: str) -> bool:
    """Whether an attribute, with or without its domain, depends on where a device is."""
    return attribute.rpartition("/")[2] in PLACE


def shareable(device: Json) -> bool:
    """Whether several claims (KEP-5075) or partitions (KEP-4815) may use the device: those are not counted on.

    One that a claim without a request for capacity has as a whole is as any other, while no claim has a part of it.
    """
    shared = bool(device.get("allowMultipleAllocations")) and not _whole_by_default(device)
    return shared or bool(device.get("consumesCounters"))


def _whole_by_default(device: Json) -> bool:
    """As ``fillEmptyRequest`` of ``structured/internal``: without a default it is the whole capacity."""
    found = (device.get("capacity") or {}).values()
    pairs = [(each, {"value": (each.get("requestPolicy") or {}).get("default") or each.get("value")}) for each in found]
    return any(_capacity(each) == _capacity(default) != UNKNOWN for each, default in pairs)


def repels(device: Json, tolerations: t.Iterable[Json]) -> bool:
    """Whether a taint of the device keeps a request with these tolerations away (KEP-5055)."""
    return untolerated_taint(device.get("taints") or (), tolerations) is not None
