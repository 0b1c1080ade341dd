# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the best of the feasible nodes. Scores are kept, so that a thousand equal pods do not
compute them again.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable

from .cycle import NodeState
from .demand import Demand
from .snapshot import NodeFacts
from .supply import Allocation, Rejection, Supplier
from .topology_distance import Distance

Score = tuple[tuple[int, ...], int, int, Distance, float, float, str]
"""The lowest is the best."""


def score(node: NodeState, allocation: Allocation, policy: str) -> Score:
    """Return the score: preferred alternatives first, then fewest attaches, fewest coming devices,
    the nearness of a claim's idle devices, policy, load and name.

    ``policy``: ``samenode`` prefers the machine with most devices in use, so that others become
    empty. ``differentnode`` prefers the one with fewest. ``roundrobin`` prefers the node that was
    chosen longest ago.
    """
    by_policy = {"samenode": -float(node.bound), "differentnode": float(node.bound), "roundrobin": node.last_chosen}
    return (allocation.alternatives, allocation.fresh, allocation.coming, allocation.distance, by_policy[policy],
            node.load(), node.facts.name)


def signature(facts: NodeFacts) -> tuple[object, ...] | None:
    """Return a key: untouched nodes with equal keys get the same allocation.

    None stands for a node with idle devices, since they are its own.
    """
    if any(stock.idle for stock in facts.stock.values()):
        return None
    stocks = tuple(sorted((model, stock.coming, stock.bound, stock.limit) for model, stock in facts.stock.items()))
    return (facts.machine is None, facts.fabric, stocks, facts.present, tuple(sorted(facts.blocked.items())),
            facts.default_limit, tuple(sorted(facts.places.items())), facts.driver)


def kind(node: NodeState) -> tuple[object, ...] | None:
    """Return the signature of an untouched node, None for other nodes."""
    if node.touched:
        return None
    if node.kind is None:
        node.kind = (signature(node.facts),)
    return node.kind[0]


class ScoredNodes:
    """The nodes that can meet one demand, best first, and the reasons against the others.

    ``names``: nodes that pass the filters which no other pod and no device changes.
    """

    def __init__(self, supplier: Supplier, demand: Demand, names: Iterable[str], policy: str) -> None:
        self.supplier, self.state, self.demand, self.policy = supplier, supplier.state, demand, policy
        self.names = frozenset(names)
        self.rejections: dict[str, Rejection] = {}
        self._allocations: dict[str, Allocation] = {}
        self._fresh: dict[str, tuple[tuple[tuple[str, int], int], ...]] = {}
        self._reasons: Counter[str] | None = None
        self._scores: dict[str, Score] = {}
        self._changes_seen, self._unreserved_seen = len(self.state.changed), self.state.unreserved
        self._evaluate_all(self.names, sort=False)
        self.order = sorted(self._scores.values())

    def _evaluate_all(self, names: Iterable[str], *, sort: bool = True) -> None:
        """Evaluate nodes, equal ones only once. Most nodes of a large cluster are equal."""
        answers: dict[tuple[object, ...], Allocation | Rejection] = {}
        for name in names:
            alike = kind(self.state.nodes[name])
            self._evaluate(name, answers.get(alike) if alike else None, sort=sort)
            if alike and alike not in answers:
                answers[alike] = self._allocations.get(name) or self.rejections[name]

    def _evaluate(self, name: str, known: Allocation | Rejection | None, *, sort: bool) -> None:
        """Evaluate a node again. ``known``: the known result, if any. ``sort``: keep ``order``
        sorted.
        """
        if old := self._scores.pop(name, None):
            del self.order[bisect.bisect_left(self.order, old)]
        self._allocations.pop(name, None)
        self.rejections.pop(name, None)
        self._reasons = None
        node = self.state.nodes[name]
        found = known or self.supplier.allocate(node, self.demand)
        if isinstance(found, Rejection):
            self.rejections[name] = found
            return
        self._allocations[name] = found
        fabric = -1 if node.facts.fabric is None else node.facts.fabric
        self._fresh[name] = tuple(((model, fabric), take.fresh) for model, take in found.takes().items() if take.fresh)
        self._scores[name] = score(node, found, self.policy)
        if sort:
            bisect.insort(self.order, self._scores[name])

    def refresh(self) -> None:
        """Evaluate changed nodes again. After something was given back, also evaluate nodes that
        lacked devices.
        """
        changed = set(self.state.changed[self._changes_seen:]) & self.names
        if self._unreserved_seen != self.state.unreserved:
            changed |= {name for name, rejection in self.rejections.items() if not rejection.unresolvable}
        self._changes_seen, self._unreserved_seen = len(self.state.changed), self.state.unreserved
        self._evaluate_all(changed)

    def reasons(self) -> Counter[str]:
        """Return how many nodes are rejected, by reason."""
        if self._reasons is None:
            self._reasons = Counter(rejection.reason for rejection in self.rejections.values())
        return self._reasons

    def best(self, check: Callable[[NodeState], str]) -> tuple[NodeState, Allocation] | None:
        """Return the best node with its allocation for which ``check`` gives no reason, None if
        there is none.

        A node is evaluated again first if its allocation needs free devices that other pods have
        taken.
        """
        self.refresh()
        while True:
            stale: list[str] = []
            found = self._first(check, stale)
            if not stale:
                return found
            self._evaluate_all(stale)

    def _first(self, check: Callable[[NodeState], str], stale: list[str]) -> tuple[NodeState, Allocation] | None:
        """Return the first node in order that passes. Add outdated nodes before it to ``stale``."""
        free = self.state.free
        for entry in self.order:
            name = entry[-1]
            node = self.state.nodes[name]
            if any(n > free.get(key, 0) for key, n in self._fresh[name]):
                stale.append(name)
            elif not check(node):
                return node, self._allocations[name]
        return None
