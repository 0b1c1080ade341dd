# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that selectors can use: of devices in a ResourceSlice, and of devices that are to be
attached.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ....settings import DeviceModel
from ...cel.values import NON_EMPTY_TEXT, UNKNOWN, DeviceFacts, version
from ...framework.quantity import BadQuantity, quantity
from ...snapshot import Json
from ..taint_toleration import untolerated_taint

PLACE = frozenset({"pcieRoot", "numaNode", "numa", "switch", "linkWidth", "linkSpeed"})
"""Attributes that depend on the place of a device."""
INDIVIDUAL = PLACE | {"uuid", "parentUUID", "serial", "index", "minor", "pciBusID", "pciAddress"}
"""Attributes that differ between devices of one model, or with the slot."""


def announced_device(device: Json, driver: str) -> DeviceFacts:
    """Return the facts of a device in a ResourceSlice. It has only what its entry names."""
    return DeviceFacts(driver, _values(device.get("attributes") or {}, driver, _attribute),
                       _values(device.get("capacity") or {}, driver, _capacity), complete=True)


def expected_device(model: DeviceModel, driver: str, samples: tuple[Json, ...]) -> DeviceFacts:
    """Return the facts of a device of the model to be attached, if ``driver`` publishes it.

    ``samples``: entries of ResourceSlices of devices of this model. Their common values are
    expected. Without samples the attributes of ``device_info`` are expected.
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


def same_facts(one: DeviceFacts, other: DeviceFacts) -> bool:
    """Return whether all selectors give the same results for both. A true is not the number 1 there."""
    def typed(values: Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {name: (value.__class__, value) for name, value in values.items()}

    return (one.complete == other.complete and typed(one.attributes) == typed(other.attributes)
            and typed(one.capacity) == typed(other.capacity))


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
    """Return the values that all have. A value that differs or that one lacks is unknown."""
    found: dict[str, t.Any] = {}
    for name in {name for each in several for name in each}:
        values = [each.get(name) for each in several]
        same = all(v is not None and v.__class__ is values[0].__class__ and v == values[0] for v in values)
        found[name] = values[0] if same else UNKNOWN
    return found


def depends_on_place(attribute: str) -> bool:
    """Return whether an attribute, with or without its domain, depends on the place of a device."""
    return attribute.rpartition("/")[2] in PLACE


def shareable(device: Json) -> bool:
    """Return whether several claims (KEP-5075) or partitions (KEP-4815) may use the device. Plans
    do not use it then.

    A device that a claim without a request for capacity gets as a whole is not shareable, while no
    claim has a part of it.
    """
    shared = bool(device.get("allowMultipleAllocations")) and not _whole_by_default(device)
    return shared or bool(device.get("consumesCounters"))


def _whole_by_default(device: Json) -> bool:
    """Return whether the default request is the whole capacity.

    As ``fillEmptyRequest`` of ``structured/internal``: without a default it is the whole capacity.
    """
    found = (device.get("capacity") or {}).values()
    pairs = [(each, {"value": (each.get("requestPolicy") or {}).get("default") or each.get("value")}) for each in found]
    return any(_capacity(each) == _capacity(default) != UNKNOWN for each, default in pairs)


def repels(device: Json, tolerations: t.Iterable[Json]) -> bool:
    """Return whether a taint of the device refuses a request with these tolerations (KEP-5055)."""
    return untolerated_taint(device.get("taints") or (), tolerations) is not None
