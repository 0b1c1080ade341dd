# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways in which Redfish services move a device. The driver uses the safest offered way.

Each row names the condition of the offer, the reading before the request, the request, and the sign
of success. After a lost reply, the ways differ:

================== =============================================================================
AddResourceBlock   The block names its system, and its ETag changes with the request. So a reading
                   shows the outcome, and the same request cannot take effect twice. Adopt, or
                   else repeat.
Connections        A connection of exactly this initiator and this target exists or not. Adopt
                   it, or else the outcome is uncertain, as a second POST could make a second
                   connection.
AddEndpoint        The target is in the machine's zone or not. Adopt it, or else the outcome is
                   uncertain, as not every service has the ETags that stop a late repeat.
Zones              The target is in the machine's zone or not. If-Match makes the repeated PATCH
                   harmless. Adopt, or else repeat.
Compose            The system lists the block or not. Adopt it, or else the outcome is uncertain.
                   A manifest contains the wanted state, and no service must check its ETag. It
                   names every block that the system or the block showed right before.
================== =============================================================================

A service may let two clients attach one unit to two machines. After its own request the driver
reads which machines have the unit. If another machine has it too, the driver detaches it, even if
its own request came first.
"""

from __future__ import annotations

import typing as t

from . import endpoints, resource_blocks
from .preconditions import Change, Dialect, Preconditions


def _never(preconditions: Preconditions, change: Change) -> bool:
    return False


def _block(change: Change) -> str:
    return change.block


def _pair(change: Change) -> str:
    return f"{change.host.uid} {change.target}"


def _zone(change: Change) -> str:
    zone = endpoints.zone_of(change)
    return zone.uri if zone else ""


def _system(change: Change) -> str:
    return change.host.system.uri


# In order of preference, with compare-and-swap first.
DIALECTS: t.Final = (
    Dialect(
        name="AddResourceBlock", swaps=True, offered=resource_blocks.adds_blocks, lane=_block,
        read=resource_blocks.read_blocks, ask=resource_blocks.ask_block, has=resource_blocks.block_is_here,
        taken=resource_blocks.block_is_taken, moving=resource_blocks.block_moves,
    ),
    Dialect(
        name="Connections", swaps=False, offered=endpoints.connects, lane=_pair,
        read=endpoints.read_connections, ask=endpoints.ask_connection, has=endpoints.is_connected,
        taken=endpoints.is_connected_elsewhere, moving=_never,
    ),
    Dialect(
        name="AddEndpoint", swaps=False, offered=endpoints.zone_actions, lane=_pair,
        read=endpoints.read_zone_and_target, ask=endpoints.ask_endpoint, has=endpoints.is_in_zone,
        taken=endpoints.is_in_other_zone, moving=_never,
    ),
    Dialect(
        name="Zones", swaps=True, offered=endpoints.zones, lane=_zone, read=endpoints.read_zones,
        ask=endpoints.ask_zone, has=endpoints.is_in_zone, taken=endpoints.is_in_other_zone, moving=_never,
    ),
    Dialect(
        name="Compose", swaps=False, offered=resource_blocks.composes, lane=_system,
        read=resource_blocks.read_composition, ask=resource_blocks.ask_compose, has=resource_blocks.block_is_here,
        taken=resource_blocks.block_is_taken, moving=resource_blocks.block_moves,
    ),
)


def dialect_for(change: Change) -> Dialect | None:
    """Return the first dialect that the service offers for this change."""
    return next((dialect for dialect in DIALECTS if dialect.offered(change)), None)
