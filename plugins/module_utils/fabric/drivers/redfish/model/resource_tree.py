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
    """One fabric and its collections."""

    fabric: FabricResource
    endpoints: tuple[Endpoint, ...] = ()
    zones: tuple[Zone, ...] = ()
    connections: tuple[Connection, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchTree:
    """One switch of a fabric and its ports."""

    switch: SwitchResource
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything that composition is about. ``parts``: what blocks and endpoints hold, by path."""

    root: ServiceRoot
    systems: tuple[ComputerSystem, ...] = ()
    composition: CompositionService | None = None
    blocks: tuple[ResourceBlock, ...] = ()
    block_zones: tuple[Zone, ...] = ()
    fabrics: tuple[FabricTree, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)
