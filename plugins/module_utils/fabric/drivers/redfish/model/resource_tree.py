# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of a service as read, without conclusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...shared.redfish.resources import (
    CompositionService,
    ComputerSystem,
    Connection,
    Endpoint,
    FabricResource,
    Part,
    Port,
    ResourceBlock,
    ServiceRoot,
    SwitchResource,
    Zone,
)


@dataclass(frozen=True, slots=True)
class FabricTree:
    """One fabric and its collections.

    ``host_zones`` are the zones that the configuration uses as host ports.
    """

    fabric: FabricResource
    endpoints: tuple[Endpoint, ...] = ()
    zones: tuple[Zone, ...] = ()
    connections: tuple[Connection, ...] = ()
    host_zones: frozenset[str] = frozenset()

    @property
    def host_ports(self) -> frozenset[str]:
        """Endpoints of machines, even hidden ones. A device's endpoint may be ``Both``."""
        return frozenset(endpoint.uri for endpoint in self.endpoints
                         if any(entity.role == "Initiator" for entity in endpoint.entities()))

    def host_port(self, zone: Zone) -> tuple[str, ...]:
        """Return the zone itself if zones are host ports. A machine has its members."""
        return (zone.uri,) if self.host_zones else ()

    @property
    def problem(self) -> str:
        """Why the owners of devices on this fabric are unknown, or empty if they are known."""
        groups = sorted({uri for connection in self.connections for uri in connection.groups})
        said = [each.unreadable for each in (*self.endpoints, *self.zones, *self.connections) if each.unreadable]
        return "; ".join([*said, *([f"{', '.join(groups)} cannot be resolved"] if groups else [])])


@dataclass(frozen=True, slots=True)
class SwitchTree:
    """One switch of a fabric and its ports."""

    switch: SwitchResource
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """All resources for composition. ``parts`` are the contents of blocks and endpoints, by path.

    ``machines`` is from the configuration: endpoint or zone by uid of a machine without a
    ComputerSystem.
    """

    root: ServiceRoot
    systems: tuple[ComputerSystem, ...] = ()
    composition: CompositionService | None = None
    blocks: tuple[ResourceBlock, ...] = ()
    block_zones: tuple[Zone, ...] = ()
    fabrics: tuple[FabricTree, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)
