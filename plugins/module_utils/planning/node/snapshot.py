# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen snapshot of one node from which a plan is made: plain values, no raw JSON, no clock,
no I/O.
"""

from __future__ import annotations

import operator
import typing as t
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, fields, replace

from ...model.request import Request
from ...model.resource import DeviceRecord, Resource
from ...model.value import value
from ..settings import DeviceModel

FOREIGN = "another operator began to attach its device and left no record"
UNREADABLE = "its annotation composable.infra/attach cannot be read"
_READ: t.Final = tuple(each.name for each in fields(DeviceRecord))
_read: t.Final = operator.attrgetter(*_READ)
_REQUESTED: t.Final = tuple(each.name for each in fields(Request))


@value(frozen=True, slots=True)
class PodRef:
    """A pod that uses a claim (``status.reservedFor``)."""

    namespace: str
    name: str
    uid: str

    @property
    def special_claim(self) -> str:
        """Return a stable key of the scheduler's claim for the pod's extended resources (KEP-5004).

        The UID of that claim changes in every scheduling cycle. The namespace in the key keeps
        claims of other namespaces apart.
        """
        return f"{self.namespace}/{self.uid}"


@value(frozen=True, slots=True)
class PoolResult:
    """One allocation result of a claim that waits on binding conditions (KEP-5007)."""

    driver: str
    pool: str
    device: str
    model: DeviceModel | None
    fabric: int | None

    @property
    def pool_device(self) -> str:
        """Return the name that a ComposableResource records for it."""
        return f"{self.pool}/{self.device}"


@value(frozen=True, slots=True)
class Claim:
    """An allocated claim that holds pool devices on a node. Times are epoch seconds.

    ``phase`` is CoHDI's device state: ``preparing``, ``reschedule``, ``failed`` or ``ready``. Two
    further phases are for claims without an allocation. ``gated``: the pod is gated until its
    devices are on this node, and ``allocated_at`` is when it was gated. ``requested``: the pod
    waits for kube-scheduler, and the autoscaler's provider chose this node.

    ``unfit``: ComposableResources of this node with devices that kube-scheduler would not allocate
    to the claim. ``unfit_why``: the reason. ``given_up``: why it is served no more, after devices
    were reserved for it in vain. ``direct``: it keeps the devices that are attached for it.
    ``given``: its pool devices (``<pool>/<device>``) that have a ComposableResource of the node.
    ``named``: idle ComposableResources with which its pod was planned.
    """

    uid: str
    namespace: str
    name: str
    phase: str
    allocated_at: float
    pods: tuple[PodRef, ...]
    results: tuple[PoolResult, ...]
    unfit: frozenset[str] = frozenset()
    unfit_why: str = ""
    given_up: str = ""
    direct: bool = False
    given: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def need(self) -> Counter[str]:
        """Return the number of devices needed per model of the CDI Manager.

        Results of unknown pools and pre-assigned devices are left out.
        """
        return Counter(r.model.cdi_model_name for r in self.results if r.model and r.pool_device not in self.given)

    def not_given(self, model: str) -> list[str]:
        """Return the pool devices of a model without an assigned device, if the handover is
        ``direct``.
        """
        return [r.pool_device for r in self.results if self.direct and r.model and r.model.cdi_model_name == model
                and r.pool_device not in self.given]


@value(frozen=True, slots=True)
class ComposableResource(DeviceRecord):
    """A ComposableResource on this node, with what other objects and this process say about it.

    Times are epoch seconds.

    - ``last_used``: the last use that the object or this process knows.
    - ``held_for``, ``held_since``: the claim (its UID) for which it is reserved now.
    - ``visible``: a ResourceSlice of the node shows the device or a part of it.
    - ``usable``: a ResourceSlice shows the whole device, and the node operations are done, so that
      a pod can get it. A pool device is usable after the node operations.
    - ``tainted``: kube-scheduler allocates it to no claim any more.
    - ``doubted_since``: when this process first noticed that it is unknown whether it was requested.
    - ``shown_by``: DRA drivers that publish the whole device.
    - ``also_on``: another machine with the same device at the CDI Manager, else empty.
    - ``departed``: how its device left the machine of a node that is gone, in a sentence. Empty if
      it has not, or not for long enough.
    - ``departed_at``: when it will be long enough.
    """

    held_for: str = ""
    held_since: float = 0.0
    hold_alive: bool = False
    busy: bool = False
    visible: bool = False
    usable: bool = False
    tainted: bool = False
    used_by: str = ""
    doubted_since: float = 0.0
    shown_by: tuple[str, ...] = ()
    also_on: str = ""
    departed: str = ""
    departed_at: float | None = None

    @classmethod
    def of(cls, resource: Resource, **seen: t.Any) -> ComposableResource:
        """Return what a plan reads of an object, with what was seen besides. A field that was seen
        wins."""
        return cls(**{**dict(zip(_READ, _read(resource), strict=True)), **seen})

    @property
    def rivalry(self) -> str:
        """Return why no pod can get the device although a ResourceSlice shows it, else an empty
        text.

        The reason is that two claims, or two machines, could have the device.
        """
        if self.also_on:
            return (f"the CDI Manager shows {self.serial or self.name} on {self.also_on} too, so two machines could "
                    "use it. Detach it from one of them")
        if len(self.shown_by) < 2:
            return ""
        drivers = " and ".join(self.shown_by)
        return (f"the DRA drivers {drivers} of node {self.node} both show {self.serial or self.name}, so two claims "
                "could have it. Remove one of the drivers from the node")

    @property
    def assignable(self) -> bool:
        """Return whether it can become a pool device: it has no device yet that a slice could have
        shown.
        """
        return not (self.device_uid or self.pool_device or self.taken or self.deleting or self.reclaims or self.doubt)

    @property
    def taken(self) -> bool:
        """Return whether a claim uses the device, or the device is reserved for a claim."""
        return bool(self.used_by) or self.hold_alive

    @property
    def idle_since(self) -> float:
        """Return when the device was last used or handed over. A device never used counts from its
        creation.
        """
        return max(self.last_used, self.held_since, self.created)


@value(frozen=True, slots=True)
class ComposabilityRequest(Request):
    """A ComposabilityRequest for this node.

    ``lacks``: what of ``other_spec`` the node lacks, in a sentence. ``nodeless``: it names no node.
    ``size`` is then the share of this node, and only its author changes the size of the object.
    """

    lacks: str = ""
    nodeless: bool = False

    @classmethod
    def of(cls, request: Request, **seen: t.Any) -> ComposabilityRequest:
        """Return what an object says, with what is so on this node. A field that is given wins."""
        return cls(**{name: getattr(request, name) for name in _REQUESTED if name not in seen}, **seen)


@value(frozen=True, slots=True)
class NodeSnapshot:
    """One node at one moment. Times are epoch seconds.

    - ``machine``, ``fabric``: None if the CDI Manager has no machine for the node. ``problem`` then
      says why.
    - ``attached``: model by device UID of everything on the machine, None if the machine was not
      read.
    - ``owned``: devices that a ComposableResource has.
    - ``leaving``: owned devices of another node's resource that is being deleted. They were
      detached there, and the reply was lost.
    - ``other_requests``: ComposabilityRequests that name no node and are not planned yet.
    - ``blocked``: by model, why it cannot be attached here for now.
    - ``unread``: the machine had to be read again, and the read failed.
    - ``over_quota``: by claim UID, why its namespace may not have the devices.
    - ``no_agent``: why node operations are not possible now, empty if they are.
    - ``fabric_seen``: this process has polled the CDI Manager at least once.
    - ``may_release``: False while there are gated pods for which an earlier process may have
      attached devices.
    - ``lost``: why the node is certainly out of use, else empty. ``lost_at``: when it will count as
      lost.
    - ``not_lost``: why a node that has been gone for long enough may still be in use, else empty.
    - ``last_machine``: machine of a node that is gone now.
    - ``sizes``: by model, smallest and largest number of devices that the CDI Manager allows on the
      machine. None is no limit.
    - ``prewarm``: by model, how many idle devices stay.
    - ``bar_room``: bytes of memory windows (BARs) that all devices may have together, None if
      unknown.
    """

    name: str
    now: float
    labels: Mapping[str, str] = field(default_factory=dict)
    machine: str | None = None
    fabric: int | None = None
    problem: str = ""
    exists: bool = True
    claims: tuple[Claim, ...] = ()
    resources: tuple[ComposableResource, ...] = ()
    requests: tuple[ComposabilityRequest, ...] = ()
    attached: Mapping[str, str] | None = None
    owned: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    other_requests: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = field(default_factory=dict)
    unread: bool = False
    over_quota: Mapping[str, str] = field(default_factory=dict)
    no_agent: str = ""
    fabric_seen: bool = True
    may_release: bool = True
    lost: str = ""
    lost_at: float | None = None
    not_lost: str = ""
    last_machine: str = ""
    sizes: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    prewarm: Mapping[str, int] = field(default_factory=dict)
    bar_room: int | None = None

    def forced(self, resource: ComposableResource) -> bool:
        """Return whether the detach of the device is forced, by its own spec or that of its
        ComposabilityRequest.
        """
        return resource.force_detach or any(r.force_detach for r in self.requests if r.name == resource.request)

    def live(self, model: str) -> list[ComposableResource]:
        """Return the ComposableResources of a model that are not being deleted."""
        return [r for r in self.resources if r.model == model and not r.deleting]

    def request(self, model: str) -> ComposabilityRequest | None:
        """Return the ComposabilityRequest of a model for this node alone, the first by name if
        there are several.
        """
        found = [r for r in self.requests if r.model == model and not (r.deleting or r.nodeless)]
        return min(found, key=lambda r: r.name) if found else None

    def return_idle(self, model: str) -> float:
        """Return the moment before which idle devices of a model need not stay, in epoch seconds,
        0.0 for never.
        """
        return max((r.return_idle for r in self.requests if r.model == model), default=0.0)

    def elsewhere(self, model: str) -> int:
        """Return how many devices of a model here belong to requests that name no node.

        No other request counts them in its size.
        """
        nodeless = {r.name for r in self.requests if r.nodeless} | self.other_requests
        return sum(r.request in nodeless for r in self.live(model))

    def models(self) -> list[str]:
        """Return every model of the resources, requests and claims of this node, sorted."""
        seen = {r.model for r in self.resources} | {r.model for r in self.requests}
        for claim in self.claims:
            seen.update(claim.need())
        return sorted(seen)

    def with_requests(self, requests: tuple[ComposabilityRequest, ...]) -> NodeSnapshot:
        """Return the same node with these requests, for plans that look ahead."""
        return replace(self, requests=requests)
