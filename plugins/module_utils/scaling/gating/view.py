# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen picture that pods held by our scheduling gate are planned from, and what the plan may say.

Objects of the cluster are raw JSON and never changed, so that one that is the same object as before is not read again.
Models are named as the CDI Manager names them; times are seconds since the epoch.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..actions import Verdict
from ..settings import DeviceModel
from ..view import PodRef

GATE = "composable.infra/devices"
"""Name of our scheduling gate."""
Json = Mapping[str, t.Any]
Needs = Mapping[str, Mapping[str, int]]
"""Per claim uid: devices of each model."""


@t.runtime_checkable
class GateSettings(t.Protocol):
    """What the planner reads of ``scaling.settings.Settings``.

    ``unserved``: ``release`` or ``wait``; ``allocation_policy``: ``samenode``, ``differentnode`` or ``roundrobin``;
    ``device_classes``: names of the DeviceClasses whose claims the fabric serves.
    """

    @property
    def models(self) -> tuple[DeviceModel, ...]:
        """Rows of ``device_info``."""

    @property
    def unserved(self) -> str:
        """What becomes of a pod that no node can be made to fit."""

    @property
    def allocation_policy(self) -> str:
        """Which of equally good nodes is taken."""

    @property
    def device_classes(self) -> tuple[str, ...]:
        """Names of the DeviceClasses that are served."""


@dataclass(frozen=True, slots=True)
class IdleDevice:
    """A device that is in the node's ResourceSlice, allocated to no claim and held for none.

    ``name``: of its ComposableResource; ``device``: its entry in the ResourceSlice.
    """

    name: str
    device: Json


@dataclass(frozen=True, slots=True)
class Stock:
    """Devices of one model on one node.

    ``coming``: attached or asked for, not yet idle, promised to no claim that is allocated from a pool. ``bound``: in
    use, held, or promised to such a claim. ``limit``: how many the node may have. Each device counts once; what a
    booking still waits for stays in ``idle`` and ``coming``: the planner takes it off.
    """

    idle: tuple[IdleDevice, ...] = ()
    coming: int = 0
    bound: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node of the cluster; nodes that no machine stands for are given too, since their pods count.

    ``pods``: raw pods bound or nominated to it that have not ended. ``present``: models of which the node has
    something or something was asked for, also while it leaves. ``blocked``: why a model cannot be attached for now.
    """

    name: str
    raw: Json
    pods: tuple[Json, ...] = ()
    machine: str | None = None
    fabric: int | None = None
    problem: str = ""
    stock: Mapping[str, Stock] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = field(default_factory=dict)
    default_limit: int = 50


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that get all their devices or none. ``placed``: members that left the gate already (and have not ended)."""

    key: str
    size: int
    placed: int = 0


@dataclass(frozen=True, slots=True)
class GatedPod:
    """A pod that our gate holds. ``claims``: by the name in ``spec.resourceClaims``, None while not created."""

    raw: Json
    claims: Mapping[str, Json | None]
    since: float
    group: Group | None = None

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.raw["metadata"]["uid"])

    @property
    def ref(self) -> PodRef:
        """The pod."""
        return PodRef(self.raw["metadata"]["namespace"], self.raw["metadata"]["name"], self.raw["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class Booking:
    """A node chosen for a gated pod. Made by the planner, kept by the engine until the pod is bound, gone or failed.

    ``devices``: names of the idle devices that were counted on, per claim uid; the rest of ``needs`` is coming or has
    to be attached. ``holding``: devices of each model that are held for its claims already (kept by the engine).
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
    """The gate goes without a device. ``judged``: no node can be made to fit; else the pod was not judged at all."""

    pod: PodRef
    reason: str
    judged: bool


@dataclass(frozen=True, slots=True)
class GateView:
    """The whole cluster at one moment, as far as gated pods are concerned.

    ``free``: devices that the manager may still attach, by (model, fabric): neither attached nor asked for, nor
    promised to a claim that is allocated from a pool. ``namespaces``: labels by name. ``classes``: raw DeviceClasses
    by name. ``samples``: entries of ResourceSlices of nodes, by model, of devices of that model (any number; the more,
    the better it is known what all have in common). ``last_booked``: when a node was last chosen, for ``roundrobin``.
    ``excluded``: models that held pods may not have; they still count where models cannot share a machine.
    """

    now: float
    nodes: Mapping[str, NodeFacts]
    waiting: tuple[GatedPod, ...] = ()
    bookings: tuple[Booking, ...] = ()
    free: Mapping[tuple[str, int], int] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    classes: Mapping[str, Json] = field(default_factory=dict)
    samples: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    last_booked: Mapping[str, float] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GatePlan:
    """New bookings, pods to let go, a verdict per claim of every pod that still waits, and when to look again."""

    bookings: tuple[Booking, ...] = ()
    releases: tuple[Release, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    wake_at: float | None = None
