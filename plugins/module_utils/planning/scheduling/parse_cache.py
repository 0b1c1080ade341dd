# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep parsed objects from plan to plan. Raw objects never change in place, so identity shows a
change.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.pod import Pod
from .demand_reader import SPARE, DemandReader
from .filters.node_resources import Amounts, allocatable
from .framework.node_info import NodeInfo
from .framework.pod_info import PodInfo
from .framework.quantity import BadQuantity
from .snapshot import Json, NodeFacts, SchedulingSettings, SchedulingSnapshot

MOST_AMOUNTS = 1000


class EqualAmounts:
    """Keeps equal amounts once. Many are forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, int], ...], Amounts] = {}

    def once(self, amounts: Amounts) -> Amounts:
        """Return the first of equal amounts."""
        if len(self._known) >= MOST_AMOUNTS:
            self._known = {}
        return self._known.setdefault(tuple(amounts.items()), amounts)


class ParseCache:
    """Parsed pods, nodes and demands. The plan is the same without the cache and only takes longer.

    Not thread-safe: one plan at a time may use it. A concurrent planner, such as a forecast beside
    a live engine, uses its own ``copy()``. A copy is safe at any time, since shared values never
    change. The cache keeps raw objects alive. ``forget`` limits their number.
    """

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}
        self._amounts = EqualAmounts()
        self._nodes: dict[str, NodeInfo] = {}
        self._demand_reader: DemandReader | None = None

    def copy(self) -> ParseCache:
        """Return an independent copy. The cost is about that of copying a dict with an entry per
        pod.
        """
        other, reader = ParseCache(), self._demand_reader
        other._pods, other._nodes = self._pods.copy(), self._nodes.copy()
        other._demand_reader = None if reader is None else reader.copy()
        return other

    def pod(self, raw: Json) -> PodInfo:
        """Return a raw pod as the filters read it. Raise BadQuantity."""
        known = self._pods.get(raw["metadata"]["uid"])
        if known is None or known.raw is not raw:
            known = self._pods[raw["metadata"]["uid"]] = self._info(raw)
        return known

    def node(self, facts: NodeFacts) -> NodeInfo:
        """Return a node and its pods as the filters read them.

        A node with an invalid quantity offers nothing.
        """
        known = self._nodes.get(facts.name)
        if known is None or not _read_from(known, facts):
            try:
                pods = self._on_node(facts.pods, known)
                found = self._read(facts, pods, allocatable(facts.node))
            except BadQuantity:
                found = self._read(facts, (), {})
            known = self._nodes[facts.name] = found
        return known

    def _read(self, facts: NodeFacts, pods: tuple[PodInfo, ...], offered: Amounts) -> NodeInfo:
        node = facts.node
        return NodeInfo(facts.name, node, facts.pods, node.labels, node.taints, node.unschedulable,
                        self._amounts.once(offered), pods)

    def _on_node(self, pods: Sequence[Pod], before: NodeInfo | None) -> tuple[PodInfo, ...]:
        """Return the pods on a node. Those of before that have not changed are not parsed again.

        They keep only their parsed fields.
        """
        known = {id(pod): info for pod, info in zip(before.said, before.pods, strict=False)} if before else {}
        return tuple(known.get(id(pod)) or self._info(pod.as_object(), on_node=True) for pod in pods)

    def _info(self, raw: Json, *, on_node: bool = False) -> PodInfo:
        found = PodInfo.from_raw(raw)
        found.requests = self._amounts.once(found.requests)
        found.raw = {} if on_node else raw
        return found

    def demand_reader(self, snapshot: SchedulingSnapshot, settings: SchedulingSettings) -> DemandReader:
        """Return the demand reader, a new one if models, samples, classes or settings changed."""
        if self._demand_reader is None or not self._demand_reader.is_for(snapshot, settings):
            self._demand_reader = DemandReader.for_snapshot(snapshot, settings)
        return self._demand_reader

    def forget(self, snapshot: SchedulingSnapshot) -> None:
        """Forget objects that are not in the snapshot once they are the larger part."""
        if len(self._nodes) > 2 * len(snapshot.nodes) + 8:
            self._nodes = {name: info for name, info in self._nodes.items() if name in snapshot.nodes}
        live = len(snapshot.waiting) + len(snapshot.placements)
        if len(self._pods) > 2 * live + SPARE:
            self._pods.clear()
        if self._demand_reader is not None:
            idle = sum(len(stock.idle) for facts in snapshot.nodes.values() for stock in facts.stock.values())
            self._demand_reader.forget((pod.uid for pod in snapshot.waiting), idle)


def _read_from(info: NodeInfo, facts: NodeFacts) -> bool:
    """Return whether the info was parsed from this Node object and these pod objects."""
    if info.node is not facts.node or len(info.said) != len(facts.pods):
        return False
    return info.said is facts.pods or all(a is b for a, b in zip(info.said, facts.pods, strict=True))
