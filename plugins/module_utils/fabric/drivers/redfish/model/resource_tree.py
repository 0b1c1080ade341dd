# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was read from a service, resource by resource, before anybody draws conclusions from it."""

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
    """One fabric and its collections. ``host_zones``: zones that stand for a host port each, says the configuration."""

    fabric: FabricResource
    endpoints: tuple[Endpoint, ...] = ()
    zones: tuple[Zone, ...] = ()
    connections: tuple[Connection, ...] = ()
    host_zones: frozenset[str] = frozenset()

    @property
    def host_ports(self) -> frozenset[str]:
        """Endpoints of machines, also of machines that the service does not show. A device's may say ``Both``."""
        return frozenset(endpoint.uri for endpoint in self.endpoints
                         if any(entity.role == "Initiator" for entity in endpoint.entities()))

    def host_port(self, zone: Zone) -> tuple[str, ...]:
        """The zone itself, on a fabric where zones are host ports: what is in it is a machine's, whoever that is."""
        return (zone.uri,) if self.host_zones else ()

    @property
    def problem(self) -> str:
        """Why nobody knows who has what on this fabric, empty if it is known."""
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
    """Everything that composition is about. ``parts``: what blocks and endpoints hold, by path.

    ``machines``: endpoint or zone by uid of a machine without a ComputerSystem, says the configuration.
    """

    root: ServiceRoot
    systems: tuple[ComputerSystem, ...] = ()
    composition: CompositionService | None = None
    blocks: tuple[ResourceBlock, ...] = ()
    block_zones: tuple[Zone, ...] = ()
    fabrics: tuple[FabricTree, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)
