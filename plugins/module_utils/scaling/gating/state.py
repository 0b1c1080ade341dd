# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster while a plan is made: what pods placed so far have taken of nodes, devices and the fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .memo import Memo, NodeDigest, PodFacts
from .resources import Port, ports_clash
from .topology import Topology
from .view import Booking, GateView, IdleDevice, NodeFacts, Stock

NOTHING = Stock()


@dataclass(frozen=True, slots=True)
class Take:
    """Devices of one model taken on a node: idle ones by name, coming ones, and ``fresh`` ones to be attached."""

    idle: tuple[IdleDevice, ...] = ()
    coming: int = 0
    fresh: int = 0

    @property
    def count(self) -> int:
        """How many devices."""
        return len(self.idle) + self.coming + self.fresh


Takes = Mapping[str, Take]


@dataclass(slots=True)
class Shelf:
    """What is left of one model on one node."""

    idle: list[IdleDevice]
    coming: int
    bound: int
    limit: int


@dataclass(slots=True)
class NodeState:
    """One node while a plan is made. ``turn``: when it was last chosen; ``version`` grows with every change."""

    digest: NodeDigest
    used: dict[str, int]
    pods: int
    ports: list[Port]
    turn: float
    shelves: dict[str, Shelf] = field(default_factory=dict)
    bound: int = 0
    version: int = 0

    @property
    def facts(self) -> NodeFacts:
        """The node as the view has it."""
        return self.digest.facts

    def shelf(self, model: str) -> Shelf:
        """What is left of a model."""
        if model not in self.shelves:
            stock = self.facts.stock.get(model)
            self.shelves[model] = (Shelf(list(stock.idle), stock.coming, stock.bound, stock.limit) if stock
                                   else Shelf([], 0, 0, self.facts.default_limit))
        return self.shelves[model]

    def present(self) -> set[str]:
        """Models of which the node has something, or will have."""
        booked = {m for m, s in self.shelves.items() if s.bound or s.idle or s.coming}
        return booked | self.facts.present | {m for m, s in self.facts.stock.items() if s.bound or s.idle or s.coming}

    def load(self) -> float:
        """The fuller of cpu and memory, as a part of what the node offers."""
        offered = self.digest.allocatable
        return max((self.used.get(r, 0) / offered[r] for r in ("cpu", "memory") if offered.get(r)), default=0.0)

    def lacks(self, pod: PodFacts) -> str:
        """Why the node has no room for the pod's requests and host ports; empty when it has."""
        offered = self.digest.allocatable
        if self.pods + 1 > offered.get("pods", 0):
            return "Too many pods"
        for name, value in pod.requests.items():
            if value and value > offered.get(name, 0) - self.used.get(name, 0):
                return f"Insufficient {name}"
        if pod.ports and any(ports_clash(p, self.ports) for p in pod.ports):
            return "didn't have free ports for the requested pod ports"
        return ""


class State:
    """All nodes and the fabric. What ``place`` does ``undo`` takes back."""

    def __init__(self, view: GateView, memo: Memo) -> None:
        self.view = view
        self.digests = {name: memo.node(facts) for name, facts in view.nodes.items()}
        self.nodes = {name: self._node(digest) for name, digest in self.digests.items()}
        self.free = dict(view.free)
        self._totals = self._count(view)
        self.topology = Topology(self.digests, view.namespaces)
        self.changed: list[str] = []
        self.undone = 0
        self._turns = view.now
        for booking in view.bookings:
            self._book(booking, memo)

    def _node(self, digest: NodeDigest) -> NodeState:
        state = NodeState(digest, dict(digest.used), len(digest.pods), list(digest.ports),
                          self.view.last_booked.get(digest.facts.name, 0.0))
        state.bound = sum(s.bound for s in digest.facts.stock.values())
        return state

    @staticmethod
    def _count(view: GateView) -> Counter[tuple[str, int]]:
        """All devices of a model on a fabric, free and attached."""
        found: Counter[tuple[str, int]] = Counter(view.free)
        for facts in view.nodes.values():
            if facts.fabric is not None:
                for model, stock in facts.stock.items():
                    found[model, facts.fabric] += len(stock.idle) + stock.coming + stock.bound
        return found

    def _book(self, booking: Booking, memo: Memo) -> None:
        """Take what a booking of the view still waits for: idle devices it names, then others, then the fabric's."""
        node = self.nodes.get(booking.node)
        if node is None:
            return
        node.turn = max(node.turn, booking.since)
        uid = booking.pod.uid
        known = any(pod.raw["metadata"]["uid"] == uid for pod in node.digest.pods)
        self.place(node, None if known else memo.pod(booking.raw), self._outstanding(node, booking), turn=False)

    def _outstanding(self, node: NodeState, booking: Booking) -> dict[str, Take]:
        needs: dict[str, int] = {}
        for models in booking.needs.values():
            for model, n in models.items():
                needs[model] = needs.get(model, 0) + n
        named = {name for names in booking.devices.values() for name in names}
        return {model: _take(node.shelf(model), max(0, n - booking.holding.get(model, 0)), named)
                for model, n in needs.items()}

    def place(self, node: NodeState, pod: PodFacts | None, takes: Takes, *, turn: bool = True,
              seen: bool = True) -> None:
        """Put a pod and its devices onto a node; ``seen``: terms about pods shall see it."""
        self._devices(node, takes)
        if pod is not None:
            self._pod(node, pod, 1, seen=seen)
        if turn:
            self._turns += 1.0
            node.turn = self._turns
        self._touch(node)

    def undo(self, node: NodeState, pod: PodFacts, takes: Takes, turn: float) -> None:
        """Take a pod and its devices off a node again; ``turn``: as it was before."""
        for model, take in takes.items():
            shelf = node.shelf(model)
            shelf.idle.extend(take.idle)
            shelf.coming += take.coming
            shelf.bound -= take.count
            node.bound -= take.count
            self._fabric(node, model, take.fresh)
        self._pod(node, pod, -1, seen=True)
        node.turn = turn
        self.undone += 1
        self._touch(node)

    def available(self, node: NodeState, model: str) -> int:
        """Devices of a model that could be attached to the node, as far as its fabric has them."""
        fabric = node.facts.fabric
        return max(0, self.free.get((model, fabric), 0)) if fabric is not None else 0

    def total(self, node: NodeState, model: str) -> int:
        """All devices of a model on the node's fabric, whoever has them."""
        return self._totals[model, node.facts.fabric] if node.facts.fabric is not None else 0

    def reserve(self, node: NodeState, pod: PodFacts | None, takes: Takes, places: Mapping[str, int]) -> None:
        """Keep things for a pod that waits: devices, places for those that are missing, and room. Other pods' terms
        do not see it, since it is not there."""
        for model, n in places.items():
            node.shelf(model).bound += n
        self.place(node, pod, takes, turn=False, seen=False)

    def _devices(self, node: NodeState, takes: Takes) -> None:
        for model, take in takes.items():
            shelf = node.shelf(model)
            names = {d.name for d in take.idle}
            shelf.idle = [d for d in shelf.idle if d.name not in names]
            shelf.coming -= take.coming
            shelf.bound += take.count
            node.bound += take.count
            self._fabric(node, model, -take.fresh)

    def _fabric(self, node: NodeState, model: str, change: int) -> None:
        if change and node.facts.fabric is not None:
            key = (model, node.facts.fabric)
            self.free[key] = self.free.get(key, 0) + change

    def _pod(self, node: NodeState, pod: PodFacts, change: int, *, seen: bool) -> None:
        node.pods += change
        for name, value in pod.requests.items():
            node.used[name] = node.used.get(name, 0) + change * value
        for port in pod.ports:
            node.ports.append(port) if change > 0 else node.ports.remove(port)
        if seen:
            self.topology.place(pod, node.digest, change)

    def _touch(self, node: NodeState) -> None:
        node.version += 1
        self.changed.append(node.facts.name)


def _take(shelf: Shelf, n: int, named: set[str]) -> Take:
    """Take ``n`` devices without asking whether that is allowed: it was decided before."""
    idle = sorted(shelf.idle, key=lambda d: d.name not in named)[:n]
    coming = min(n - len(idle), max(0, shelf.coming))
    return Take(tuple(idle), coming, n - len(idle) - coming)
