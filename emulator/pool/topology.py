# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The structure of a fabric, with boxes of devices, switches and cables."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .fields import Fields, SpecError
from .parts import DeviceSpec, MachineSpec, unique

_BOX: t.Final = ("id", "name", "fabric", "slots")
_SWITCH: t.Final = ("id", "name", "fabric", "ports")
_LINK: t.Final = ("from", "to", "type", "lanes")


@dataclass(frozen=True, slots=True)
class Box:
    """A chassis of devices."""

    id: str
    name: str
    fabric: int
    slots: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch to which machines and boxes of a fabric are cabled."""

    id: str
    name: str
    fabric: int
    ports: int


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two ends. An end is a machine (by name), a box or a switch (by id)."""

    start: str
    end: str
    type: str = "PCIe"
    lanes: int = 16


@dataclass(frozen=True, slots=True)
class Topology:
    """Boxes, switches and cables.

    By default, each fabric has a box and a switch, and each box and machine a cable to the switch.
    """

    boxes: tuple[Box, ...] = ()
    switches: tuple[Switch, ...] = ()
    links: tuple[Link, ...] = ()


def topology_of(
    top: Fields, fabrics: list[int], machines: tuple[MachineSpec, ...], devices: tuple[DeviceSpec, ...]
) -> Topology:
    """Read ``boxes``, ``switches`` and ``links``. Raises SpecError."""
    boxes = tuple(_box(entry, fabrics) for entry in top.list_of("boxes", _BOX))
    boxes += _implied_boxes(boxes, fabrics, devices)
    switches = tuple(_switch(entry, fabrics) for entry in top.list_of("switches", _SWITCH))
    switches = switches or tuple(Switch(f"switch-{n}", f"switch-{n}", n, 64) for n in fabrics)
    unique([box.id for box in boxes] + [switch.id for switch in switches], "boxes and switches", "id")
    places = {box.id: box.fabric for box in boxes}
    for device in devices:
        if places.get(device.box) != device.fabric:
            raise SpecError("devices", f"box {device.box!r} of device {device.name} is not a box of its fabric")
    links = _links(top, {*places, *(s.id for s in switches), *(m.name for m in machines)})
    return Topology(boxes, switches, links or _cabled(boxes, switches, machines))


def _implied_boxes(
    boxes: tuple[Box, ...], fabrics: list[int], devices: tuple[DeviceSpec, ...]
) -> tuple[Box, ...]:
    """Return the default box of each fabric, if a device is in it or the fabric has no other box.
    """
    found = []
    for number in fabrics:
        name = f"box-{number}"
        used = sum(device.box == name for device in devices)
        other = any(box.fabric == number for box in boxes)
        if all(box.id != name for box in boxes) and (used or not other):
            found.append(Box(name, name, number, max(used, 1)))
    return tuple(found)


def _box(entry: Fields, fabrics: list[int]) -> Box:
    name = entry.text("id")
    return Box(name, entry.text("name", name), _fabric(entry, fabrics), entry.integer("slots", 16))


def _switch(entry: Fields, fabrics: list[int]) -> Switch:
    name = entry.text("id")
    return Switch(name, entry.text("name", name), _fabric(entry, fabrics), entry.integer("ports", 64))


def _fabric(entry: Fields, fabrics: list[int]) -> int:
    number = entry.integer("fabric")
    if number not in fabrics:
        raise SpecError(entry.at("fabric"), f"{number} is not the id of a fabric. Allowed are {fabrics}")
    return number


def _links(top: Fields, ends: set[str]) -> tuple[Link, ...]:
    found = []
    for entry in top.list_of("links", _LINK):
        for key in ("from", "to"):
            if entry.text(key) not in ends:
                raise SpecError(entry.at(key), f"{entry.text(key)!r} is not a machine, a box or a switch")
        found.append(Link(entry.text("from"), entry.text("to"), entry.text("type", "PCIe"), entry.integer("lanes", 16)))
    return tuple(found)


def _cabled(
    boxes: tuple[Box, ...], switches: tuple[Switch, ...], machines: tuple[MachineSpec, ...]
) -> tuple[Link, ...]:
    """Return cables from all parts of a fabric to the fabric's first switch."""
    first = {switch.fabric: switch.id for switch in reversed(switches)}
    ends = [(box.id, box.fabric) for box in boxes] + [(m.name, m.fabric) for m in machines if m.fabric is not None]
    return tuple(Link(end, first[number]) for end, number in ends if number in first)
