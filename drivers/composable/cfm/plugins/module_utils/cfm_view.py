# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cfm-service shows of blades, ports and memory, as values, and what follows from them. No I/O."""

from __future__ import annotations

import re
import typing as t
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import Unreadable
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused

ONLINE: t.Final = "online"
UNUSED: t.Final = "Unused"
USABLE: t.Final = ("OK", "Warning")
HEALTHS: t.Final = (*USABLE, "Critical")
_MODEL: t.Final = re.compile(r"([1-9][0-9]{0,9})(MiB|GiB)")
_HOST_PORT: t.Final = re.compile(r"/cfm/v1/hosts/([^/]+)/ports/[^/]+")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a blade. ``host``: the host that is cabled to it, empty if cfm-service does not show one."""

    ident: str
    host: str
    health: str


@dataclass(frozen=True, slots=True)
class Region:
    """A memory region of a blade, ``size`` in MiB. ``port``: id of its port, empty if it has none."""

    ident: str
    size: int
    port: str


@dataclass(frozen=True, slots=True)
class Blade:
    """A blade. ``path``: its address. ``uid``: the ids of its appliance and itself. ``online``: its parts are shown."""

    path: str
    uid: str
    online: bool
    ports: tuple[Port, ...] = ()
    regions: tuple[Region, ...] = ()

    def port_of(self, region: Region) -> Port | None:
        """Return the port to which a region is assigned."""
        return next((port for port in self.ports if port.ident == region.port), None)

    def free_ports(self, host: str) -> list[Port]:
        """Return the usable ports that lead to a host and have no region. A port takes one region."""
        taken = {region.port for region in self.regions}
        return [each for each in self.ports
                if each.host == host and each.ident not in taken and each.health in USABLE]

    def mistaken_for(self, region: Region) -> list[Region]:
        """Return the regions that cfm-service may unassign in place of another.

        It searches the region by a part of its address, so memorychunk1 finds memorychunk10 too
        (pkg/backend/httpfish.go, UnassignMemory).
        """
        return [each for each in self.regions
                if each.port and each.ident != region.ident and region.ident in each.ident]


@dataclass(frozen=True, slots=True)
class Block:
    """A memory resource block: ``index`` is its place in its ``channel``, ``capacity`` in MiB."""

    channel: int
    index: int
    capacity: int
    unused: bool


@dataclass(frozen=True, slots=True)
class View:
    """The blades, and the fabric of each by its path. ``hidden``: by host, why its memory is not known."""

    blades: tuple[Blade, ...]
    fabrics: Mapping[str, int]
    hosts: tuple[str, ...]
    hidden: Mapping[str, str]

    def machines(self) -> dict[str, Machine]:
        """Return the hosts of which all memory is known, by id."""
        devices = defaultdict[str, list[Device]](list)
        for device in self.devices():
            if device.machine:
                devices[device.machine].append(device)
        return {host: Machine(host, host, self.fabric_of(host), tuple(devices[host]))
                for host in self.hosts if host not in self.hidden}

    def devices(self) -> list[Device]:
        """Return the regions that have a port. Those without are nobody's and not shown."""
        return [self.device(blade, region) for blade in self.blades for region in blade.regions if region.port]

    def device(self, blade: Blade, region: Region) -> Device:
        """Return a region as a device. Without a host of which all is known it is unavailable."""
        port = blade.port_of(region)
        known = port is not None and port.host in self.hosts and port.host not in self.hidden
        return Device(
            uid=f"{blade.uid}/{region.ident}", model=model_of(region.size), kind="memory",
            fabric=self.fabrics[blade.path], machine=port.host if port and known else None,
            state="attached" if known else "unavailable", health=port.health if port else "Unknown",
            name=region.ident, size=region.size,
        )

    def fabric_of(self, host: str) -> int | None:
        """Return the fabric of a host, nothing if no cable of it is known."""
        found = [self.fabrics[blade.path] for blade in self.blades for port in blade.ports if port.host == host]
        return found[0] if found else None

    def free_ports(self, host: str) -> list[tuple[Blade, Port]]:
        """Return all ports on which the host can get a region."""
        return [(blade, port) for blade in self.blades for port in blade.free_ports(host)]


def fabrics(blades: Sequence[Blade]) -> dict[str, int]:
    """Number the fabrics, by the path of each blade. Blades that one host reaches are one fabric."""
    numbers = {blade.path: number for number, blade in enumerate(blades, 1)}
    reached = defaultdict[str, set[str]](set)
    for blade in blades:
        for port in blade.ports:
            if port.host:
                reached[port.host].add(blade.path)
    for _unused in blades:
        for paths in reached.values():
            numbers |= dict.fromkeys(paths, min(numbers[path] for path in paths))
    return numbers


def model_of(size: int) -> str:
    """Return the model of a region of ``size`` MiB, such as 64GiB."""
    return f"{size // 1024}GiB" if size % 1024 == 0 else f"{size}MiB"


def size_of(model: str) -> int:
    """Return the MiB of a model. Raises Refused for a text that is no size, or not written as ``model_of`` does."""
    found = _MODEL.fullmatch(model)
    if not found:
        raise Refused(f"model: {model!r} is not allowed. Name the size of a memory region, such as 64GiB")
    size = int(found[1]) * (1024 if found[2] == "GiB" else 1)
    if model_of(size) != model:
        raise Refused(f"model: {model!r} is not allowed. Write {model_of(size)}")
    return size


def step(blocks: Sequence[Block], qos: int) -> int:
    """Return the MiB of the smallest region: a block of as many channels as ``qos`` asks for."""
    return blocks[0].capacity * min(qos, len({block.channel for block in blocks})) if blocks else 0


def regions(blocks: Sequence[Block], size: int, qos: int) -> int:
    """Return how many regions of ``size`` MiB the unused blocks can be composed into.

    A region takes equally many consecutive blocks of ``qos`` channels (pkg/manager/blade.go, findResourcesByQoS).
    With fewer channels than the blade has, cfm-service may find less.
    """
    least = step(blocks, qos)
    if not least or size % least:
        return 0
    channels = defaultdict[int, set[int]](set)
    for block in blocks:
        if block.unused:
            channels[block.channel].add(block.index)
    width = min(qos, len({block.channel for block in blocks}))
    pieces = [_pieces(indexes, size // least) for indexes in channels.values()]
    count = sum(pieces) // width
    while sum(min(each, count) for each in pieces) < count * width:
        count -= 1
    return count


def _pieces(indexes: Iterable[int], length: int) -> int:
    """Return how many pieces of ``length`` consecutive numbers there are."""
    pieces = run = 0
    before = -2
    for index in sorted(indexes):
        run = run + 1 if index == before + 1 else 1
        before = index
        if run == length:
            pieces, run, before = pieces + 1, 0, -2
    return pieces


def members(body: t.Any) -> list[str]:
    """Return the ids of a collection. An empty one has null for its list. Raises Unreadable."""
    try:
        found = [str(each["uri"]).rpartition("/")[2] for each in body["members"] or ()]
        count = body["memberCount"]
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a collection cannot be read: {error!r}") from None
    if count != len(found):
        raise Unreadable(f"a collection has {len(found)} of {count} members")
    return found


def status(body: t.Any) -> str:
    """Return the status of a host or a blade. Raises Unreadable."""
    found = body.get("status") if isinstance(body, dict) else None
    if not isinstance(found, str):
        raise Unreadable("it has no status")
    return found


def port(body: t.Any) -> Port:
    """Return a port. Raises Unreadable."""
    try:
        linked = _HOST_PORT.fullmatch(body.get("linkedPortUri", ""))
        health = body["statusHealth"]
        return Port(str(body["id"]), linked[1] if linked else "", health if health in HEALTHS else "Unknown")
    except (AttributeError, KeyError, TypeError) as error:
        raise Unreadable(f"a port cannot be read: {error!r}") from None


def region(body: t.Any) -> Region:
    """Return a region. Raises Unreadable."""
    try:
        return Region(str(body["id"]), int(body["sizeMiB"]), str(body.get("memoryAppliancePort", "")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"a memory region cannot be read: {error!r}") from None


def block(body: t.Any) -> Block:
    """Return a memory resource block. Raises Unreadable."""
    try:
        return Block(int(body["channelId"]), int(body["channelResourceIndex"]), int(body["capacityMiB"]),
                     body["compositionStatus"]["compositionState"] == UNUSED)
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"a memory resource block cannot be read: {error!r}") from None


def states(body: t.Any) -> dict[str, bool]:
    """Return which blocks are unused, by id: empty where the blade's firmware does not tell. Raises Unreadable."""
    try:
        return {str(each["id"]): each["compositionStatus"]["compositionState"] == UNUSED
                for each in body["resourceStatuses"]}
    except (KeyError, TypeError) as error:
        raise Unreadable(f"the states of memory resource blocks cannot be read: {error!r}") from None
