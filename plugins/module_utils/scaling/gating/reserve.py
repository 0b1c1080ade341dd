# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod or group that has to wait keeps for itself, so that smaller or later asks do not starve it.

It keeps the node that comes nearest to serving it: the devices that are there, coming or free, places for those that
are missing, and room for the pod; and of idle devices on other nodes of the fabric as many as are missing, so that
they return to the fabric. Nobody behind it in the queue gets these. So what it lacks only becomes less.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .demand import Want
from .judge import Case
from .state import NodeState, State, Take


@dataclass(slots=True)
class _Share:
    """What a node could give now, and how much is missing."""

    node: NodeState
    takes: dict[str, Take] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    missing: int = 0


def keep(state: State, case: Case, names: tuple[str, ...]) -> None:
    """Reserve for a waiting pod on the best of the nodes that suit it and only lack devices."""
    shares = [_share(state, state.nodes[name], case) for name in names]
    if not shares:
        return
    best = min(shares, key=lambda s: (s.missing, s.node.facts.name))
    state.reserve(best.node, case.facts, best.takes, best.places)
    for model, n in best.places.items():
        _withhold(state, best.node, model, n)


def _share(state: State, node: NodeState, case: Case) -> _Share:
    share = _Share(node)
    for want in case.demand.wants:
        _add(share, state, want)
    for model, take in share.takes.items():
        shelf = node.shelf(model)
        crowded = shelf.bound + take.count + share.places.get(model, 0) - shelf.limit
        share.missing += max(0, crowded)
    return share


def _add(share: _Share, state: State, want: Want) -> None:
    """Add one request by its first alternative, with the model of which most is at hand."""
    ask = want.alternatives[0]
    model = max(ask.models, key=lambda m: (_at_hand(share, state, m), m))
    old, shelf = share.takes.get(model, Take()), share.node.shelf(model)
    idle = tuple(d for d in shelf.idle if d not in old.idle)[:ask.count]
    coming = min(ask.count - len(idle), max(0, shelf.coming - old.coming))
    left = ask.count - len(idle) - coming
    usable = 0 if model in share.node.facts.blocked else state.available(share.node, model) - old.fresh
    fresh = min(left, max(0, usable))
    share.takes[model] = Take(old.idle + idle, old.coming + coming, old.fresh + fresh)
    share.places[model] = share.places.get(model, 0) + left - fresh
    share.missing += left - fresh


def _at_hand(share: _Share, state: State, model: str) -> int:
    shelf = share.node.shelf(model)
    return len(shelf.idle) + max(0, shelf.coming) + state.available(share.node, model)


def _withhold(state: State, node: NodeState, model: str, n: int) -> None:
    """Keep idle devices of other nodes of the fabric from everybody, so that they become free."""
    for name in sorted(state.nodes):
        other = state.nodes[name]
        if n <= 0:
            return
        if other is not node and other.facts.fabric == node.facts.fabric and model in other.facts.stock:
            idle = tuple(other.shelf(model).idle[:n])
            if idle:
                state.reserve(other, None, {model: Take(idle)}, {})
                n -= len(idle)
