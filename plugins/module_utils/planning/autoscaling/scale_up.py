# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether to attach a device or to add a node for pods that kube-scheduler could place
nowhere.

The planner of gated pods judges both the present nodes and the nodes that could be added. A pod
never gets a new node for a device that could be attached, nor a device on a node that
kube-scheduler would refuse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...model.node import Node
from ..device_info import DRIVER_LABEL
from ..node.snapshot import PodRef
from ..scheduling.cycle import CycleState
from ..scheduling.eligibility import unsupported_feature
from ..scheduling.feasibility import filter_node
from ..scheduling.filters.dynamic_resources.extended_resources import classes_by_resource, extended_resources
from ..scheduling.framework.quantity import BadQuantity
from ..scheduling.parse_cache import ParseCache
from ..scheduling.plan import plan_placements
from ..scheduling.snapshot import (
    GatedPod,
    IdleDevice,
    Json,
    NodeFacts,
    Placement,
    SchedulingSettings,
    SchedulingSnapshot,
    Stock,
)

SHARE, ATTACH, NODE = "share", "attach", "node"
METHODS = (SHARE, ATTACH, NODE)
NEW_NODE = "new-node-"
MOST_NEW_NODES = 64
"""Most nodes that one plan adds."""
WAITS = "the pod waits for devices that return to the fabric, or for the limits of its namespace"
NO_NODES = "no node can be added"


@dataclass(frozen=True, slots=True)
class NodeOption:
    """A group to which its provider can add nodes.

    ``node``: what a new Node would say. ``room``: how many more nodes may be added.
    ``coming``: ordered nodes that do not exist yet, which are used first. ``fabric``: fabric of its
    machine, None for none. ``limit``: devices of each model that a node could be given.
    ``devices``: by model, devices that a node brings. ``cost``: of a node, in the unit of
    ``attach_costs``.
    """

    group: str
    node: Node
    room: int
    fabric: int | None = None
    limit: int = 50
    devices: Mapping[str, int] = field(default_factory=dict)
    cost: float = 10.0
    coming: int = 0


@dataclass(frozen=True, slots=True)
class ScaleUpPolicy:
    """Costs and methods by model.

    ``attach_costs``: cost of one attach. A model without an entry costs 1. ``not_attached``: models
    that are not attached for the autoscaler, so that their pods get a node or nothing. ``methods``:
    allowed methods for the pods of a model, in this order at any cost. A model without an entry
    allows all methods, the cheapest first.
    """

    attach_costs: Mapping[str, float] = field(default_factory=dict)
    not_attached: frozenset[str] = frozenset()
    methods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def without(self, method: str) -> frozenset[str]:
        """Return the models that must not use a method."""
        left_out = frozenset(model for model, methods in self.methods.items() if method not in methods)
        return left_out | self.not_attached if method == ATTACH else left_out

    def prefers(self, placement: Placement) -> str:
        """Return the first method for all models of a placement, ``attach`` or ``node``, empty if
        costs decide.
        """
        models = {model for needs in placement.needs.values() for model in needs}
        first = {next((m for m in self.methods.get(model, ()) if m in (ATTACH, NODE)), "") for model in models}
        return first.pop() if len(first) == 1 else ""

    def attaching(self, placement: Placement) -> float:
        """Return the cost of the attaches of a placement."""
        return sum(self.attach_costs.get(model, 1.0) * n for model, n in fresh(placement).items())


@dataclass(frozen=True, slots=True)
class ScaleUpPlan:
    """The result for each pod, in exactly one field.

    ``attaches``: devices on a present node. ``nodes``: how many nodes to add by group, and
    ``on_new_nodes``: for which pods. ``waiting``: served later without an action. ``refused``: with
    the reason.
    """

    attaches: tuple[Placement, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    on_new_nodes: Mapping[PodRef, str] = field(default_factory=dict)
    waiting: Mapping[PodRef, str] = field(default_factory=dict)
    refused: Mapping[PodRef, str] = field(default_factory=dict)


def fresh(placement: Placement) -> Counter[str]:
    """Return the devices by model of a placement that are not idle on its node."""
    found: Counter[str] = Counter()
    for uid, models in placement.needs.items():
        left = len(placement.devices.get(uid, ()))
        for model, n in sorted(models.items()):
            there = min(left, n)
            found[model] += n - there
            left -= there
    return +found


def asks_for_devices(pod: Json, classes: Mapping[str, Json]) -> bool:
    """Return whether a raw pod has claims or requests an extended resource of a DeviceClass
    (KEP-5004).
    """
    try:
        return bool(pod["spec"].get("resourceClaims")) or bool(extended_resources(pod, classes_by_resource(classes)))
    except BadQuantity:
        return True


def plan_scale_up(snapshot: SchedulingSnapshot, settings: SchedulingSettings, options: tuple[NodeOption, ...] = (),
                  policy: ScaleUpPolicy | None = None, cache: ParseCache | None = None) -> ScaleUpPlan:
    """Decide for the waiting pods of a snapshot that are not gated. Pure.

    Arguments: as for ``plan_placements``. ``settings.unserved`` must be ``release``. ``options``:
    which nodes can be added. ``policy``: the costs. A pod gets the cheaper result, and devices if
    both cost the same.

    Result: the plan. Terms about other pods are judged for present nodes, not for nodes that would
    be added.

    Errors: none for objects of the cluster. An object that cannot be read is refused with its
    reason.
    """
    policy, cache = policy or ScaleUpPolicy(), cache or ParseCache()
    with_devices = tuple(pod for pod in snapshot.waiting if asks_for_devices(pod.raw, snapshot.classes))
    plain = tuple(pod for pod in snapshot.waiting if not asks_for_devices(pod.raw, snapshot.classes))
    there = replace(snapshot, waiting=with_devices, excluded=snapshot.excluded | policy.without(ATTACH),
                    of_groups=snapshot.of_groups - policy.without(ATTACH))
    plan = plan_placements(there, settings, cache)
    dear = {each.pod for each in plan.placements if _dearer(each, policy, options)}
    barred = policy.without(ATTACH)
    judged = dear | {release.pod for release in plan.releases if release.unschedulable or barred}
    on_new = replace(snapshot, excluded=snapshot.excluded | policy.without(NODE),
                     of_groups=snapshot.of_groups - policy.without(NODE),
                     free={key: n for key, n in snapshot.free.items() if key[0] not in barred})
    new = _NewNodes(on_new, settings, options, tuple(each for each in plan.placements if each.pod not in dear))
    new.plan(tuple(pod for pod in with_devices if pod.ref in judged), plain)
    attaches = tuple(each for each in plan.placements if each.pod not in new.on_new_nodes)
    reasons = {pod: reason for pod, reason in new.refused.items() if pod not in dear}
    reasons |= {each.pod: each.reason for each in plan.releases if each.pod not in new.on_new_nodes}
    served = {each.pod for each in attaches} | new.on_new_nodes.keys() | reasons.keys()
    waiting = {pod.ref: WAITS for pod in with_devices if pod.ref not in served}
    return ScaleUpPlan(attaches, new.nodes, new.on_new_nodes, waiting, reasons)


def _dearer(placement: Placement, policy: ScaleUpPolicy, options: tuple[NodeOption, ...]) -> bool:
    """Return whether a new node that brings the devices costs less than attaching them, or comes
    first.
    """
    needs = Counter({model: n for models in placement.needs.values() for model, n in models.items()})
    first = policy.prefers(placement)
    if first == ATTACH or policy.without(NODE) & needs.keys():
        return False
    cost = math.inf if first == NODE else policy.attaching(placement)
    return any(option.room and option.cost < cost and all(option.devices.get(m, 0) >= n for m, n in needs.items())
               for option in options)


@dataclass(slots=True)
class _NewNodes:
    """Adds nodes one by one, the cheapest group first, as long as each node serves one more pod."""

    snapshot: SchedulingSnapshot
    settings: SchedulingSettings
    options: tuple[NodeOption, ...]
    attaches: tuple[Placement, ...]
    nodes: Counter[str] = field(default_factory=Counter)
    on_new_nodes: dict[PodRef, str] = field(default_factory=dict)
    refused: dict[PodRef, str] = field(default_factory=dict)

    def plan(self, with_devices: tuple[GatedPod, ...], plain: tuple[GatedPod, ...]) -> None:
        """Plan new nodes. ``plain``: pods that request no device and find no room."""
        for option in sorted(self.options, key=lambda each: (each.cost, each.group)):
            self._grow(option, [p for p in with_devices if p.ref not in self.on_new_nodes],
                       [p for p in plain if p.ref not in self.on_new_nodes])
        for pod in (*with_devices, *plain):
            if pod.ref not in self.on_new_nodes:
                self.refused[pod.ref] = "no node that can be added suits the pod" if self.options else NO_NODES

    def _grow(self, option: NodeOption, with_devices: list[GatedPod], plain: list[GatedPod]) -> None:
        best: list[PodRef] = []
        most = min(option.room + option.coming, len(with_devices) + len(plain), MOST_NEW_NODES)
        for count in range(1, most + 1):
            served = self._served(option, count, with_devices, plain)
            if len(served) <= len(best):
                break
            best = served
            if count > option.coming:
                self.nodes[option.group] = count - option.coming
        self.on_new_nodes.update(dict.fromkeys(best, option.group))

    def _served(self, option: NodeOption, count: int, with_devices: list[GatedPod],
                plain: list[GatedPod]) -> list[PodRef]:
        """Return the pods that ``count`` new nodes of a group would serve."""
        names = [f"{NEW_NODE}{option.group}-{number}" for number in range(count)]
        new = {name: _facts(option, name, self.snapshot) for name in names}
        trial = replace(self.snapshot, nodes=new, placements=(), waiting=tuple(with_devices), free=self._free(),
                        returning={})
        cache = ParseCache()
        placed = plan_placements(trial, self.settings, cache).placements
        state = CycleState(replace(trial, placements=placed), cache)
        return [each.pod for each in placed] + [pod.ref for pod in plain if _reserve_room(state, pod, cache)]

    def _free(self) -> dict[tuple[str, int], int]:
        """Return the free devices of the fabrics after the attaches of the plan."""
        found = Counter(self.snapshot.free)
        for placement in self.attaches:
            fabric = self.snapshot.nodes[placement.node].fabric
            for model, n in fresh(placement).items():
                found[model, fabric if fabric is not None else -1] -= n
        return {key: max(0, n) for key, n in found.items()}


def _reserve_room(state: CycleState, pod: GatedPod, cache: ParseCache) -> bool:
    """Put a pod that requests no device on the first new node with room. Return whether there is
    one.
    """
    if pod.raw["spec"].get("resourceClaims") or unsupported_feature(pod.raw, extended=True):
        return False
    try:
        info = cache.pod(pod.raw)
    except BadQuantity:
        return False
    for node in state.nodes.values():
        if not filter_node(info, node.info) and not node.filter_room(info):
            state.reserve(node, info, {})
            return True
    return False


def _facts(option: NodeOption, name: str, snapshot: SchedulingSnapshot) -> NodeFacts:
    """Return the node as it would be, with the devices that it brings, if their attributes are
    known.
    """
    labels = {**option.node.labels, "kubernetes.io/hostname": name}
    node = replace(option.node, name=name, labels=labels)
    driver = str(labels.get(DRIVER_LABEL) or "")
    samples = {model: found for model in option.devices if (found := _sample(model, driver, snapshot))}
    stock = {model: Stock(tuple(IdleDevice(f"{name}-{i}", samples[model][1], samples[model][0]) for i in range(n)),
                          limit=max(n, option.limit))
             for model, n in option.devices.items() if model in samples}
    on_fabric = option.fabric is not None or bool(stock)
    return NodeFacts(name, node, (), name if on_fabric else None, option.fabric if option.fabric is not None else -1,
                     "" if on_fabric else "the node is on no fabric", stock, default_limit=option.limit, driver=driver)


def _sample(model: str, driver: str, snapshot: SchedulingSnapshot) -> tuple[str, Json] | None:
    """Return the driver and a sample entry of a device of the model. The driver of the node's label
    comes first.
    """
    known = {shown: entries[0] for (name, shown), entries in snapshot.samples.items() if name == model and entries}
    shown = driver if driver in known else next(iter(known), "")
    return (shown, known[shown]) if known else None
