# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot from which nodes are chosen for gated pods, and the resulting plan.

Snapshots and plans are values that never change. Objects of the cluster are raw JSON that never
changes either, so an object with the same identity is not parsed again. Models have their names at
the CDI Manager. Times are epoch seconds.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import field

from ...model.node import Node
from ...model.pod import Pod
from ...model.value import value
from ..actions import WaitReason
from ..fairness import Shares
from ..node.snapshot import PodRef
from ..settings import DeviceModel

GATE = "composable.infra/devices"
"""Name of the scheduling gate of this collection."""
Json = Mapping[str, t.Any]
Needs = Mapping[str, Mapping[str, int]]
"""Number of devices by claim UID and model."""


@t.runtime_checkable
class SchedulingSettings(t.Protocol):
    """The settings of ``planning.settings.Settings`` that the planner reads.

    ``unserved``: ``release`` or ``wait``. ``allocation_policy``: ``samenode``, ``differentnode`` or
    ``roundrobin``.
    """

    @property
    def models(self) -> tuple[DeviceModel, ...]:
        """Return the rows of ``device_info``."""

    @property
    def unserved(self) -> str:
        """Return whether a pod that no node can serve is released or waits."""

    @property
    def shares(self) -> Shares:
        """Return the limits of the namespaces."""

    @property
    def hold_timeout(self) -> float:
        """Return the seconds that a pod waits for what its plan lacks before it is released."""

    @property
    def allocation_policy(self) -> str:
        """Return which node is chosen among nodes that need the same number of attaches."""

    @property
    def device_classes(self) -> tuple[str, ...]:
        """Return the names of the DeviceClasses with claims for the fabric."""


@value(frozen=True, slots=True)
class IdleDevice:
    """A device in the node's ResourceSlice that is allocated to no claim and reserved for none.

    ``name``: name of its ComposableResource. ``device``: its entry in the ResourceSlice. One entry
    may stand for all devices that are equal except for their UUID. ``driver``: driver of that
    slice, empty for the driver of the model's pools. ``uuid``: the attribute of this name, if the
    entry lacks it.
    """

    name: str
    device: Json
    driver: str = ""
    uuid: str = ""


@value(frozen=True, slots=True)
class Stock:
    """Devices of one model on one node. Each device counts once.

    ``idle``: free to be allocated. ``coming``: attached or requested, not yet idle, and promised to
    no claim that is allocated from a pool. ``bound``: in use, reserved for a claim, or promised to
    such a claim. ``limit``: how many the node may have. Devices that a placement still waits for
    count in ``idle`` and ``coming``. The plan subtracts them.
    """

    idle: tuple[IdleDevice, ...] = ()
    coming: int = 0
    bound: int = 0
    limit: int = 50


@value(frozen=True, slots=True)
class NodeFacts:
    """One node of the cluster. Nodes without a machine are included, since terms about other pods
    count their pods.

    ``node``: what the Node says. ``pods``: pods that are bound or nominated to it and have not
    ended. ``machine``, ``fabric``: the machine and fabric at the CDI Manager, None for none.
    ``problem``: why there is none. ``stock``: by model. A model without an entry has no devices and
    the limit ``default_limit``. ``present``: models of which the node has devices or was promised
    some, also during a detach. ``blocked``: by model, why it cannot be attached for now.
    ``places``: attributes, without their domain, that all devices attached there share, and
    ``BAR_ROOM``, the bytes of memory windows that they may have together. ``driver``: the DRA
    driver in its label, empty for none.
    """

    name: str
    node: Node
    pods: Sequence[Pod] = ()
    machine: str | None = None
    fabric: int | None = None
    problem: str = ""
    stock: Mapping[str, Stock] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = field(default_factory=dict)
    default_limit: int = 50
    places: Mapping[str, str | int] = field(default_factory=dict)
    driver: str = ""


@value(frozen=True, slots=True)
class PodGroup:
    """Pods that get all their devices together, or none.

    ``size``: number of pods in all. ``placed``: pods without the gate that have not ended.
    ``started``: whether one of these has claims, so that the group had its devices once.
    """

    key: str
    size: int
    placed: int = 0
    started: bool = False


@value(frozen=True, slots=True)
class GatedPod:
    """A gated pod.

    ``claims``: raw claims by the name in ``spec.resourceClaims``, None until created. ``since``:
    when the pod was created. ``seen``: since when it is known to be gated, by the clock of the
    plan. 0.0 stands for ``since``. ``problem``: why it is released whatever it requests, else
    empty. It counts from ``problem_from`` on.
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
        """Return since when it waits here."""
        return self.seen or self.since

    @property
    def uid(self) -> str:
        """Return its UID."""
        return str(self.raw["metadata"]["uid"])

    @property
    def ref(self) -> PodRef:
        """Return the reference of the pod."""
        return PodRef(self.raw["metadata"]["namespace"], self.raw["metadata"]["name"], self.raw["metadata"]["uid"])


@value(frozen=True, slots=True)
class Placement:
    """The node chosen for a gated pod. The engine keeps it until the pod is bound, gone or failed.

    ``needs``: devices by claim UID and model. ``devices``: names of idle devices that the plan
    uses, by claim UID. The rest of ``needs`` is coming or must be attached. ``since``: when the
    plan was made. ``holding``: devices of each model that are already reserved for its claims (set
    by the engine).
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


@value(frozen=True, slots=True)
class Release:
    """The gate of a pod is removed although it has no device.

    ``unschedulable``: True if no node can serve it, False if it uses an unsupported feature.
    """

    pod: PodRef
    reason: str
    unschedulable: bool


@value(frozen=True, slots=True)
class SchedulingSnapshot:
    """The whole cluster at one moment, as far as gated pods need it. As ``SharedLister`` of
    kube-scheduler.

    - ``now``: the moment, so that the plan needs no clock.
    - ``nodes``: by name.
    - ``waiting``: gated pods. A pod with a placement is not planned again.
    - ``placements``: nodes chosen by earlier plans for pods that are not bound yet.
    - ``free``: devices that the CDI Manager can still attach, by (model, fabric): not attached, not
      requested, and not promised to a claim that is allocated from a pool.
    - ``returning``: devices that are returning to the fabric, by (model, fabric).
    - ``namespaces``: labels by name. ``classes``: raw DeviceClasses by name.
    - ``samples``: entries of ResourceSlices by (model, DRA driver). More samples show better what
      devices of the model have in common.
    - ``last_placed``: by node, when it was last chosen, for ``roundrobin``.
    - ``excluded``: models that gated pods do not get. They still count for models that cannot share
      a machine. ``of_groups``: those that pods of groups get nevertheless.
    - ``unseen``: why nothing is known of the fabric, empty after the first poll.
    - ``unsure``: by model, why the inventory of the fabric may lack devices.
    - ``used``: devices by namespace and model, including those of placements.
    - ``attached``: by namespace, when devices were attached for it in the last minute.
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


@value(frozen=True, slots=True)
class SchedulingPlan:
    """The decisions for the waiting pods. Each pod has a placement, a release or wait reasons.

    ``placements``: new ones, in the order of the decisions. ``wait_reasons``: one for each claim of
    every pod that continues to wait. ``wake_at``: when to plan again without a change, None if not
    needed.
    """

    placements: tuple[Placement, ...] = ()
    releases: tuple[Release, ...] = ()
    wait_reasons: tuple[WaitReason, ...] = ()
    wake_at: float | None = None
