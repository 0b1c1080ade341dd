# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service's resources mean together: machines, composable units, who has which and who could have it. No I/O."""

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
    """A machine: ``initiators`` are its endpoints by fabric; ``zones`` those of its own blocks.

    ``is_port``: it has no ComputerSystem. The configuration names its endpoint, or the zone that is its host port and
    counts as its endpoint here.
    """

    uid: str
    system: ComputerSystem
    fabric: int | None
    zones: frozenset[str]
    initiators: Mapping[str, tuple[str, ...]]
    is_port: bool = False

    def machine(self, devices: Iterable[Device]) -> Machine:
        """As a machine with these devices."""
        name = self.system.name or self.system.ident or self.uid
        return Machine(self.uid, name, self.fabric, tuple(sorted(devices, key=lambda device: device.uid)),
                       self.system.power or None)


@dataclass(frozen=True, slots=True)
class Unit:
    """What can be attached: a resource block, a fabric's target endpoint, or both for the same thing.

    ``hosts``: uids of machines that have it; ``held``: one has it that the service does not show, another tenant's
    for instance. ``usable``: whether it could be given to a machine when none has it. ``moving``: it is under way.
    ``box``: Id of its chassis. ``problem``: why a resource of it cannot be read now. ``shared``: several machines have
    it, and no resource says that they may.
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
        """What its uid may have been while no other unit had the same name."""
        found: list[str | None] = [self.block.ident] if self.block else []
        if self.endpoint:
            fabric = (self.fabric_uri or "").rpartition("/")[2]
            found += [self.endpoint.lasting_name(), f"{fabric}/{self.endpoint.ident}"]
        return tuple(found)

    @property
    def never_read(self) -> bool:
        """Whether only the path of its block is known: then even its uid is a guess."""
        return self.block is not None and self.block.is_bare

    @property
    def is_free(self) -> bool:
        """Whether no machine has it and none is getting it."""
        return self.state() == "free"

    def state(self) -> str:
        """Of ``api.Device``; ``unavailable``: reserved by another client, failed, or switched off."""
        if self.hosts or self.held:
            return "attached"
        return "attaching" if self.moving else "free" if self.usable else "unavailable"


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """A service as the rest of the fabric side sees it: hosts and units by uid.

    ``numbers`` of zones and fabrics, and ``owners`` (uids) of initiators, by path.
    """

    tree: Tree
    hosts: Mapping[str, Host]
    units: Mapping[str, Unit]
    numbers: Mapping[str, int]
    owners: Mapping[str, str]

    def machines(self) -> tuple[Machine, ...]:
        """All machines with what they have, by one walk over the units."""
        devices: defaultdict[str, list[Device]] = defaultdict(list)
        for unit in self.units.values():
            for uid in unit.hosts:
                devices[uid].append(self.device(unit, self.hosts[uid]))
        return tuple(host.machine(devices[uid]) for uid, host in self.hosts.items())

    def machine(self, uid: str) -> Machine | None:
        """One of them."""
        host = self.hosts.get(uid)
        if host is None:
            return None
        return host.machine(self.device(unit, host) for unit in self.units.values() if uid in unit.hosts)

    def device(self, unit: Unit, host: Host | None = None) -> Device:
        """A unit as a device, of one machine when several share it."""
        owner = host or (self.hosts[unit.hosts[0]] if unit.hosts else None)
        return Device(
            uid=unit.uid, model=unit.traits.model, kind=unit.traits.kind,
            fabric=owner.fabric if owner else self.number(unit), machine=owner.uid if owner else None,
            state=unit.state(), health=unit.health, serial=unit.traits.serial, name=unit.name, size=unit.traits.size,
            box=unit.box, shared=unit.shared,
        )

    def number(self, unit: Unit) -> int | None:
        """The first of the fabrics that a unit can be had on."""
        where = [*sorted(unit.zones), *([unit.fabric_uri] if unit.fabric_uri else [])]
        return next((self.numbers[uri] for uri in where if uri in self.numbers), None)
