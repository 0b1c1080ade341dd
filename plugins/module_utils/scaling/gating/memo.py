# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was read of raw objects stays known from plan to plan, since raw objects are never changed in place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from .demand import SPARE, Reader
from .devices import Catalogue
from .quantity import BadQuantity
from .resources import Amounts, Port, allocatable, host_ports, requests
from .terms import REQUIRED, SpreadTerm, Term, anti_affinity, required_affinity, spread
from .view import GateSettings, GateView, Json, NodeFacts


@dataclass(slots=True, eq=False)
class PodFacts:
    """What is read of a pod once: requests, host ports, and its terms about other pods."""

    raw: Json
    namespace: str
    labels: Mapping[str, str]
    requests: Amounts
    ports: tuple[Port, ...]
    leaving: bool
    affinity: tuple[Term, ...]
    anti: tuple[Term, ...]
    spread: tuple[SpreadTerm, ...]
    _static: str = ""

    @property
    def static(self) -> str:
        """nodeSelector, node affinity and tolerations as text, equal for pods that the same nodes suit."""
        if not self._static:
            spec = self.raw["spec"]
            affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
            self._static = json.dumps([spec.get("nodeSelector"), affinity.get(REQUIRED), spec.get("tolerations")],
                                      sort_keys=True)
        return self._static

    @property
    def asked(self) -> tuple[tuple[str, int], ...]:
        """Requests that are not zero, as a value that can be compared."""
        return tuple(sorted((name, value) for name, value in self.requests.items() if value))

    @property
    def minds_pods(self) -> bool:
        """Whether it has terms about other pods."""
        return bool(self.affinity or self.anti or self.spread)


def pod_facts(raw: Json) -> PodFacts:
    """Read a pod. Raises BadQuantity."""
    meta = raw["metadata"]
    return PodFacts(raw, meta["namespace"], meta.get("labels") or {}, requests(raw), host_ports(raw),
                    bool(meta.get("deletionTimestamp")), required_affinity(raw), anti_affinity(raw), spread(raw))


@dataclass(slots=True, eq=False)
class NodeDigest:
    """A node with the sums over its pods. Only these and the node object are kept; ``facts`` is of the last look."""

    facts: NodeFacts
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unschedulable: bool
    allocatable: Amounts
    pods: tuple[PodFacts, ...]
    used: Amounts = field(default_factory=dict)
    ports: tuple[Port, ...] = ()

    def __post_init__(self) -> None:
        for pod in self.pods:
            self.ports += pod.ports
            for name, value in pod.requests.items():
                self.used[name] = self.used.get(name, 0) + value


class Memo:
    """Kept by the engine between plans; forgetting it costs time only."""

    def __init__(self) -> None:
        self._pods: dict[str, PodFacts] = {}
        self._nodes: dict[str, NodeDigest] = {}
        self._reader: Reader | None = None

    def pod(self, raw: Json) -> PodFacts:
        """Facts of a pod. Raises BadQuantity."""
        found = self._pods.get(raw["metadata"]["uid"])
        if found is None or found.raw is not raw:
            found = self._pods[raw["metadata"]["uid"]] = pod_facts(raw)
        return found

    def node(self, facts: NodeFacts) -> NodeDigest:
        """Digest of a node; one of which an amount cannot be read has no room."""
        found = self._nodes.get(facts.name)
        if found is None or not _same(found.facts, facts):
            try:
                found = self._digest(facts, facts.pods, allocatable(facts.raw))
            except BadQuantity:
                found = self._digest(facts, (), {})
            self._nodes[facts.name] = found
        found.facts = facts
        return found

    def _digest(self, facts: NodeFacts, pods: tuple[Json, ...], offered: Amounts) -> NodeDigest:
        spec = facts.raw.get("spec") or {}
        labels = (facts.raw.get("metadata") or {}).get("labels") or {}
        return NodeDigest(facts, labels, tuple(spec.get("taints") or ()), bool(spec.get("unschedulable")),
                          offered, tuple(self.pod(p) for p in pods))

    def reader(self, view: GateView, settings: GateSettings) -> Reader:
        """The reader of demands, with what it knows, as long as it would read the same."""
        if self._reader is None or not self._reader.reads(settings, view):
            self._reader = Reader(Catalogue(settings.models, view.samples, view.excluded), settings, view.classes)
        return self._reader

    def forget(self, view: GateView) -> None:
        """Drop what the view no longer speaks of, once that is the larger part."""
        if len(self._nodes) > 2 * len(view.nodes) + 8:
            self._nodes = {n: d for n, d in self._nodes.items() if n in view.nodes}
        live = sum(len(f.pods) for f in view.nodes.values()) + len(view.waiting) + len(view.bookings)
        if len(self._pods) > 2 * live + SPARE:
            self._pods.clear()
        if self._reader is not None:
            idle = sum(len(s.idle) for f in view.nodes.values() for s in f.stock.values())
            self._reader.forget((p.uid for p in view.waiting), idle)


def _same(old: NodeFacts, new: NodeFacts) -> bool:
    """Whether the digest holds still: same node object, same pod objects."""
    if old is new:
        return True
    if old.raw is not new.raw or len(old.pods) != len(new.pods):
        return False
    return old.pods is new.pods or all(a is b for a, b in zip(old.pods, new.pods, strict=True))
