# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose nodes for a ComposabilityRequest that names none, and how many devices each node gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .compose import surplus_order
from .snapshot import ComposableResource

SAME_NODE, DIFFERENT_NODE = "samenode", "differentnode"


@dataclass(frozen=True, slots=True)
class NodelessRequest:
    """A ComposabilityRequest without a node.

    ``policy``: all devices on one node (``samenode``) or each on another node (``differentnode``).
    """

    name: str
    model: str
    size: int
    policy: str = SAME_NODE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may get devices.

    ``problem``: why it gets no device of the model now, empty if it may. ``fabric``: fabric of its
    machine. ``occupied``: another request has devices on this node, so that no request with the
    policy ``samenode`` gets it.
    """

    name: str
    fabric: int | None = None
    problem: str = ""
    occupied: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    """``shares``: devices by node, 0 for a node that must give all of them up. ``error``: why some
    have no node.
    """

    shares: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


def allocate(request: NodelessRequest, children: Iterable[ComposableResource], candidates: Sequence[Candidate],
             free: Mapping[int, int], chosen: Mapping[str, int]) -> Allocation:
    """Decide which nodes get how many devices of a request. Pure.

    Attached devices stay where they are. If there are too many, those leave that
    composable-resource-operator would choose. New devices go to the first nodes by name without a
    problem and with enough free devices on their fabric. Nodes of ``chosen``, which were chosen
    earlier and have no device yet, come first. ``free``: devices of the model by fabric. A fabric
    that is absent has no limit.

    Source: CoHDI's composable-resource-operator, which checks no machine, fabric or condition of a
    node.
    """
    live = sorted((child for child in children if not child.deleting), key=surplus_order, reverse=True)
    shares = dict.fromkeys((child.node for child in live), 0)
    ordered = sorted(candidates, key=lambda node: (node.name not in chosen, node.name))
    spread = _different if request.policy == DIFFERENT_NODE else _same
    found, error = spread(request, [child.node for child in live], ordered, free) if request.size else ({}, "")
    return Allocation(shares | found, error)


def _same(request: NodelessRequest, has: list[str], candidates: Sequence[Candidate],
          free: Mapping[int, int]) -> tuple[dict[str, int], str]:
    """Choose the node with most of the devices, else the first node that no other request has."""
    if has:
        counts = Counter(has)
        return {max(counts, key=lambda name: (counts[name], -has.index(name))): request.size}, ""
    against = {node.name: _against(node, request.size, free, alone=True) for node in candidates}
    found = next((name for name, why in against.items() if not why), None)
    return ({}, _shortage(request, against)) if found is None else ({found: request.size}, "")


def _different(request: NodelessRequest, has: list[str], candidates: Sequence[Candidate],
               free: Mapping[int, int]) -> tuple[dict[str, int], str]:
    """Allocate one device on each of ``request.size`` nodes.

    Add no node if there are fewer suitable nodes.
    """
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
    """Return why a node cannot have ``count`` more devices, empty if it can."""
    if node.problem or node.fabric is None:
        return node.problem or "on no fabric"
    if alone and node.occupied:
        return "another request has devices there"
    return "too few free devices" if free.get(node.fabric, count) < count else ""


def _shortage(request: NodelessRequest, against: Mapping[str, str]) -> str:
    reasons = Counter(why for why in against.values() if why)
    told = ", ".join(f"{why} ({n})" for why, n in sorted(reasons.items()))
    return (f"insufficient number of available nodes for {request.size} x {request.model} ({request.policy})"
            + (f". {len(against)} nodes were checked: {told}" if told else ""))
