# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen snapshot of one node that a plan is made from: plain values, no raw JSON, no clock, no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..settings import DeviceModel

FOREIGN = "another operator was attaching it and left no journal"
UNREADABLE = "its annotation composable.infra/attach cannot be read"


@dataclass(frozen=True, slots=True)
class PodRef:
    """A consumer of a claim (``status.reservedFor``)."""

    namespace: str
    name: str
    uid: str

    @property
    def special_claim(self) -> str:
        """By what the claim is known that the scheduler makes for the pod's extended resources (KEP-5004): it is made
        anew in each cycle, with another uid. The namespace keeps others' claims from passing for it."""
        return f"{self.namespace}/{self.uid}"


@dataclass(frozen=True, slots=True)
class PoolResult:
    """One allocation result of a claim that waits on binding conditions (KEP-5007)."""

    driver: str
    pool: str
    device: str
    model: DeviceModel | None
    fabric: int | None

    @property
    def pool_device(self) -> str:
        """By what a ComposableResource names it."""
        return f"{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated claim that holds pool devices on a node.

    ``phase`` is CoHDI's device state: ``preparing``, ``reschedule``, ``failed`` or ``ready``; or ``gated`` for a claim
    without an allocation whose pod is held until its devices are on this node (``allocated_at``: since when), or
    ``requested`` for one whose pod waits for the scheduler, and for which the autoscaler's provider chose this node.
    Times are seconds since the epoch. ``unfit``: ComposableResources of this node whose devices the scheduler would not
    give to it, and why; ``given_up``: why it is served no more, after it was handed devices in vain.

    ``direct``: it keeps the very devices that are attached for it. ``given``: those of its pool devices
    (``<pool>/<device>``) that a ComposableResource of the node is. ``named``: idle ComposableResources that its pod was
    planned with.
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
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def need(self) -> Counter[str]:
        """Devices wanted per model of the CDI Manager; results of unknown pools are left out, and what it has been
        given."""
        return Counter(r.model.cdi_model_name for r in self.results if r.model and r.pool_device not in self.given)

    def not_given(self, model: str) -> list[str]:
        """Pool devices of a model that no device was attached for yet, where it keeps what it is given."""
        return [r.pool_device for r in self.results if self.direct and r.model and r.model.cdi_model_name == model
                and r.pool_device not in self.given]


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What was done on the node about one device, as its hands wrote it down.

    ``asked``: it was asked to let the device go. ``prepared``: driver bound, device touched, plugin told. ``removed``:
    off the bus. ``last_step``: the last thing that was done, as evidence.py names it. ``trouble``: what went wrong, in
    a sentence; ``fatal``: the device cannot be used on this node; ``warning``: it is used all the same.
    """

    asked: bool = False
    prepared: bool = False
    removed: bool = False
    last_step: str = ""
    trouble: str = ""
    fatal: bool = False
    warning: bool = False


@dataclass(frozen=True, slots=True)
class ComposableResource:
    """A ComposableResource on this node, with what its annotations say.

    ``operation``: the handle by which an asynchronous CDI Manager knows its attach. ``visible``: a ResourceSlice of the
    node shows the device or a part of it. ``usable``: it shows the whole device, and the node has done its part, so
    that a pod can be given it. ``tainted``: the scheduler gives it to nobody any more.
    ``doubt``: why nobody knows whether it was asked for (``FOREIGN``, ``UNREADABLE``), empty when it is known;
    ``doubted_since``: when this process saw that first. ``reclaims``: the device that CoHDI's upstream syncer made it
    for. ``pool_device``: as which pool device one claim has it, or is about to; no ResourceSlice of the node shows it
    then, and it is ``usable`` when the node has done its part. ``shown_by``: DRA drivers that show the whole device.
    ``also_on``: which other machine has the device, as the CDI Manager shows it; empty for none. ``departed``: how its
    device has left the machine of a node that is gone, in a sentence, empty while it has not or not for long enough;
    ``departed_at``: when it will be long enough, in seconds since the epoch.
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
    usable: bool = False
    tainted: bool = False
    used_by: str = ""
    node_work: NodeWork = NodeWork()
    doubt: str = ""
    doubted_since: float = 0.0
    reclaims: str = ""
    pool_device: str = ""
    shown_by: tuple[str, ...] = ()
    also_on: str = ""
    departed: str = ""
    departed_at: float | None = None

    @property
    def rivalry(self) -> str:
        """Why no pod can be given it though a ResourceSlice shows it: two claims, or two machines, could have it."""
        if self.also_on:
            return (f"the CDI Manager shows {self.serial or self.name} on {self.also_on} too, so two machines could "
                    "use it; detach it from one of them")
        if len(self.shown_by) < 2:
            return ""
        drivers = " and ".join(self.shown_by)
        return (f"{self.serial or self.name} is shown by the DRA drivers {drivers} of node {self.node} at once, "
                "so two claims could have it; take one of them from the node")

    @property
    def assignable(self) -> bool:
        """Whether it can become a pool device: nobody can have been shown the device, for it is not there yet."""
        return not (self.device_uid or self.pool_device or self.taken or self.deleting or self.reclaims or self.doubt)

    @property
    def taken(self) -> bool:
        """Whether a claim uses the device, or it is kept for one that is about to."""
        return bool(self.used_by) or self.hold_alive

    @property
    def idle_since(self) -> float:
        """When it was last used or handed over; a device never used counts from its creation."""
        return max(self.last_used, self.held_since, self.created)


@dataclass(frozen=True, slots=True)
class ComposabilityRequest:
    """A ComposabilityRequest for this node. ``lacks``: what of ``other_spec`` the node does not have, in a sentence.

    ``nodeless``: it names no node; ``size`` is the share of this one, and nobody but its author changes its own.
    ``type``: as CoHDI calls the kind of devices. ``return_idle``: devices that have been idle since before that moment
    need not stay, in seconds since the epoch. ``claims``: uids of those that its size was set for, as far as that was
    written down.
    """

    name: str
    uid: str
    model: str
    size: int
    deleting: bool = False
    force_detach: bool = False
    lacks: str = ""
    nodeless: bool = False
    type: str = "gpu"
    return_idle: float = 0.0
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """One node at one moment.

    ``machine`` and ``fabric`` are None when the CDI Manager knows no machine for the node; ``problem`` then says why.
    ``attached`` maps device uid to model for all that the manager shows on the machine, None when it was not read.
    ``owned``: those that a ComposableResource has; ``leaving``: those of them that one of another node has, which is
    being deleted: they were detached there, and the answer was lost. ``other_requests`` are ComposabilityRequests that
    name no node and were not planned yet. ``blocked`` maps a model to the reason why it cannot be attached here for
    now. ``unread``: a fresh reading of the machine was needed and could not be had. ``over_quota``: by uid, why the
    namespace of a claim may not have its devices. ``no_hands``: why nobody can do the node's part now, empty when
    somebody can. ``fabric_seen``: the CDI Manager was seen once by this process. ``may_release``: False while pods are
    held that an earlier process may have attached devices for. ``lost``: why its node is certainly out of use, empty
    when it is not; ``lost_at``: when it will count as that, in seconds since the epoch. ``not_lost``: why a node that
    has been gone for long enough may still be in use, empty where that is not in the way. ``last_machine``: which one a
    node had that is gone now. ``sizes``: by model, the smallest and largest number of devices that the CDI Manager
    allows on the machine; a number that is None is not limited. ``prewarm``: by model, how many idle devices stay.
    ``bar_room``: bytes of memory windows (BARs) that the devices may have together, None where that is not known.
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
    no_hands: str = ""
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
        """Whether the device leaves whatever is found: by its own word, or by that of its ComposabilityRequest now."""
        return resource.force_detach or any(r.force_detach for r in self.requests if r.name == resource.request)

    def live(self, model: str) -> list[ComposableResource]:
        """ComposableResources of a model that are not being deleted."""
        return [r for r in self.resources if r.model == model and not r.deleting]

    def request(self, model: str) -> ComposabilityRequest | None:
        """The ComposabilityRequest for a model and this node alone, the first name when there are several."""
        found = [r for r in self.requests if r.model == model and not (r.deleting or r.nodeless)]
        return min(found, key=lambda r: r.name) if found else None

    def return_idle(self, model: str) -> float:
        """Since before when an idle device of a model need not stay here, in seconds since the epoch; 0.0 for never."""
        return max((r.return_idle for r in self.requests if r.model == model), default=0.0)

    def elsewhere(self, model: str) -> int:
        """Devices of a model here that belong to requests which name no node: they are in no other request's size."""
        nodeless = {r.name for r in self.requests if r.nodeless} | self.other_requests
        return sum(r.request in nodeless for r in self.live(model))

    def models(self) -> list[str]:
        """Every model that something on this node speaks of, sorted."""
        seen = {r.model for r in self.resources} | {r.model for r in self.requests}
        for claim in self.claims:
            seen.update(claim.need())
        return sorted(seen)

    def with_requests(self, requests: tuple[ComposabilityRequest, ...]) -> NodeSnapshot:
        """The same node as it will be once these requests are written (for plans that look ahead)."""
        return replace(self, requests=requests)
