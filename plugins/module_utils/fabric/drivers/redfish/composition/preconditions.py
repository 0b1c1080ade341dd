# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a change: what is wanted, what was read just before, what is asked, and the shape of a dialect."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...shared.redfish.resources import ComputerSystem, Connection, Endpoint, ResourceBlock, Zone
from ...shared.redfish.service import Service
from ..model.service_model import Host, ServiceModel, Unit


@dataclass(frozen=True, slots=True)
class Change:
    """One unit that a machine is to get (``attach``) or to lose."""

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
    """What was read just before something is asked; ``strict``: the service wants every ETag that there is."""

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
    """One row. ``swaps``: compare-and-swap, so a repeated request cannot take effect twice. ``merges``: a list is
    replaced, so changes of the same ``lane`` go as one request and never two at once.

    ``has``: the machine has the unit. ``taken``: another one has it, alone or too. ``moving``: it is on its way.
    """

    name: str
    swaps: bool
    merges: bool
    offered: Callable[[Change], bool]
    lane: Callable[[Change], str]
    read: Callable[[Service, Changes], Preconditions]
    ask: Callable[[Preconditions, Changes], Ask]
    has: Callable[[Preconditions, Change], bool]
    taken: Callable[[Preconditions, Change], bool]
    moving: Callable[[Preconditions, Change], bool]


def link_to(uri: str) -> dict[str, str]:
    """A reference."""
    return {"@odata.id": uri}
