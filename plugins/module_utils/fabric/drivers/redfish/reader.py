# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a whole service, or the resources of one machine. Parts are read once a minute."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...errors import FabricError, Missing
from ...operations.parallel import outcomes
from ..shared.redfish import device_kinds
from ..shared.redfish.fields import Resource
from ..shared.redfish.resources import (
    CompositionService,
    ComputerSystem,
    Connection,
    Endpoint,
    EndpointGroup,
    FabricResource,
    Part,
    ResourceBlock,
    Zone,
)
from ..shared.redfish.service import Service, embedded
from .model.resource_tree import FabricTree, Tree
from .model.service_model import Host, ServiceModel

# Model, size and serial number of a part do not change. Its health may, and if a service shows
# health only there, a change is seen after this time.
PART_SECONDS: t.Final = 60.0
Known: t.TypeAlias = "Mapping[str, Resource] | None"


def connections_of(service: Service, fabric: FabricTree, known: Known = None) -> tuple[Connection, ...]:
    """Return all connections of a fabric, including those that only an endpoint names.

    ``known`` is as in ``Service.read_all``.
    """
    found = service.members(Connection, fabric.fabric.connections, known=known)
    listed = {connection.uri for connection in found}
    named = {uri for endpoint in fabric.endpoints for uri in endpoint.connections} - listed
    every = (*found, *service.read_all(Connection, sorted(named), known))
    groups = dict.fromkeys(uri for connection in every for uri in connection.groups)
    members = _endpoints_of(service, groups) if groups else {}
    return tuple(connection.expanded(members) for connection in every)


def _endpoints_of(service: Service, groups: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the endpoints by endpoint group. Leave out groups that cannot be resolved.

    Such a group is absent, refused or incomplete.
    """
    uris, found = [*groups], dict[str, tuple[str, ...]]()
    for uri, group in zip(uris, outcomes(lambda uri: service.read(EndpointGroup, uri), uris), strict=True):
        if isinstance(group, FabricError):
            if group.status is None:
                raise group
        elif group is not None and group.listed and group.more is None:
            found[uri] = group.endpoints
    return found


class Reader:
    """Reader of a service. Thread-safe. It keeps parts, and the last reading as a substitute.

    ``machines`` is from the configuration: endpoint or zone by uid of a machine.
    """

    def __init__(self, service: Service, machines: Mapping[str, str] | None = None) -> None:
        self._service = service
        self._machines = machines or {}
        self._lock = threading.Lock()
        self._parts: dict[str, tuple[float, Part]] = {}
        self._last: Mapping[str, Resource] = {}

    def tree(self) -> Tree:
        """Read everything from the service root.

        Raise FabricError, and Missing if there is no fabric.

        A box of devices shows its blocks in the service root, without machines (ServiceRoot 1.5 and
        later).
        """
        root, service = self._service.root(), self._service
        if not any((root.systems, root.composition, root.blocks, root.fabrics)):
            raise Missing("the service root has none of Systems, CompositionService, ResourceBlocks and Fabrics: ask "
                          "the service that composes")
        last = self._last
        composition = service.read(CompositionService, root.composition) if root.composition else None
        blocks = (composition.blocks if composition else None) or root.blocks
        tree = Tree(
            root=root, composition=composition, systems=service.members(ComputerSystem, root.systems),
            blocks=service.members(ResourceBlock, blocks, levels=2, known=last),
            block_zones=service.members(Zone, composition.zones if composition else None, known=last),
            fabrics=tuple(self._fabric(entry, last) for entry in service.members(FabricResource, root.fabrics)),
            machines=self._machines,
        )
        fabrics = [each for f in tree.fabrics for each in (*f.endpoints, *f.zones, *f.connections)]
        every: Iterable[Resource] = (*tree.blocks, *tree.block_zones, *fabrics)
        self._last = {each.uri: each for each in every if not each.is_bare}
        return self._with_parts(tree)

    def around(self, known: ServiceModel, host: Host) -> Tree | None:
        """Read one machine again: its system, its blocks and the use of its fabrics.

        Return None if the machine is gone, or does not list its blocks.
        """
        on = tuple(self._grants(f) for f in known.tree.fabrics if f.fabric.uri in host.initiators)
        if host.is_port:
            return self._with_parts(replace(known.tree, systems=(), blocks=(), fabrics=on))
        system = self._service.read(ComputerSystem, host.system.uri)
        if system is None or (known.tree.blocks and not system.blocks):
            return None
        had = [unit.block.uri for unit in known.units.values() if host.uid in unit.hosts and unit.block]
        own = [block.uri for block in known.tree.blocks if system.uri in (*block.systems, *block.own_systems)]
        blocks = tuple(self._service.read_all(ResourceBlock, [*system.blocks, *had, *own]))
        return self._with_parts(replace(known.tree, systems=(system,), blocks=blocks, fabrics=on))

    def _fabric(self, fabric: FabricResource, last: Known) -> FabricTree:
        endpoints = self._service.members(Endpoint, fabric.endpoints, levels=2, known=last)
        ports = frozenset(path for path in self._machines.values() if path.startswith(f"{fabric.uri}/Zones/"))
        return self._grants(FabricTree(fabric, endpoints, host_zones=ports), last)

    def _grants(self, known: FabricTree, last: Known = None) -> FabricTree:
        """Read the zones and connections again. Keep the endpoints and add unlisted ones."""
        zones = self._service.members(Zone, known.fabric.zones, known=last)
        connections = connections_of(self._service, known, last)
        named = {uri for zone in zones for uri in zone.endpoints}
        named |= {uri for c in connections for uri in (*c.initiators, *c.targets)}
        missing = sorted(named - {endpoint.uri for endpoint in known.endpoints})
        endpoints = (*known.endpoints, *self._service.read_all(Endpoint, missing, last))
        return replace(known, zones=zones, connections=connections, endpoints=endpoints)

    def _with_parts(self, tree: Tree) -> Tree:
        wanted = [uri for block in tree.blocks if not device_kinds.is_machine(block)
                  for uri in device_kinds.block_uris(block)]
        wanted += [uri for f in tree.fabrics for endpoint in f.endpoints for uri in device_kinds.entity_uris(endpoint)]
        self._keep(tree)
        found = self._known(wanted)
        further = [uri for part in found.values() for uri in device_kinds.further_uris(part)]
        return replace(tree, parts={**found, **self._known(further)})

    def _keep(self, tree: Tree) -> None:
        """Keep the parts that were embedded in blocks and endpoints."""
        came: dict[str, t.Any] = {}
        for block in tree.blocks:
            came |= embedded(block.body, device_kinds.BLOCK_LISTS)
        for fabric in tree.fabrics:
            for endpoint in fabric.endpoints:
                came |= embedded(endpoint.body, ("ConnectedEntities",))
        self._store(Part(body, uri) for uri, body in came.items())

    def _known(self, uris: Iterable[str]) -> dict[str, Part]:
        now, wanted = time.monotonic(), dict.fromkeys(uris)
        with self._lock:
            last = {uri: entry[1] for uri in wanted if (entry := self._parts.get(uri))}
            held = {uri: part for uri, part in last.items() if self._parts[uri][0] > now}
        read = self._service.read_all(Part, [uri for uri in wanted if uri not in held], last)
        told = [self._told(part) for part in read]
        self._store(part for part in told if not part.unreadable)
        return {**held, **{part.uri: part for part in told}}

    def _told(self, part: Part) -> Part:
        """Replace a collection of functions by its first member."""
        if not part.type_name().endswith("Collection"):
            return part
        first = next(iter(self._service.members(Part, part.uri)), None)
        return Part({**first.body, "@odata.id": part.uri}, part.uri) if first else part

    def _store(self, parts: Iterable[Part]) -> None:
        end = time.monotonic() + PART_SECONDS
        with self._lock:
            self._parts.update((part.uri, (end, part)) for part in parts)
