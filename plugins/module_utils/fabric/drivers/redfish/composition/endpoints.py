# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move targets of a fabric by connections between endpoints, or by a machine's own zone."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ....errors import Refused
from ...shared.redfish.resources import Connection, Endpoint, FabricResource, Zone
from ...shared.redfish.service import Service
from ..model.resource_tree import FabricTree
from ..reader import connections_of
from .preconditions import Ask, Change, Changes, Preconditions, link_to


def fabric_of(change: Change) -> FabricTree:
    """Return the fabric of the unit from the model."""
    trees = change.service_model.tree.fabrics
    return next((f for f in trees if f.fabric.uri == change.unit.fabric_uri), FabricTree(FabricResource(None)))


def _initiator(change: Change) -> str | None:
    """Return the machine's endpoint that may see the target."""
    zones = fabric_of(change).zones
    shared = [zone.members for zone in zones if change.target in zone.members]
    return next((uri for uri in change.initiators if not zones or any(uri in found for found in shared)), None)


def connects(change: Change) -> bool:
    """Return whether the fabric offers Connections for endpoints that may see each other."""
    if change.unit.endpoint is None or fabric_of(change).fabric.connections is None:
        return False
    if change.attach:
        return _initiator(change) is not None
    return is_connected(Preconditions(connections=fabric_of(change).connections), change)


def read_connections(service: Service, changes: Changes) -> Preconditions:
    """Read all connections of the fabric, as a target may not list its connections."""
    return Preconditions(connections=connections_of(service, fabric_of(changes[0])))


def _ours(preconditions: Preconditions, change: Change) -> list[Connection]:
    mine = set(change.initiators)
    return [c for c in preconditions.connections if change.target in c.targets and mine & set(c.initiators)]


def is_connected(preconditions: Preconditions, change: Change) -> bool:
    """Return whether a connection joins the machine and the target."""
    return bool(_ours(preconditions, change))


def is_connected_elsewhere(preconditions: Preconditions, change: Change) -> bool:
    """Return whether another machine has the target, alone or also."""
    if any(connection.groups for connection in preconditions.connections):
        return True  # The members of an unresolved group are unknown.
    mine = set(change.initiators)
    return any(change.target in c.targets and not set(c.initiators) <= mine for c in preconditions.connections)


def ask_connection(preconditions: Preconditions, changes: Changes) -> Ask:
    """Return the request for a connection of one initiator and target, or for its deletion."""
    change = changes[0]
    if not change.attach:
        return _ask_disconnect(preconditions, change)
    body: dict[str, t.Any] = {
        "Name": f"{change.unit.name} of {change.host.system.name or change.host.uid}",
        "Links": {
            "InitiatorEndpoints": [link_to(_initiator(change) or "")], "TargetEndpoints": [link_to(change.target)],
        },
    }
    if change.unit.chunk:
        chunk = {"AccessCapabilities": ["Read", "Write"], "MemoryChunk": link_to(change.unit.chunk)}
        body |= {"ConnectionType": "Memory", "MemoryChunkInfo": [chunk]}
    return Ask("POST", fabric_of(change).fabric.connections or "", body)


def _ask_disconnect(preconditions: Preconditions, change: Change) -> Ask:
    ours = _ours(preconditions, change)[0]
    if len(ours.targets) > 1 or ours.groups:
        raise Refused(f"connection {ours.uri} connects other devices besides {change.unit.uid}. It was kept")
    if not set(ours.initiators) <= set(change.initiators):
        raise Refused(f"connection {ours.uri} gives {change.unit.uid} to other machines too. It was kept")
    return Ask("DELETE", ours.uri, headers={"If-Match": ours.etag} if ours.etag else {})


def zone_of(change: Change) -> Zone | None:
    """Return the machine's own zone on a fabric without connections. Its members are attached."""
    owners, mine = change.service_model.owners, set(change.initiators)
    zones = (zone for zone in fabric_of(change).zones if mine & {zone.uri, *zone.members})
    alone = (zone for zone in zones if all(owners.get(uri, change.host.uid) == change.host.uid for uri in zone.members))
    return next(alone, None)


def zones(change: Change) -> bool:
    """Return whether the fabric offers Zones, with a zone for this machine alone."""
    if change.unit.endpoint is None or fabric_of(change).fabric.connections is not None:
        return False
    zone = zone_of(change)
    return zone is not None and (change.attach or change.target in zone.members)


def zone_actions(change: Change) -> bool:
    """Return whether the machine's zone offers AddEndpoint and RemoveEndpoint (Zone 1.5)."""
    zone = zone_of(change)
    if zone is None or not zones(change):
        return False
    return (zone.add_endpoint if change.attach else zone.remove_endpoint) is not None


def read_zone_and_target(service: Service, changes: Changes) -> Preconditions:
    """Read all zones of the fabric, and the target alone for its ETag."""
    return replace(read_zones(service, changes), endpoint=service.read(Endpoint, changes[0].target))


def ask_endpoint(preconditions: Preconditions, changes: Changes) -> Ask:
    """Return the request that adds or removes one endpoint, whatever else the zone contains.

    The ETag of the target changes with its zones.
    """
    change, zone = changes[0], preconditions.zone or Zone(None)
    endpoint = preconditions.endpoint
    body: dict[str, t.Any] = {"Endpoint": link_to(change.target)}
    if endpoint is not None and endpoint.etag:
        body["EndpointETag"] = endpoint.etag
    if preconditions.strict and zone.etag:
        body["ZoneETag"] = zone.etag
    return Ask("POST", (zone.add_endpoint if change.attach else zone.remove_endpoint) or "", body)


def read_zones(service: Service, changes: Changes) -> Preconditions:
    """Read all zones of the fabric, and the machine's own zone alone for its ETag."""
    mine = zone_of(changes[0])
    every = service.members(Zone, fabric_of(changes[0]).fabric.zones)
    return Preconditions(zones=every, zone=service.read(Zone, mine.uri) if mine else None)


def is_in_zone(preconditions: Preconditions, change: Change) -> bool:
    """Return whether the machine's zone has the target."""
    return preconditions.zone is not None and change.target in preconditions.zone.members


def is_in_other_zone(preconditions: Preconditions, change: Change) -> bool:
    """Return whether another machine's zone has the target, alone or also."""
    if preconditions.zone is None:
        return True
    fabric, mine = fabric_of(change), preconditions.zone.uri
    hosts = {*change.service_model.owners, *fabric.host_ports} - set(change.initiators)
    rivals = (zone for zone in preconditions.zones if zone.uri != mine and change.target in zone.members)
    return any(hosts & zone.members or fabric.host_port(zone) for zone in rivals)


def ask_zone(preconditions: Preconditions, changes: Changes) -> Ask:
    """Return the request with the zone's whole list of endpoints and its ETag as condition.

    Raise Refused without an ETag, as the list would remove the endpoints that another client has
    just added.
    """
    zone = preconditions.zone or Zone(None)
    if not zone.etag:
        raise Refused(f"cannot move {', '.join(change.unit.uid for change in changes)}: zone {zone.uri} has no ETag, "
                      "and its list of endpoints cannot be replaced safely without one. Nothing was requested")
    leaves = {change.target for change in changes if not change.attach}
    comes = [change.target for change in changes if change.attach]
    wanted = [uri for uri in dict.fromkeys([*zone.endpoints, *comes]) if uri not in leaves]
    body = {"Links": {"Endpoints": [*map(link_to, wanted)]}}
    return Ask("PATCH", zone.uri, body, {"If-Match": zone.etag})
