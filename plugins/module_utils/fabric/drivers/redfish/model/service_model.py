# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of a service: machines, composable units, and the units of each machine. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ....api import Device, Machine
from ...shared.redfish import device_kinds
from ...shared.redfish.resources import ComputerSystem, Endpoint, ResourceBlock
from .resource_tree import Tree


@dataclass(frozen=True, slots=True)
class Host:
    """A machine. ``initiators`` are its endpoints by fabric. ``zones`` are those of its own blocks.

    ``is_port`` means that it has no ComputerSystem. The configuration names its endpoint, or the
    zone that is its host port and counts as its endpoint.
    """

    uid: str
    system: ComputerSystem
    fabric: int | None
    zones: frozenset[str]
    initiators: Mapping[str, tuple[str, ...]]
    is_port: bool = False

    def machine(self, devices: Iterable[Device]) -> Machine:
        """Return the machine with these devices."""
        name = self.system.name or self.system.ident or self.uid
        return Machine(self.uid, name, self.fabric, tuple(sorted(devices, key=lambda device: device.uid)),
                       self.system.power or None)


@dataclass(frozen=True, slots=True)
class Unit:
    """A resource block, a target endpoint of a fabric, or both for the same device.

    ``hosts`` are the uids of the machines that have it. ``held`` means that a hidden machine has
    it, for example of another tenant. ``usable`` means that it can be attached if no machine has
    it. ``moving`` means that the service is moving it. ``box`` is the Id of its chassis.
    ``problem`` says why one of its resources cannot be read. ``shared`` means that several machines
    have it, and no resource allows that.
    """

    uid: str
    traits: device_kinds.Traits
    name: str
    health: str
    usable: bool
    hosts: tuple[str, ...] = ()
    held: bool = False
    moving: bool = False
    block: ResourceBlock | None = None
    zones: frozenset[str] = frozenset()
    endpoint: Endpoint | None = None
    fabric_uri: str | None = None
    chunk: str | None = None
    box: str | None = None
    problem: str = ""
    shared: bool = False

    @property
    def names(self) -> tuple[str | None, ...]:
        """Possible uids of the unit from the time when no other unit had the same name."""
        found: list[str | None] = [self.block.ident] if self.block else []
        if self.endpoint:
            fabric = (self.fabric_uri or "").rpartition("/")[2]
            found += [self.endpoint.lasting_name(), f"{fabric}/{self.endpoint.ident}"]
        return tuple(found)

    @property
    def never_read(self) -> bool:
        """Whether only the path of its block is known. Then its uid is uncertain too."""
        return self.block is not None and self.block.is_bare

    @property
    def is_free(self) -> bool:
        """Whether no machine has the unit or is getting it."""
        return self.state() == "free"

    def state(self) -> str:
        """Return the state of ``api.Device``.

        ``unavailable`` means reserved by another client, failed, or switched off.
        """
        if self.hosts or self.held:
            return "attached"
        return "attaching" if self.moving else "free" if self.usable else "unavailable"


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """Hosts and units of a service by uid.

    ``numbers`` has the fabric numbers of zones and fabrics by path. ``owners`` has the uids of
    machines by the path of their initiators.
    """

    tree: Tree
    hosts: Mapping[str, Host]
    units: Mapping[str, Unit]
    numbers: Mapping[str, int]
    owners: Mapping[str, str]

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines with their devices."""
        devices: defaultdict[str, list[Device]] = defaultdict(list)
        for unit in self.units.values():
            for uid in unit.hosts:
                devices[uid].append(self.device(unit, self.hosts[uid]))
        return tuple(host.machine(devices[uid]) for uid, host in self.hosts.items())

    def machine(self, uid: str) -> Machine | None:
        """Return one machine, or None."""
        host = self.hosts.get(uid)
        if host is None:
            return None
        return host.machine(self.device(unit, host) for unit in self.units.values() if uid in unit.hosts)

    def device(self, unit: Unit, host: Host | None = None) -> Device:
        """Return the device of a unit, for ``host`` if several machines share the unit."""
        owner = host or (self.hosts[unit.hosts[0]] if unit.hosts else None)
        return Device(
            uid=unit.uid, model=unit.traits.model, kind=unit.traits.kind,
            fabric=owner.fabric if owner else self.number(unit), machine=owner.uid if owner else None,
            state=unit.state(), health=unit.health, serial=unit.traits.serial, name=unit.name, size=unit.traits.size,
            box=unit.box, shared=unit.shared,
        )

    def number(self, unit: Unit) -> int | None:
        """Return the first fabric number of a unit."""
        where = [*sorted(unit.zones), *([unit.fabric_uri] if unit.fabric_uri else [])]
        return next((self.numbers[uri] for uri in where if uri in self.numbers), None)
