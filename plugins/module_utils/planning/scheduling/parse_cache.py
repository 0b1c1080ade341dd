# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was read of raw objects stays known from plan to plan, since raw objects are never changed in place."""

from __future__ import annotations

from collections.abc import Sequence

from .demand_reader import SPARE, DemandReader
from .filters.node_resources import Amounts, allocatable
from .framework.alike import AlikePods
from .framework.node_info import NodeInfo
from .framework.pod_info import PodInfo
from .framework.quantity import BadQuantity
from .snapshot import Json, NodeFacts, SchedulingSettings, SchedulingSnapshot


class ParseCache:
    """Pods, nodes and demands as they were read. A plan is the same with and without it; only its time differs.

    Not thread-safe: one plan at a time may use it. Whoever plans beside another, such as a forecast beside a live
    engine, uses a ``copy()`` of its own; taking one is safe at any time, since all that is shared is never changed.
    It keeps raw objects alive; ``forget`` bounds how many.
    """

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}
        self._alike = AlikePods()
        self._nodes: dict[str, NodeInfo] = {}
        self._demand_reader: DemandReader | None = None

    def copy(self) -> ParseCache:
        """An independent cache that knows the same; costs about as much as copying a dict with an entry per pod."""
        other, reader = ParseCache(), self._demand_reader
        other._pods, other._nodes = self._pods.copy(), self._nodes.copy()
        other._demand_reader = None if reader is None else reader.copy()
        return other

    def pod(self, raw: Json) -> PodInfo:
        """A raw pod as the filters read it. Raises BadQuantity."""
        known = self._pods.get(raw["metadata"]["uid"])
        if known is None or known.raw is not raw:
            known = self._pods[raw["metadata"]["uid"]] = PodInfo.from_raw(raw)
        return known

    def node(self, facts: NodeFacts) -> NodeInfo:
        """A node and its pods as the filters read them; a node of which an amount cannot be read offers nothing."""
        known = self._nodes.get(facts.name)
        if known is None or not _read_from(known, facts):
            try:
                known = self._read(facts, facts.pods, allocatable(facts.raw))
            except BadQuantity:
                known = self._read(facts, (), {})
            self._nodes[facts.name] = known
        return known

    def _read(self, facts: NodeFacts, pods: Sequence[Json], offered: Amounts) -> NodeInfo:
        spec = facts.raw.get("spec") or {}
        labels = (facts.raw.get("metadata") or {}).get("labels") or {}
        return NodeInfo(facts.name, facts.raw, facts.pods, labels, tuple(spec.get("taints") or ()),
                        bool(spec.get("unschedulable")), self._alike.amounts(offered), self._infos(pods))

    def _infos(self, pods: Sequence[Json]) -> tuple[PodInfo, ...]:
        """Pods on a node; of those that are decoded only for this nothing but what is read stays."""
        if isinstance(pods, tuple):
            return tuple(self.pod(pod) for pod in pods)
        return tuple(self._alike.placed(PodInfo.from_raw(pod)) for pod in pods)

    def demand_reader(self, snapshot: SchedulingSnapshot, settings: SchedulingSettings) -> DemandReader:
        """The reader of demands; a new one when models, samples, classes or settings are not those of the last."""
        if self._demand_reader is None or not self._demand_reader.is_for(snapshot, settings):
            self._demand_reader = DemandReader.for_snapshot(snapshot, settings)
        return self._demand_reader

    def forget(self, snapshot: SchedulingSnapshot) -> None:
        """Forget what is not in the snapshot once that is the larger part."""
        if len(self._nodes) > 2 * len(snapshot.nodes) + 8:
            self._nodes = {name: info for name, info in self._nodes.items() if name in snapshot.nodes}
        live = sum(len(f.pods) for f in snapshot.nodes.values()) + len(snapshot.waiting) + len(snapshot.placements)
        if len(self._pods) > 2 * live + SPARE:
            self._pods.clear()
        if self._demand_reader is not None:
            idle = sum(len(stock.idle) for facts in snapshot.nodes.values() for stock in facts.stock.values())
            self._demand_reader.forget((pod.uid for pod in snapshot.waiting), idle)


def _read_from(info: NodeInfo, facts: NodeFacts) -> bool:
    """Whether it was read from this node object and these pod objects."""
    if info.raw is not facts.raw or len(info.raw_pods) != len(facts.pods):
        return False
    return info.raw_pods is facts.pods or all(a is b for a, b in zip(info.raw_pods, facts.pods, strict=True))
