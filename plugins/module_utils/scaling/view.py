# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen picture of one node that a plan is made from: plain values, no raw JSON, no clock, no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .settings import DeviceModel


@dataclass(frozen=True, slots=True)
class PodRef:
    """A consumer of a claim (``status.reservedFor``)."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PoolResult:
    """One allocation result of a claim that waits on binding conditions (KEP-5007)."""

    driver: str
    pool: str
    device: str
    model: DeviceModel | None
    fabric: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated claim that holds pool devices on a node.

    ``phase`` is CoHDI's device state: ``preparing``, ``reschedule``, ``failed`` or ``ready``; or ``gated`` for a claim
    without an allocation whose pod is held until its devices are on this node (``allocated_at``: since when).
    Times are seconds since the epoch.
    """

    uid: str
    namespace: str
    name: str
    phase: str
    allocated_at: float
    pods: tuple[PodRef, ...]
    results: tuple[PoolResult, ...]

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def need(self) -> Counter[str]:
        """Devices wanted per model of the CDI Manager; results of unknown pools are left out."""
        return Counter(r.model.cdi_model_name for r in self.results if r.model)


@dataclass(frozen=True, slots=True)
class Resource:
    """A ComposableResource on this node, with what its annotations say.

    ``operation``: the handle by which an asynchronous CDI Manager knows its attach.
    """

    name: str
    uid: str
    request: str
    model: str
    node: str
    state: str
    created: float
    device_uid: str = ""
    serial: str = ""
    error: str = ""
    deleting: bool = False
    force_detach: bool = False
    delete_first: bool = False
    last_used: float = 0.0
    in_use: bool = False
    held_for: str = ""
    held_since: float = 0.0
    hold_alive: bool = False
    machine: str = ""
    asked: float = 0.0
    present: frozenset[str] = frozenset()
    operation: str = ""
    busy: bool = False
    visible: bool = False
    used_by: str = ""

    @property
    def idle_since(self) -> float:
        """When it was last used or handed over; a device never used counts from its creation."""
        return max(self.last_used, self.held_since, self.created)


@dataclass(frozen=True, slots=True)
class Request:
    """A ComposabilityRequest for this node."""

    name: str
    uid: str
    model: str
    size: int
    deleting: bool = False
    force_detach: bool = False


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node at one moment.

    ``machine`` and ``fabric`` are None when the CDI Manager knows no machine for the node; ``problem`` then says
    why. ``attached`` maps device uid to model for all that the manager shows on the machine, None when it was not
    read. ``other_requests`` are ComposabilityRequests that exist and are not for this node alone. ``blocked`` maps a
    model to the reason why it cannot be attached here for now.
    """

    name: str
    now: float
    labels: Mapping[str, str] = field(default_factory=dict)
    machine: str | None = None
    fabric: int | None = None
    problem: str = ""
    exists: bool = True
    claims: tuple[Claim, ...] = ()
    resources: tuple[Resource, ...] = ()
    requests: tuple[Request, ...] = ()
    attached: Mapping[str, str] | None = None
    owned: frozenset[str] = frozenset()
    other_requests: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = field(default_factory=dict)

    def live(self, model: str) -> list[Resource]:
        """ComposableResources of a model that are not being deleted."""
        return [r for r in self.resources if r.model == model and not r.deleting]

    def request(self, model: str) -> Request | None:
        """The ComposabilityRequest for a model, the oldest name when there are several."""
        found = [r for r in self.requests if r.model == model and not r.deleting]
        return min(found, key=lambda r: r.name) if found else None

    def models(self) -> list[str]:
        """Every model that something on this node speaks of, sorted."""
        seen = {r.model for r in self.resources} | {r.model for r in self.requests}
        for claim in self.claims:
            seen.update(claim.need())
        return sorted(seen)

    def with_requests(self, requests: tuple[Request, ...]) -> NodeView:
        """The same node as it will be once these requests are written (for plans that look ahead)."""
        return replace(self, requests=requests)
