# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the cluster during one plan: the room, devices and fabric that placed pods have
taken.

This corresponds to kube-scheduler's ``CycleState`` and its snapshot of the cache, in which pods are
assumed and forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .filters.interpod_affinity import InterPodAffinity
from .filters.node_ports import Port, filter_ports
from .filters.node_resources import filter_resources
from .filters.pod_topology_spread import PodTopologySpread
from .framework.node_info import NodeInfo, PlacedPods
from .framework.pod_info import PodInfo
from .parse_cache import ParseCache
from .snapshot import IdleDevice, NodeFacts, Placement, SchedulingSnapshot


@dataclass(frozen=True, slots=True)
class Take:
    """Devices of one model taken on a node.

    ``idle``: idle devices. ``coming``: number of devices that are being attached. ``fresh``: number
    of devices to attach.
    """

    idle: tuple[IdleDevice, ...] = ()
    coming: int = 0
    fresh: int = 0

    @property
    def count(self) -> int:
        """Return the number of devices."""
        return len(self.idle) + self.coming + self.fresh


Takes = Mapping[str, Take]
"""Takes by model."""


@dataclass(slots=True)
class ModelStock:
    """The remaining devices of one model on one node. Fields are those of ``snapshot.Stock``."""

    idle: list[IdleDevice]
    coming: int
    bound: int
    limit: int

    def remove(self, take: Take) -> None:
        """Take devices."""
        names = {device.name for device in take.idle}
        self.idle = [device for device in self.idle if device.name not in names]
        self.coming -= take.coming
        self.bound += take.count

    def put_back(self, take: Take) -> None:
        """Undo ``remove``."""
        self.idle.extend(take.idle)
        self.coming += take.coming
        self.bound -= take.count


@dataclass(slots=True)
class NodeState:
    """One node during a plan.

    ``requested``, ``pods``, ``ports``: of all pods on it. ``last_chosen``: epoch seconds, for
    ``roundrobin``. ``bound``: devices of all models that are in use or taken. ``touched``:
    something of the node was taken. ``placements``: placements of earlier plans that the state was
    made with. ``assumed``: their pods that ``info`` does not count. ``promised``: devices to attach
    for them, by (model, fabric).
    """

    facts: NodeFacts
    info: NodeInfo
    requested: dict[str, int]
    pods: int
    ports: list[Port]
    last_chosen: float
    bound: int
    stocks: dict[str, ModelStock] = field(default_factory=dict)
    touched: bool = False
    placements: tuple[Placement, ...] = ()
    assumed: list[PodInfo] = field(default_factory=list)
    promised: Counter[tuple[str, int]] = field(default_factory=Counter)
    kind: tuple[tuple[object, ...] | None] | None = None
    """Cached result of ``scoring.kind``, None until it is first needed."""

    def stock(self, model: str) -> ModelStock:
        """Return the remaining stock of a model."""
        if model not in self.stocks:
            stock = self.facts.stock.get(model)
            self.stocks[model] = (ModelStock(list(stock.idle), stock.coming, stock.bound, stock.limit) if stock
                                  else ModelStock([], 0, 0, self.facts.default_limit))
        return self.stocks[model]

    def present_models(self) -> set[str]:
        """Return the models of which the node has or will have devices."""
        taken = {m for m, s in self.stocks.items() if s.bound or s.idle or s.coming}
        return taken | self.facts.present | {m for m, s in self.facts.stock.items() if s.bound or s.idle or s.coming}

    def devices(self, taken: Takes) -> Counter[str]:
        """Return the devices by model that the node has or will have.

        ``taken``: further devices of the same pod.
        """
        stocks = {model: self.stock(model) for model in {*self.facts.stock, *self.stocks}}
        found = Counter({model: len(s.idle) + s.coming + s.bound for model, s in stocks.items()})
        found.update({model: take.fresh for model, take in taken.items()})
        return found

    def load(self) -> float:
        """Return the larger of the requested shares of CPU and memory."""
        offered = self.info.allocatable
        return max((self.requested.get(r, 0) / offered[r] for r in ("cpu", "memory") if offered.get(r)), default=0.0)

    def filter_room(self, pod: PodInfo, extended: frozenset[str] = frozenset()) -> str:
        """Return why the node has no room for the pod's requests and host ports, empty if it has.

        ``extended``: resources that devices serve.
        """
        reason = filter_resources(pod.requests, self.requested, self.pods, self.info.allocatable, extended)
        return reason or (filter_ports(pod.ports, self.ports) if pod.ports else "")


class CycleState:
    """All nodes, and the free devices of the fabrics. The snapshot does not change.

    ``changed``: names of nodes in the order of their changes. ``unreserved``: how often something
    was given back. ``totals``: all devices by model and fabric, taken or not.
    """

    def __init__(self, snapshot: SchedulingSnapshot, cache: ParseCache) -> None:
        self.infos = {name: cache.node(facts) for name, facts in snapshot.nodes.items()}
        self.nodes = {name: _node_state(facts, self.infos[name], snapshot.last_placed.get(name, 0.0))
                      for name, facts in snapshot.nodes.items()}
        self.free, self.returning = dict(snapshot.free), Counter(snapshot.returning)
        self._fabric = _on_fabric(snapshot)
        self.totals = Counter(self._fabric)
        for facts in snapshot.nodes.values():
            self.totals.update(_devices(facts))
        self._placed: PlacedPods = {}
        for info in self.infos.values():
            for pod in info.pods:
                self._placed.setdefault(pod.namespace, {})[pod, info.name] = (pod, info)
        self.interpod_affinity = InterPodAffinity(self._placed, snapshot.namespaces)
        self.topology_spread = PodTopologySpread(self._placed, self.infos)
        self.changed: list[str] = []
        self.unreserved = 0
        self._last_choice = snapshot.now
        for name, placements in placements_by_node(snapshot).items():
            if name in self.nodes:
                self._assume_all(self.nodes[name], placements, cache)

    def _assume_all(self, node: NodeState, placements: tuple[Placement, ...], cache: ParseCache) -> None:
        node.placements = placements
        for placement in placements:
            self._assume(node, placement, cache)

    def _assume(self, node: NodeState, placement: Placement, cache: ParseCache) -> None:
        """Take the devices that a placement of an earlier plan still waits for. Named idle devices
        come first.

        Its pod counts on the node, unless it is nominated to the node and so counted already.
        """
        node.last_chosen = max(node.last_chosen, placement.since)
        needs: dict[str, int] = {}
        for models in placement.needs.values():
            for model, n in models.items():
                needs[model] = needs.get(model, 0) + n
        named = {name for names in placement.devices.values() for name in names}
        takes = {model: _outstanding(node.stock(model), n - placement.holding.get(model, 0), named)
                 for model, n in needs.items()}
        self._take_devices(node, takes)
        if node.facts.fabric is not None:
            node.promised.update({(model, node.facts.fabric): take.fresh for model, take in takes.items()})
        if all(pod.uid != placement.pod.uid for pod in node.info.pods):
            pod = cache.pod(placement.raw)
            self._count_room(node, pod, 1)
            self._count_pod(node, pod, 1)
        self._changed(node)

    def replace_node(self, facts: NodeFacts, placements: tuple[Placement, ...], last_placed: float,
                     cache: ParseCache) -> None:
        """Replace a node by its present facts, and undo all that was taken or withheld on it.

        The caller sets ``free``, because only the caller knows what was promised to other nodes.
        """
        old, info = self.nodes[facts.name], cache.node(facts)
        node = _node_state(facts, info, last_placed)
        # The labels of a Node decide where its pods count.
        stays = set(info.pods) & set(old.info.pods) if info.node is old.info.node else set()
        for pod in [*old.assumed, *(pod for pod in old.info.pods if pod not in stays)]:
            self._see_pod(old, pod, -1)
        if info.node is not old.info.node:
            self.topology_spread.forget()
        self.infos[facts.name], self.nodes[facts.name] = info, node
        for pod in info.pods:
            if pod not in stays:
                self._see_pod(node, pod, 1)
        self.totals.subtract(_devices(old.facts))
        self.totals.update(_devices(facts))
        self._assume_all(node, placements, cache)
        self.changed.append(facts.name)

    def renew_fabric(self, snapshot: SchedulingSnapshot) -> None:
        """Take free and returning devices from the snapshot, which must have the nodes of this
        state.
        """
        self.totals.subtract(self._fabric)
        self._fabric = _on_fabric(snapshot)
        self.totals.update(self._fabric)
        before, self.free, self.returning = self.free, dict(snapshot.free), Counter(snapshot.returning)
        for node in self.nodes.values():
            for (model, _fabric), fresh in node.promised.items():
                self._count_free(node, model, -fresh)
        self._last_choice = snapshot.now
        self.unreserved += any(n > before.get(key, 0) for key, n in self.free.items())

    def reserve(self, node: NodeState, pod: PodInfo, takes: Takes) -> None:
        """Put a pod and its devices on a node."""
        self._take_devices(node, takes)
        self._count_room(node, pod, 1)
        self._count_pod(node, pod, 1)
        self._last_choice += 1.0
        node.last_chosen = self._last_choice
        self._changed(node)

    def unreserve(self, node: NodeState, pod: PodInfo, takes: Takes, last_chosen: float) -> None:
        """Undo ``reserve``. ``last_chosen``: value of the node before that."""
        for model, take in takes.items():
            node.stock(model).put_back(take)
            node.bound -= take.count
            self._count_free(node, model, take.fresh)
        self._count_room(node, pod, -1)
        self._count_pod(node, pod, -1)
        node.last_chosen = last_chosen
        self.unreserved += 1
        self._changed(node)

    def withhold(self, node: NodeState, pod: PodInfo | None, takes: Takes, missing: Mapping[str, int]) -> None:
        """Withhold devices, places for ``missing`` devices of each model, and room for a waiting
        pod.

        Terms about other pods do not count the pod, since it is not on the node.
        """
        for model, n in missing.items():
            node.stock(model).bound += n
        self._take_devices(node, takes)
        if pod is not None:
            self._count_room(node, pod, 1)
        self._changed(node)

    def other_pods_matter(self, pod: PodInfo) -> bool:
        """Return whether this pod has terms about other pods, or other pods have terms about it."""
        return pod.has_pod_terms or bool(self.interpod_affinity.existing_terms(pod))

    @property
    def kept(self) -> int:
        """Return how many answers about other pods are kept."""
        return self.interpod_affinity.kept + self.topology_spread.kept

    def available(self, node: NodeState, model: str) -> int:
        """Return how many devices of a model the node's fabric can still attach."""
        fabric = node.facts.fabric
        return max(0, self.free.get((model, fabric), 0)) if fabric is not None else 0

    def total(self, node: NodeState, model: str) -> int:
        """Return the number of all devices of a model on the node's fabric, taken or not."""
        return self.totals[model, node.facts.fabric] if node.facts.fabric is not None else 0

    def _changed(self, node: NodeState) -> None:
        node.touched = True
        self.changed.append(node.facts.name)

    def _take_devices(self, node: NodeState, takes: Takes) -> None:
        for model, take in takes.items():
            node.stock(model).remove(take)
            node.bound += take.count
            self._count_free(node, model, -take.fresh)

    def _count_free(self, node: NodeState, model: str, change: int) -> None:
        if change and node.facts.fabric is not None:
            key = (model, node.facts.fabric)
            self.free[key] = self.free.get(key, 0) + change

    @staticmethod
    def _count_room(node: NodeState, pod: PodInfo, change: int) -> None:
        node.pods += change
        for name, value in pod.requests.items():
            node.requested[name] = node.requested.get(name, 0) + change * value
        for port in pod.ports:
            node.ports.append(port) if change > 0 else node.ports.remove(port)

    def _count_pod(self, node: NodeState, pod: PodInfo, change: int) -> None:
        """Count a pod that came or left in the terms about other pods."""
        node.assumed.append(pod) if change > 0 else node.assumed.remove(pod)
        self._see_pod(node, pod, change)

    def _see_pod(self, node: NodeState, pod: PodInfo, change: int) -> None:
        pods, key = self._placed.setdefault(pod.namespace, {}), (pod, node.facts.name)
        if change > 0:
            pods[key] = (pod, node.info)
        else:
            del pods[key]
        self.interpod_affinity.update(pod, node.info, change)
        self.topology_spread.update(pod, node.info, change)


def placements_by_node(snapshot: SchedulingSnapshot) -> dict[str, tuple[Placement, ...]]:
    """Return the snapshot's placements by node name."""
    found: dict[str, list[Placement]] = {}
    for placement in snapshot.placements:
        found.setdefault(placement.node, []).append(placement)
    return {name: tuple(placements) for name, placements in found.items()}


def _node_state(facts: NodeFacts, info: NodeInfo, last_placed: float) -> NodeState:
    return NodeState(facts, info, dict(info.requested), len(info.pods), list(info.ports), last_placed,
                     bound=sum(stock.bound for stock in facts.stock.values()))


def _on_fabric(snapshot: SchedulingSnapshot) -> Counter[tuple[str, int]]:
    """Return the devices on no node and requested for none: free and returning ones."""
    found: Counter[tuple[str, int]] = Counter(snapshot.free)
    found.update(snapshot.returning)
    return found


def _devices(facts: NodeFacts) -> dict[tuple[str, int], int]:
    """Return the devices that are attached to a node or requested for it."""
    if facts.fabric is None:
        return {}
    return {(model, facts.fabric): len(stock.idle) + stock.coming + stock.bound
            for model, stock in facts.stock.items()}


def _outstanding(stock: ModelStock, n: int, named: set[str]) -> Take:
    """Take ``n`` devices for a placement of an earlier plan, without a check of limits."""
    n = max(0, n)
    idle = sorted(stock.idle, key=lambda device: device.name not in named)[:n]
    coming = min(n - len(idle), max(0, stock.coming))
    return Take(tuple(idle), coming, n - len(idle) - coming)
