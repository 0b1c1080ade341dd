# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for a ComposabilityRequest that names none: how many of its devices each node gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .compose import surplus_order
from .snapshot import ComposableResource

SAME_NODE, DIFFERENT_NODE = "samenode", "differentnode"


@dataclass(frozen=True, slots=True)
class NodelessRequest:
    """What is asked for. ``policy``: all devices on one node (``samenode``) or each on another (``differentnode``)."""

    name: str
    model: str
    size: int
    policy: str = SAME_NODE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node. ``problem``: why it gets no device of the model now, empty when it may. ``fabric``: that of its machine.

    ``occupied``: another request has its devices on this node, so that none with the policy ``samenode`` goes there.
    """

    name: str
    fabric: int | None = None
    problem: str = ""
    occupied: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    """``shares``: devices by node, also 0 where it has some that are to leave. ``error``: why not all have a node."""

    shares: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


def allocate(request: NodelessRequest, children: Iterable[ComposableResource], candidates: Sequence[Candidate],
             free: Mapping[int, int], chosen: Mapping[str, int]) -> Allocation:
    """Decide which nodes have how many devices of a request. Pure.

    Devices that it has stay where they are; of too many those leave that composable-resource-operator would choose.
    New ones go to the first nodes by name that may have them and whose fabric has enough, those of ``chosen`` before:
    nodes that were chosen earlier and have no device yet. ``free``: devices of the model by fabric; one that is absent
    is not counted.

    Source: CoHDI's composable-resource-operator, which looks at no machine, fabric or condition of a node.
    """
    live = sorted((child for child in children if not child.deleting), key=surplus_order, reverse=True)
    shares = dict.fromkeys((child.node for child in live), 0)
    ordered = sorted(candidates, key=lambda node: (node.name not in chosen, node.name))
    spread = _different if request.policy == DIFFERENT_NODE else _same
    found, error = spread(request, [child.node for child in live], ordered, free) if request.size else ({}, "")
    return Allocation(shares | found, error)


def _same(request: NodelessRequest, has: list[str], candidates: Sequence[Candidate],
          free: Mapping[int, int]) -> tuple[dict[str, int], str]:
    """All on the node that has most of them, else on the first one that no other request has."""
    if has:
        counts = Counter(has)
        return {max(counts, key=lambda name: (counts[name], -has.index(name))): request.size}, ""
    against = {node.name: _against(node, request.size, free, alone=True) for node in candidates}
    found = next((name for name, why in against.items() if not why), None)
    return ({}, _shortage(request, against)) if found is None else ({found: request.size}, "")


def _different(request: NodelessRequest, has: list[str], candidates: Sequence[Candidate],
               free: Mapping[int, int]) -> tuple[dict[str, int], str]:
    """One on each of as many nodes; none is added while there are too few."""
    kept = dict.fromkeys(list(dict.fromkeys(has))[:request.size], 1)
    missing, taken, more, against = request.size - len(kept), Counter[int | None](), dict[str, int](), dict[str, str]()
    for node in (node for node in candidates if node.name not in has):
        if len(more) == missing:
            break
        against[node.name] = _against(node, taken[node.fabric] + 1, free, alone=False)
        if not against[node.name]:
            more[node.name] = 1
            taken[node.fabric] += 1
    return (kept, _shortage(request, against)) if len(more) < missing else (kept | more, "")


def _against(node: Candidate, count: int, free: Mapping[int, int], alone: bool) -> str:
    """Why a node cannot have so many more devices; empty when it can."""
    if node.problem or node.fabric is None:
        return node.problem or "on no fabric"
    if alone and node.occupied:
        return "another request has its devices there"
    return "too few free devices" if free.get(node.fabric, count) < count else ""


def _shortage(request: NodelessRequest, against: Mapping[str, str]) -> str:
    reasons = Counter(why for why in against.values() if why)
    told = ", ".join(f"{n}: {why}" for why, n in sorted(reasons.items()))
    return (f"insufficient number of available nodes for {request.size} x {request.model} ({request.policy})"
            + (f", of {len(against)}: {told}" if told else ""))
