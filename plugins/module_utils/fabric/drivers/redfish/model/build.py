# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the model of a service from its resources, with links in both directions. No I/O.

Services leave out either direction of a link.
"""

from __future__ import annotations

import typing as t
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ...shared.redfish import device_kinds
from ...shared.redfish.fields import Resource
from ...shared.redfish.resources import ComputerSystem, Endpoint, Part, ResourceBlock, system_uids
from .resource_tree import FabricTree, Tree
from .service_model import Host, ServiceModel, Unit

# Stable numbers for zones and fabrics without a numeric Id, above usual numbers.
FIRST_MADE_UP: t.Final = 10_000
MADE_UP: t.Final = 90_000
# EndpointProtocol of a target that serves namespaces.
NVME_OF: t.Final = "NVMeOverFabrics"


def service_model(tree: Tree, known: ServiceModel | None = None) -> ServiceModel:
    """Return the machines and units of a service.

    ``known`` is the whole model if ``tree`` is only a part of the service.
    """
    numbers = _numbers(tree)
    places = _block_zones(tree)
    uids = system_uids((known.tree if known else tree).systems)
    hosts = {host.uid: host for host in _hosts(tree, numbers, places, uids)}
    elsewhere = [host for host in known.hosts.values() if not host.is_port] if known else []
    hosts |= {host.uid: host for host in _ports(tree, numbers, [*hosts.values(), *elsewhere])}
    of_system = {host.system.uri: host.uid for host in hosts.values()}
    owners = {uri: host.uid for host in hosts.values() for found in host.initiators.values() for uri in found}
    everyone = {**known.owners, **owners} if known else owners
    found = _merged_units(_block_units(tree, of_system, places), _endpoint_units(tree, hosts, everyone))
    units = _named(found, known.units.values() if known else ())
    return ServiceModel(tree, hosts, {unit.uid: unit for unit in units}, numbers, everyone)


def _merged_units(
    blocks: Iterable[tuple[Unit, tuple[str, ...]]], endpoints: Iterable[tuple[Unit, tuple[str, ...]]]
) -> list[Unit]:
    """Return each unit once. A block and its endpoints share a link.

    Two endpoints belong together if they share the link that identifies them best.
    """
    things: list[_Thing] = []
    at: defaultdict[str, list[_Thing]] = defaultdict(list)
    for unit, uris in (*blocks, *endpoints):
        same = next((thing for uri in uris for thing in at[uri] if thing.is_same(unit, uris)), None)
        thing = same or _Thing(unit)
        thing.add(unit, uris)
        if same is None:
            things.append(thing)
        for uri in uris:
            at[uri].append(thing)
    return [thing.unit for thing in things]


class _Thing:
    """A unit under construction, with the links of its block and, by type, of its endpoints."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._held = frozenset[str]()
        self._links: dict[str, set[str]] = {}

    def add(self, unit: Unit, uris: tuple[str, ...]) -> None:
        """Add a block, or one more endpoint of the same unit."""
        if unit.endpoint is None:
            self._held |= set(uris)
            return
        if unit is not self.unit:
            self.unit = _merged(self.unit, unit)
        for kind, found in device_kinds.entity_links(unit.endpoint).items():
            self._links.setdefault(kind, set()).update(found)

    def is_same(self, unit: Unit, uris: tuple[str, ...]) -> bool:
        """Return whether a unit that shares a link is this unit."""
        if unit.endpoint is None:
            return False
        links = device_kinds.entity_links(unit.endpoint)
        both = next((kind for kind in device_kinds.ENTITY_ORDER if kind in links and kind in self._links), None)
        return bool(self._held & set(uris)) or (both is not None and bool(links[both] & self._links[both]))


def _named(units: Iterable[Unit], known: Iterable[Unit]) -> list[Unit]:
    """Return the units with the uids from the whole service, ``known``.

    If several units would have one uid, each has its path instead.
    """
    names = {path: unit.uid for unit in known for path in _own_paths(unit)}
    taken = frozenset(names.values())
    listed = list(units)
    often = Counter(unit.uid for unit in listed)
    found = []
    for unit in listed:
        path = _own_paths(unit)[0]
        own = path if often[unit.uid] > 1 or unit.uid in taken else unit.uid
        found.append(replace(unit, uid=names.get(path, own)))
    return found


def number(ident: str | None, uri: str) -> int:
    """Return the number of a fabric: its Id if it is a number, or else a stable number."""
    if ident and ident.isascii() and ident.isdigit():
        return int(ident)
    return FIRST_MADE_UP + zlib.crc32(uri.encode()) % MADE_UP


def _numbers(tree: Tree) -> dict[str, int]:
    found = {zone.uri: number(zone.ident, zone.uri) for zone in tree.block_zones}
    found |= {entry.fabric.uri: number(entry.fabric.ident, entry.fabric.uri) for entry in tree.fabrics}
    if tree.composition and not tree.block_zones:
        found[tree.composition.uri] = 1
    return found


def _block_zones(tree: Tree) -> Mapping[str, frozenset[str]]:
    """Return the zones by block. Without zones, the composition service is the only zone."""
    if tree.composition and not tree.block_zones:
        return {block.uri: frozenset({tree.composition.uri}) for block in tree.blocks}
    known = {zone.uri for zone in tree.block_zones}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for zone in tree.block_zones:
        for block_uri in zone.blocks:
            found[block_uri].add(zone.uri)
    for block in tree.blocks:
        found[block.uri].update(known & set(block.zones))
    return {uri: frozenset(zones) for uri, zones in found.items()}


def _hosts(
    tree: Tree, numbers: Mapping[str, int], places: Mapping[str, frozenset[str]], uids: Mapping[str, str]
) -> Iterable[Host]:
    own = _own_blocks(tree)
    for system in tree.systems:
        initiators = {f.fabric.uri: found for f in tree.fabrics if (found := _initiators(f, system))}
        zones = frozenset[str]().union(*(places.get(uri, frozenset()) for uri in own[system.uri]))
        if system.add_block and not own.get(system.uri):
            # The machine has no block, so no zone limits it.
            zones = frozenset(uri for found in places.values() for uri in found)
        uid = uids.get(system.uri, system.uri)
        yield Host(uid, system, _fabric_of(zones, initiators, numbers), zones, initiators)


def _ports(tree: Tree, numbers: Mapping[str, int], systems: Collection[Host]) -> Iterable[Host]:
    """Return the machines that the configuration names by an endpoint or a zone.

    Skip a machine if a ComputerSystem has its uid or its endpoint.
    """
    uids = {host.uid for host in systems}
    ends = {uri for host in systems for found in host.initiators.values() for uri in found}
    for uid, path in tree.machines.items():
        for fabric in tree.fabrics:
            zones = fabric.zones if fabric.fabric.connections is None else ()
            there = any(each.uri == path for each in (*fabric.endpoints, *zones))
            if there and uid not in uids and path not in ends:
                initiators = {fabric.fabric.uri: (path,)}
                system = ComputerSystem({"Id": uid, "Name": uid}, path)
                yield Host(uid, system, _fabric_of((), initiators, numbers), frozenset(), initiators, is_port=True)


def _fabric_of(zones: Iterable[str], initiators: Iterable[str], numbers: Mapping[str, int]) -> int | None:
    """Return the fabric number of a machine, from its block zones or else from its fabrics."""
    found = sorted(numbers[uri] for uri in zones if uri in numbers)
    return found[0] if found else min((numbers[uri] for uri in initiators), default=None)


def _own_blocks(tree: Tree) -> Mapping[str, set[str]]:
    """Return the blocks that are machines themselves, by path of the system."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    listed = {uri: system.uri for system in tree.systems for uri in system.blocks}
    for block in tree.blocks:
        cpus = device_kinds.holds_cpus(_parts(tree, device_kinds.block_uris(block)))
        if not (device_kinds.is_machine(block) or cpus):
            continue
        for system_uri in {*block.systems, *block.own_systems, listed.get(block.uri, "")}:
            found[system_uri].add(block.uri)
    return found


def _initiators(fabric: FabricTree, system: ComputerSystem) -> tuple[str, ...]:
    """Return the endpoints of a fabric that belong to the machine or its parts."""
    return tuple(
        endpoint.uri for endpoint in fabric.endpoints
        if endpoint.uri in system.endpoints or any(
            entity.role in ("Initiator", "Both") and _is_below(entity.target, system.uri)
            for entity in endpoint.entities()
        )
    )


def _block_units(
    tree: Tree, of_system: Mapping[str, str], places: Mapping[str, frozenset[str]]
) -> Iterable[tuple[Unit, tuple[str, ...]]]:
    listed: defaultdict[str, list[str]] = defaultdict(list)
    for system in tree.systems:
        for uri in system.blocks:
            listed[uri].append(system.uri)
    for block in tree.blocks:
        uris = device_kinds.block_uris(block)
        if device_kinds.is_machine(block) or device_kinds.holds_cpus(_parts(tree, uris)):
            continue
        systems = dict.fromkeys([*block.systems, *listed[block.uri]])
        has = tuple(of_system[uri] for uri in systems if uri in of_system)
        uid = block.ident or block.uri
        held = bool(systems) and not has
        unit = _block_unit(uid, block, _parts(tree, uris), has, held, places.get(block.uri, frozenset()))
        yield replace(unit, shared=len(systems) > 1 and not block.sharing), uris


def _block_unit(
    uid: str, block: ResourceBlock, parts: list[Part], has: tuple[str, ...], held: bool, zones: frozenset[str]
) -> Unit:
    statuses = [block.status, *(part.status for part in parts)]
    moving = block.composition == "Composing"
    problem = _problem((block, *parts))
    ready = block.composition in (None, "Unused") and not block.reserved and not device_kinds.is_gone(block.status)
    return Unit(
        uid=uid, traits=device_kinds.traits(parts, block.types), name=block.name or block.uri,
        health="Critical" if block.composition == "Failed" else device_kinds.worst(*statuses),
        usable=ready and not problem,
        hosts=() if moving else has, held=held and not moving, moving=moving, block=block, zones=zones,
        box=device_kinds.box_of((*parts, block)), problem=problem,
    )


def _endpoint_units(
    tree: Tree, hosts: Mapping[str, Host], owners: Mapping[str, str]
) -> Iterable[tuple[Unit, tuple[str, ...]]]:
    slots: defaultdict[str, list[str]] = defaultdict(list)
    for host in hosts.values():
        for device in host.system.pcie_devices:
            slots[device].append(host.uid)
    for fabric in tree.fabrics:
        granted = _granted(fabric, owners)
        for endpoint in fabric.endpoints:
            uris = device_kinds.entity_uris(endpoint)
            if uris:
                users = sorted(uid for uid in granted[endpoint.uri] if uid and uid in hosts)
                has = tuple(dict.fromkeys([*users, *_plugged(uris, slots)]))
                unit = _endpoint_unit(fabric, endpoint, _parts(tree, uris), has)
                others = granted[endpoint.uri] - hosts.keys()
                several = len(granted[endpoint.uri]) > 1 and not fabric.problem
                yield replace(unit, held=bool(others) and not unit.hosts, shared=several), uris


def _endpoint_unit(fabric: FabricTree, endpoint: Endpoint, parts: list[Part], has: tuple[str, ...]) -> Unit:
    statuses = [endpoint.status, *(part.status for part in parts)]
    chunks = (e.target for e in endpoint.entities() if e.entity_type == "MemoryChunk")
    traits = device_kinds.traits(parts)
    if endpoint.protocol == NVME_OF and traits.kind in ("", "network"):
        # Some services show only the controller of the target.
        traits = replace(traits, kind="storage")
    return Unit(
        uid=endpoint.lasting_name() or f"{fabric.fabric.ident}/{endpoint.ident}", traits=traits,
        name=endpoint.name or endpoint.uri, health=device_kinds.worst(*statuses),
        usable=not device_kinds.is_gone(*statuses) and not _problem((endpoint, *parts)),
        hosts=has, endpoint=endpoint, fabric_uri=fabric.fabric.uri, chunk=next(chunks, None),
        box=device_kinds.box_of(parts), problem=_problem((endpoint, *parts)),
    )


def _problem(resources: Iterable[Resource]) -> str:
    """Return why the resources of a unit cannot be read, or an empty text."""
    return "; ".join(each.unreadable for each in resources if each.unreadable)


def _granted(fabric: FabricTree, owners: Mapping[str, str]) -> defaultdict[str, set[str | None]]:
    """Return the machines by target, from connections, or from zones if there are no connections.

    None stands for a machine that the service does not show. A zone without host ports is only a
    store, unless zones of the fabric are host ports. While a resource of the fabric cannot be read,
    any machine may have any target.
    """
    groups = [(c.initiators, c.targets) for c in fabric.connections]
    if fabric.fabric.connections is None:
        ports = fabric.host_ports
        known = [tuple(uri for uri in (zone.uri, *zone.endpoints) if uri in owners) for zone in fabric.zones]
        groups = [(uris or tuple(uri for uri in zone.endpoints if uri in ports) or fabric.host_port(zone),
                   zone.endpoints) for zone, uris in zip(fabric.zones, known, strict=True)]
    found: defaultdict[str, set[str | None]] = defaultdict(set)
    if fabric.problem:
        found.update((endpoint.uri, {None}) for endpoint in fabric.endpoints)
    for initiators, targets in groups:
        for target in targets:
            found[target].update(owners.get(uri) for uri in initiators)
    return found


def _plugged(uris: Iterable[str], slots: Mapping[str, list[str]]) -> list[str]:
    """Return the machines that list the device or its carrier among their own PCIe devices."""
    pieces = [uri.split("/") for uri in uris]
    above = ("/".join(words[:n]) for words in pieces for n in range(len(words), 1, -1))
    return [uid for uri in above if uri in slots for uid in slots[uri]]


def _parts(tree: Tree, uris: Iterable[str]) -> list[Part]:
    found = [tree.parts[uri] for uri in uris if uri in tree.parts]
    further = [tree.parts[uri] for part in found for uri in device_kinds.further_uris(part) if uri in tree.parts]
    return [*found, *further]


def _merged(block: Unit, endpoint: Unit) -> Unit:
    """Merge a block and an endpoint of one unit, or two endpoints. The first gives the name."""
    return replace(
        block, hosts=tuple(dict.fromkeys([*block.hosts, *endpoint.hosts])), usable=block.usable and endpoint.usable,
        held=block.held or endpoint.held, moving=block.moving or endpoint.moving,
        endpoint=block.endpoint or endpoint.endpoint, fabric_uri=block.fabric_uri or endpoint.fabric_uri,
        chunk=block.chunk or endpoint.chunk, box=block.box or endpoint.box,
        health=device_kinds.graver(block.health, endpoint.health), problem=block.problem or endpoint.problem,
        shared=block.shared or endpoint.shared,
    )


def _own_paths(unit: Unit) -> list[str]:
    return [resource.uri for resource in (unit.block, unit.endpoint) if resource is not None]


def _is_below(uri: str | None, parent: str) -> bool:
    return uri is not None and (uri == parent or uri.startswith(f"{parent}/"))
