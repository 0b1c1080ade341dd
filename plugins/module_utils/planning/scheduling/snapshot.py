# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot from which nodes are chosen for pods that our scheduling gate holds, and the plan that comes out.

All of it is values: nobody changes a snapshot or a plan. Objects of the cluster are raw JSON and never changed either,
so that one that is the same object as before is not read again. Models are named as the CDI Manager names them; times
are seconds since the epoch.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..actions import WaitReason
from ..fairness import Shares
from ..node.snapshot import PodRef
from ..settings import DeviceModel

GATE = "composable.infra/devices"
"""Name of our scheduling gate."""
Json = Mapping[str, t.Any]
Needs = Mapping[str, Mapping[str, int]]
"""Number of devices by claim uid and model."""


@t.runtime_checkable
class SchedulingSettings(t.Protocol):
    """What the planner reads of ``planning.settings.Settings``.

    ``unserved``: ``release`` or ``wait``; ``allocation_policy``: ``samenode``, ``differentnode`` or ``roundrobin``.
    """

    @property
    def models(self) -> tuple[DeviceModel, ...]:
        """Rows of ``device_info``."""

    @property
    def unserved(self) -> str:
        """Whether a pod that no node can serve is let go or waits."""

    @property
    def shares(self) -> Shares:
        """What a namespace may take."""

    @property
    def hold_timeout(self) -> float:
        """Seconds that a pod waits for what its plan lacks before it is let go."""

    @property
    def allocation_policy(self) -> str:
        """Which of nodes with as many devices to attach is taken."""

    @property
    def device_classes(self) -> tuple[str, ...]:
        """Names of the DeviceClasses whose claims the fabric serves."""


@dataclass(frozen=True, slots=True)
class IdleDevice:
    """A device that is in the node's ResourceSlice, allocated to no claim and reserved for none.

    ``name``: of its ComposableResource; ``device``: its entry in the ResourceSlice, where the same entry may stand for
    all devices that are alike but for their UUID; ``driver``: of that slice, empty for that of the model's pools.
    ``uuid``: the attribute of that name, where the entry lacks it.
    """

    name: str
    device: Json
    driver: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Stock:
    """Devices of one model on one node.

    ``idle``: free to be allocated. ``coming``: attached or asked for, not yet idle, and promised to no claim that is
    allocated from a pool. ``bound``: in use, held for a claim, or promised to such a claim. ``limit``: how many the
    node may have. Each device counts once. Devices that a placement still waits for count in ``idle`` and ``coming``;
    the plan subtracts them.
    """

    idle: tuple[IdleDevice, ...] = ()
    coming: int = 0
    bound: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node of the cluster. Nodes without a machine are given too, since terms about other pods count their pods.

    ``raw``: the Node object. ``pods``: raw pods bound or nominated to it that have not ended. ``machine`` and
    ``fabric``: the CDI Manager's names for what the node runs on, None when there is none; ``problem``: why there is
    none. ``stock``: by model; a model that is missing has none, and ``default_limit`` as its limit. ``present``: models
    of which the node has devices or was promised some, also while they are being detached. ``blocked``: by model, why
    it cannot be attached for now. ``places``: attributes, without their domain, that all devices attached there share,
    and ``BAR_ROOM``, how many bytes of memory windows they may have together.
    ``driver``: the DRA driver that its label names, empty for none.
    """

    name: str
    raw: Json
    pods: Sequence[Json] = ()
    machine: str | None = None
    fabric: int | None = None
    problem: str = ""
    stock: Mapping[str, Stock] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = field(default_factory=dict)
    default_limit: int = 50
    places: Mapping[str, str | int] = field(default_factory=dict)
    driver: str = ""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that get all their devices or none.

    ``size``: how many there are in all; ``placed``: those whose gate was opened and that have not ended. ``started``:
    whether one of these has claims, so that the group had its devices once.
    """

    key: str
    size: int
    placed: int = 0
    started: bool = False


@dataclass(frozen=True, slots=True)
class GatedPod:
    """A pod that our gate holds.

    ``claims``: raw claims by the name in ``spec.resourceClaims``, None while one is not created; ``since``: when the
    pod was created. ``seen``: since when it is known to be held, by the clock of the plan; 0.0: ``since``.
    ``problem``: why it is let go whatever it asks for, empty for nothing; it counts from ``problem_from`` on.
    """

    raw: Json
    claims: Mapping[str, Json | None]
    since: float
    group: PodGroup | None = None
    seen: float = 0.0
    problem: str = ""
    problem_from: float = 0.0

    @property
    def held_since(self) -> float:
        """Since when it waits here."""
        return self.seen or self.since

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.raw["metadata"]["uid"])

    @property
    def ref(self) -> PodRef:
        """The pod."""
        return PodRef(self.raw["metadata"]["namespace"], self.raw["metadata"]["name"], self.raw["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class Placement:
    """The node chosen for a gated pod. The plan makes it; the engine keeps it until the pod is bound, gone or failed.

    ``needs``: devices by claim uid and model. ``devices``: names of idle devices that the plan counts on, by claim uid;
    the rest of ``needs`` is coming or has to be attached. ``since``: when the plan was made. ``holding``: devices of
    each model that are held for its claims already (set by the engine).
    """

    pod: PodRef
    node: str
    needs: Needs
    since: float
    raw: Json = field(repr=False, compare=False)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    group: str = ""
    reason: str = ""
    holding: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """The gate of a pod is removed though it has no device.

    ``unschedulable``: True when no node can serve it, False when it uses something that is not supported here.
    """

    pod: PodRef
    reason: str
    unschedulable: bool


@dataclass(frozen=True, slots=True)
class SchedulingSnapshot:
    """The whole cluster at one moment, as far as gated pods are concerned. As ``SharedLister`` of kube-scheduler.

    ``now``: the moment, so that the plan needs no clock. ``nodes``: by name. ``waiting``: pods that our gate holds; one
    that has a placement is not planned again. ``placements``: nodes chosen by earlier plans for pods that are not bound
    yet. ``free``: devices that the manager may still attach, by (model, fabric): neither attached nor asked for, nor
    promised to a claim that is allocated from a pool. ``returning``: devices that are on their way back to the fabric,
    by (model, fabric). ``namespaces``: labels by name. ``classes``: raw DeviceClasses
    by name. ``samples``: entries of ResourceSlices by (model, DRA driver); the more there are, the better it is known
    what devices of the model have in common. ``last_placed``: by node, when it was last chosen, for ``roundrobin``.
    ``excluded``: models that held pods do not get; they still count where models cannot share a machine. ``of_groups``:
    those of them that pods of groups get all the same. ``unseen``: why nothing is known of the fabric, empty when it
    was seen. ``unsure``: why the inventory of the fabric may lack devices, by model.
    ``used``: devices by namespace and model, those of placements included. ``attached``: by namespace, when
    devices were attached for it in the last minute.
    """

    now: float
    nodes: Mapping[str, NodeFacts]
    waiting: tuple[GatedPod, ...] = ()
    placements: tuple[Placement, ...] = ()
    free: Mapping[tuple[str, int], int] = field(default_factory=dict)
    returning: Mapping[tuple[str, int], int] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    classes: Mapping[str, Json] = field(default_factory=dict)
    samples: Mapping[tuple[str, str], tuple[Json, ...]] = field(default_factory=dict)
    last_placed: Mapping[str, float] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    of_groups: frozenset[str] = frozenset()
    unseen: str = ""
    unsure: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[tuple[str, str], int] = field(default_factory=dict)
    attached: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulingPlan:
    """What is decided for the waiting pods; each has a placement, a release or wait reasons.

    ``placements``: new ones, in the order in which they were decided. ``wait_reasons``: one for each claim of every pod
    that goes on waiting. ``wake_at``: when to plan again though nothing changes, None when that is not needed.
    """

    placements: tuple[Placement, ...] = ()
    releases: tuple[Release, ...] = ()
    wait_reasons: tuple[WaitReason, ...] = ()
    wake_at: float | None = None
