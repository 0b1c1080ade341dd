# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backfill protection: withhold devices for a waiting pod or group from the pods behind it.

The queue continues past a pod that cannot be served yet, as batch schedulers do (backfilling).
Small pods behind a large one could then take every device that becomes free, and the large pod
would starve. The node that is nearest to serving it is therefore withheld for it: the node's idle
and coming devices, free devices of its fabric, places for the devices that are still missing, and
room for the pod. On other nodes of the fabric as many idle devices are withheld as are missing.
They stay unused and return to the fabric, so the number of missing devices can only fall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..bar_room import BAR_ROOM
from .cycle import CycleState, NodeState, Take
from .demand import DeviceRequest
from .queue import QueuedPod
from .scoring import kind


@dataclass(slots=True)
class _Offer:
    """The devices that a node could give now.

    ``missing``: missing devices by model. ``shortfall``: number of missing devices and of devices
    over the node's limits.
    """

    node: NodeState
    takes: dict[str, Take] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    shortfall: int = 0

    @property
    def fabric(self) -> int:
        """Return the fabric of the node, -1 for none."""
        return -1 if self.node.facts.fabric is None else self.node.facts.fabric


def withhold_for(state: CycleState, pod: QueuedPod, candidates: tuple[str, ...]) -> None:
    """Withhold for a waiting pod the devices of the best candidate.

    ``candidates``: names of nodes that suit the pod and at most lack devices
    (``FeasibilityCheck.candidates``).
    """
    offers = [_offer(state, node, pod) for node in _different([state.nodes[name] for name in candidates])]
    if not offers:
        return
    best = min(offers, key=lambda offer: (offer.shortfall, offer.node.facts.name))
    state.withhold(best.node, pod.info, best.takes, best.missing)
    for model, missing in best.missing.items():
        _withhold_elsewhere(state, best.node, model, missing)


def _different(nodes: Iterable[NodeState]) -> list[NodeState]:
    """Return one node of each set of equal nodes, the first by name, since equal nodes offer the
    same.
    """
    found: dict[object, NodeState] = {}
    for node in nodes:
        alike = kind(node) or node.facts.name
        known = found.setdefault(alike, node)
        if node.facts.name < known.facts.name:
            found[alike] = node
    return [*found.values()]


def wait_for_returning(state: CycleState, pods: Sequence[tuple[QueuedPod, tuple[str, ...]]]) -> bool:
    """Return whether all devices that pods lack are returning to the fabric. If so, promise them.

    ``pods``: each with its candidates. For one pod its node is withheld. For several pods none is,
    since they may share nodes.
    """
    found: list[_Offer] = []
    left = Counter(state.returning)
    for pod, candidates in pods:
        offers = (offer for offer in sorted((_offer(state, state.nodes[name], pod) for name in candidates),
                                            key=lambda offer: (offer.shortfall, offer.node.facts.name))
                  if _returns(offer, left))
        offer = next(offers, None)
        if offer is None:
            return False
        left.subtract({(model, offer.fabric): n for model, n in offer.missing.items()})
        found.append(offer)
    state.returning = left
    if len(pods) == 1:
        state.withhold(found[0].node, pods[0][0].info, found[0].takes, found[0].missing)
    return True


def _returns(offer: _Offer, returning: Counter[tuple[str, int]]) -> bool:
    """Return whether the missing devices are returning, and the limits of the node allow them."""
    missing = {model: n for model, n in offer.missing.items() if n}
    within = offer.shortfall == sum(missing.values())
    return bool(missing) and within and all(returning[model, offer.fabric] >= n for model, n in missing.items())


def _offer(state: CycleState, node: NodeState, pod: QueuedPod) -> _Offer:
    offer = _Offer(node)
    for request in pod.demand.requests:
        _add_request(offer, state, request)
    for model, take in offer.takes.items():
        stock = node.stock(model)
        offer.shortfall += max(0, stock.bound + take.count + offer.missing.get(model, 0) - stock.limit)
    return offer


def _add_request(offer: _Offer, state: CycleState, request: DeviceRequest) -> None:
    """Add a request by its first alternative, with the model of which most devices can be had."""
    node, alternative = offer.node, request.alternatives[0]
    if not alternative.attachable or (alternative.shared and not node.facts.places.keys() - {BAR_ROOM}):
        offer.shortfall += alternative.count  # no device that could be attached fits
        return

    def reachable(model: str) -> int:
        stock = node.stock(model)
        return len(stock.idle) + max(0, stock.coming) + state.available(node, model)

    model = max(alternative.models, key=lambda name: (reachable(name), name))
    before, stock = offer.takes.get(model, Take()), node.stock(model)
    idle = tuple(device for device in stock.idle if device not in before.idle)[:alternative.count]
    coming = min(alternative.count - len(idle), max(0, stock.coming - before.coming))
    left = alternative.count - len(idle) - coming
    attachable = 0 if model in node.facts.blocked else state.available(node, model) - before.fresh
    fresh = min(left, max(0, attachable))
    offer.takes[model] = Take(before.idle + idle, before.coming + coming, before.fresh + fresh)
    offer.missing[model] = offer.missing.get(model, 0) + left - fresh
    offer.shortfall += left - fresh


def _withhold_elsewhere(state: CycleState, node: NodeState, model: str, missing: int) -> None:
    """Withhold idle devices of other nodes of the fabric, so that they return to the fabric."""
    for name in sorted(state.nodes):
        other = state.nodes[name]
        if missing <= 0:
            return
        if other is not node and other.facts.fabric == node.facts.fabric and model in other.facts.stock:
            idle = tuple(other.stock(model).idle[:missing])
            if idle:
                state.withhold(other, None, {model: Take(idle)}, {})
                missing -= len(idle)
