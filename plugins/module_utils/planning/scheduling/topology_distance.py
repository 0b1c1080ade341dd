# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how near the devices of one claim are to each other, from their entries in the
ResourceSlice.

kube-scheduler chooses the devices of a claim: the first that fit, in the order of the slice. This
module chooses nothing. It compares nodes by the devices that a claim would get there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .snapshot import Json

_NUMA = ("numaNode", "numa")
ONE_SWITCH, ONE_ROOT, ONE_NUMA_NODE, FAR = range(4)
Distance = tuple[int, int]
"""How far apart the devices are, then the negative number of lanes of the narrowest link. The
lowest is best.
"""
NEAREST: Distance = (ONE_SWITCH, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a device. Values are None if the entry does not have them. ``width``: lanes of its
    link.
    """

    switch: str | None
    root: str | None
    numa_node: int | None
    width: int | None

    @classmethod
    def of(cls, device: Json) -> Place:
        """Read an entry of a ResourceSlice: the standard attributes, or those of the device's
        driver.
        """
        said = {name.rpartition("/")[2]: value for name, value in (device.get("attributes") or {}).items()}
        numa = next((int(said[name]["int"]) for name in _NUMA if "int" in said.get(name, {})), None)
        return cls(said.get("switch", {}).get("string"), said.get("pcieRoot", {}).get("string"), numa, _width(device))


def distance(devices: Sequence[Json]) -> Distance:
    """Return how far these devices are apart. One device is near itself. Unknown places count as
    far.
    """
    narrowest = min((_width(device) or 0 for device in devices), default=0)
    return ONE_SWITCH if len(devices) < 2 else _rank([Place.of(device) for device in devices]), -narrowest


def _width(device: Json) -> int | None:
    """Return the lanes of the device's link, which only this collection's driver publishes."""
    found = (device.get("attributes") or {}).get("linkWidth", {}).get("int")
    return None if found is None else int(found)


def _rank(places: Sequence[Place]) -> int:
    if _same(place.switch for place in places):
        return ONE_SWITCH
    if _same(place.root for place in places):
        return ONE_ROOT
    return ONE_NUMA_NODE if _same(place.numa_node for place in places) else FAR


def _same(values: Iterable[str | int | None]) -> bool:
    found = set(values)
    return len(found) == 1 and None not in found


def where(devices: Sequence[Json]) -> str:
    """Return where several devices are, such as ``on one switch, NUMA node 0``.

    Return an empty text for one device, and if nothing is known.
    """
    places = [Place.of(device) for device in devices]
    if len(places) < 2:
        return ""
    nodes = {place.numa_node for place in places}
    numa = f"NUMA node {places[0].numa_node}" if _same(nodes) else ""
    near = {ONE_SWITCH: "one switch", ONE_ROOT: "one root complex"}.get(_rank(places), "")
    far = f"{len(nodes)} NUMA nodes" if len(nodes) > 1 and None not in nodes else ""
    told = ", ".join(part for part in (near, numa or far) if part)
    return (f"on {told}" if told else "") + _narrow(places)


def _narrow(places: Sequence[Place]) -> str:
    widths = {place.width for place in places}
    if len(widths) < 2 or None in widths:
        return ""
    return f", links of {' and '.join(str(width) for width in sorted(w for w in widths if w is not None))} lanes"
