# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data of a change: the wanted state, the reading before it, the request and the dialect."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...shared.redfish.resources import ComputerSystem, Connection, Endpoint, ResourceBlock, Zone
from ...shared.redfish.service import Service
from ..model.service_model import Host, ServiceModel, Unit


@dataclass(frozen=True, slots=True)
class Change:
    """One unit to attach to a machine (``attach``) or to detach from it."""

    service_model: ServiceModel
    host: Host
    unit: Unit
    attach: bool

    @property
    def initiators(self) -> tuple[str, ...]:
        """The machine's endpoints on the unit's fabric."""
        return self.host.initiators.get(self.unit.fabric_uri or "", ())

    @property
    def target(self) -> str:
        """The unit's endpoint."""
        return self.unit.endpoint.uri if self.unit.endpoint else ""

    @property
    def block(self) -> str:
        """The unit's block."""
        return self.unit.block.uri if self.unit.block else ""


@dataclass(frozen=True, slots=True)
class Preconditions:
    """The reading right before a request. ``strict`` means that the service wants all ETags."""

    system: ComputerSystem | None = None
    blocks: Mapping[str, ResourceBlock] = field(default_factory=dict)
    zone: Zone | None = None
    endpoint: Endpoint | None = None
    zones: tuple[Zone, ...] = ()
    connections: tuple[Connection, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One request that changes something."""

    method: str
    path: str
    body: t.Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Changes = Sequence[Change]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of moving a device.

    ``swaps`` means compare-and-swap, so a repeated request cannot take effect twice. Changes of the
    same ``lane`` go together.
    ``has``: the machine has the unit. ``taken``: another machine has it, alone or also. ``moving``:
    the service is moving it.
    """

    name: str
    swaps: bool
    offered: Callable[[Change], bool]
    lane: Callable[[Change], str]
    read: Callable[[Service, Changes], Preconditions]
    ask: Callable[[Preconditions, Changes], Ask]
    has: Callable[[Preconditions, Change], bool]
    taken: Callable[[Preconditions, Change], bool]
    moving: Callable[[Preconditions, Change], bool]


def link_to(uri: str) -> dict[str, str]:
    """Return a Redfish reference."""
    return {"@odata.id": uri}
