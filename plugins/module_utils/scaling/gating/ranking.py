# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that can serve a demand, the best first; kept up to date, so that a thousand equal pods do not ask again."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable

from .demand import Demand
from .state import NodeState
from .supply import Objection, Option, Supplier

Score = tuple[tuple[int, ...], int, int, float, float, str]


def score(node: NodeState, option: Option, policy: str) -> Score:
    """Fewest attaches, then devices on their way, then the policy, then the load; what the pod prefers before all.

    ``samenode`` fills the machines that have most, so that others free up; ``differentnode`` the opposite;
    ``roundrobin`` takes the node that was chosen longest ago.
    """
    by_policy = {"samenode": -float(node.bound), "differentnode": float(node.bound), "roundrobin": node.turn}
    return option.rank, option.fresh, option.coming, by_policy[policy], node.load(), node.facts.name


class Ranking:
    """The order of nodes for one demand, among those that are allowed whatever else they hold."""

    def __init__(self, supplier: Supplier, demand: Demand, names: Iterable[str], policy: str) -> None:
        self.supplier, self.state, self.demand, self.policy = supplier, supplier.state, demand, policy
        self.names = frozenset(names)
        self.options: dict[str, Option] = {}
        self.objections: dict[str, Objection] = {}
        self._needs: dict[str, tuple[tuple[tuple[str, int], int], ...]] = {}
        self._summary: Counter[str] | None = None
        self._scores: dict[str, Score] = {}
        self._read, self._undone = len(self.state.changed), self.state.undone
        for name in self.names:
            self._evaluate(name, sort=False)
        self.order = sorted(self._scores.values())

    def _evaluate(self, name: str, *, sort: bool = True) -> None:
        """Ask the supplier anew about a node."""
        if old := self._scores.pop(name, None):
            del self.order[bisect.bisect_left(self.order, old)]
        node = self.state.nodes[name]
        answer = self.supplier.option(node, self.demand)
        self.options.pop(name, None)
        self.objections.pop(name, None)
        self._summary = None
        if isinstance(answer, Objection):
            self.objections[name] = answer
            return
        self.options[name] = answer
        fabric = -1 if node.facts.fabric is None else node.facts.fabric
        self._needs[name] = tuple(((model, fabric), take.fresh) for model, take in answer.takes().items() if take.fresh)
        found = self._scores[name] = score(node, answer, self.policy)
        if sort:
            bisect.insort(self.order, found)

    def refresh(self) -> None:
        """Look again at nodes that changed; after something was undone, at those that lacked devices too."""
        changed = set(self.state.changed[self._read:]) & self.names
        if self._undone != self.state.undone:
            changed |= {name for name, o in self.objections.items() if not o.lasting}
        self._read, self._undone = len(self.state.changed), self.state.undone
        for name in sorted(changed):
            self._evaluate(name)

    def summary(self) -> Counter[str]:
        """How many nodes object, by reason."""
        if self._summary is None:
            self._summary = Counter(objection.text for objection in self.objections.values())
        return self._summary

    def pick(self, refusal: Callable[[NodeState], str]) -> tuple[NodeState, Option] | None:
        """The best node that does not refuse the pod, with the way to serve it there."""
        self.refresh()
        while True:
            stale: list[str] = []
            hit = self._first(refusal, stale)
            if not stale:
                return hit
            for name in stale:
                self._evaluate(name)

    def _first(self, refusal: Callable[[NodeState], str], stale: list[str]) -> tuple[NodeState, Option] | None:
        for entry in self.order:
            name = entry[-1]
            node = self.state.nodes[name]
            if not self._affordable(name):
                stale.append(name)
            elif not refusal(node):
                return node, self.options[name]
        return None

    def _affordable(self, name: str) -> bool:
        """Whether the fabric still has what the option counts on; others may have taken it."""
        return all(n <= self.state.free.get(key, 0) for key, n in self._needs[name])
