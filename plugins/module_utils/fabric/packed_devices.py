# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store the devices of a machine in an eighth of their memory.

An inventory of a large fabric has tens of thousands of devices. Nearly all of their attributes are
the same for many devices, so machines share these attributes.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Sequence
from dataclasses import replace

from ..net.uuids import lengthened, shortened
from .api import Device, Machine

# Separates the texts of devices. A device with this character in a text is not packed.
_BETWEEN: t.Final = "\0"
# Number of sets of common attributes that the cache keeps.
_KINDS: t.Final = 1000


class PackedDevices(Sequence[Device]):
    """A sequence equal to a tuple of devices, which builds the devices at each access.

    ``alike`` are the devices without uid, serial and name. Machines with the same devices share one
    such tuple. ``own`` holds the uid, serial and name of each device as compressed text.
    """

    __slots__ = ("_alike", "_machine", "_own")

    def __init__(self, machine: str, alike: tuple[Device, ...], own: bytes) -> None:
        self._machine, self._alike, self._own = machine, alike, own

    def __len__(self) -> int:
        return len(self._alike)

    @t.overload
    def __getitem__(self, place: int) -> Device: ...

    @t.overload
    def __getitem__(self, place: slice) -> Sequence[Device]: ...

    def __getitem__(self, place: int | slice) -> Device | Sequence[Device]:
        return self._devices()[place]

    def __iter__(self) -> t.Iterator[Device]:
        return iter(self._devices())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedDevices):
            return (self._machine, self._own, self._alike) == (other._machine, other._own, other._alike)
        return self._devices() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._devices())

    def __repr__(self) -> str:
        return repr(self._devices())

    def _devices(self) -> tuple[Device, ...]:
        texts = iter(lengthened(self._own).decode(errors="surrogatepass").split(_BETWEEN))
        return tuple(Device(next(texts), like.model, like.kind, like.fabric, self._machine, like.state, like.health,
                            _said(like.serial, next(texts)), _said(like.name, next(texts)), like.size, like.box,
                            like.shared)
                     for like in self._alike)


def packed(machine: Machine) -> Machine:
    """Return the machine with packed devices.

    Return it unchanged if a device names another machine or cannot be packed.
    """
    if not machine.devices or isinstance(machine.devices, PackedDevices):
        return machine
    own = [text for device in machine.devices for text in (device.uid, device.serial or "", device.name or "")]
    if any(device.machine != machine.uid for device in machine.devices) or any(_BETWEEN in text for text in own):
        return machine
    alike = _shared(tuple(_without_own(device) for device in machine.devices))
    text = _BETWEEN.join(own).encode(errors="surrogatepass")
    return replace(machine, devices=PackedDevices(machine.uid, alike, shortened(text)))


def _without_own(device: Device) -> Device:
    """Replace present texts by empty texts. None stays None."""
    return replace(device, uid="", machine=None, serial=None if device.serial is None else "",
                   name=None if device.name is None else "")


@functools.lru_cache(_KINDS)
def _shared(alike: tuple[Device, ...]) -> tuple[Device, ...]:
    return alike


def _said(like: str | None, text: str) -> str | None:
    return None if like is None else text
