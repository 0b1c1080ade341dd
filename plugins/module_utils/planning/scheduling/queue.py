# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which waiting pods are planned, and in which order. As the PreEnqueue plugins and the queue of kube-scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..fairness import HIGHEST_PRIORITY
from .demand import Demand
from .demand_reader import DemandReader
from .filters.interpod_affinity import InterPodAffinity
from .framework.pod_info import PodInfo
from .framework.quantity import BadQuantity
from .parse_cache import ParseCache
from .snapshot import GATE, GatedPod, PodGroup, SchedulingSnapshot

CLAIM_TIMEOUT = 30.0
"""Seconds until a pod is let go whose claim nobody creates."""
MAX_REASON = 200
SIZE_RULE = "the annotation composable.infra/group-size must be a whole number from 1 to 9999"
Signature = tuple[object, ...]


def unreadable(error: Exception) -> str:
    """Why a pod is let go that could not be judged."""
    return f"it could not be judged: {type(error).__name__}: {error}"[:MAX_REASON]


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod that can be planned, with what the filters read of it and what it demands."""

    gated: GatedPod
    info: PodInfo
    demand: Demand

    @property
    def priority(self) -> int:
        """Of the pod."""
        return min(int(self.gated.raw["spec"].get("priority") or 0), HIGHEST_PRIORITY)

    @property
    def signature(self) -> Signature:
        """Equal for pods that get the same answers where no terms about other pods matter (as in KEP-5598)."""
        requests = tuple(sorted((name, value) for name, value in self.info.requests.items() if value))
        return self.info.node_signature, self.demand.signature, requests, self.info.ports

    @property
    def signature_among_pods(self) -> Signature:
        """The same where terms about other pods matter."""
        info = self.info
        labels = tuple(sorted(info.labels.items()))
        return (*self.signature, info.namespace, labels, info.affinity, info.anti_affinity, info.spread)


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """Pods that are placed together or not at all: one pod, or the pods of the group with the key ``group``."""

    pods: tuple[QueuedPod, ...]
    group: str = ""

    @property
    def namespace(self) -> str:
        """Of its pods."""
        return self.pods[0].gated.ref.namespace

    @property
    def order(self) -> tuple[int, float, str]:
        """Priority, then age; a group counts with its highest priority and its oldest pod."""
        oldest = min((pod.gated.since, pod.gated.uid) for pod in self.pods)
        return (-max(pod.priority for pod in self.pods), *oldest)


@dataclass(slots=True)
class SchedulingQueue:
    """Every waiting pod in exactly one place.

    ``entries``: to be planned, in this order. ``unsupported``: let go, with the reason. ``pending``: cannot be planned
    yet, with the reason. ``wake_at``: when pending ones are due, in seconds since the epoch.
    """

    entries: list[QueueEntry] = field(default_factory=list)
    unsupported: list[tuple[GatedPod, str]] = field(default_factory=list)
    pending: list[tuple[GatedPod, str]] = field(default_factory=list)
    wake_at: list[float] = field(default_factory=list)

    def in_turn(self, affinity: InterPodAffinity) -> Iterator[QueueEntry]:
        """The entries in their order. ``affinity``: knows the terms of the pods that are on nodes."""
        return iter(self.entries)

    def skip(self, entry: QueueEntry) -> None:
        """Entries like this one need not be looked at any more, but to say what they wait for."""


def build_queue(snapshot: SchedulingSnapshot, cache: ParseCache, reader: DemandReader) -> SchedulingQueue:
    """The queue of the waiting pods that have no placement in the snapshot."""
    builder = _QueueBuilder(snapshot, cache, reader)
    groups: dict[str, tuple[PodGroup, list[GatedPod]]] = {}
    for pod in builder.waiting:
        if pod.problem:
            builder.add_problem(pod)
        elif pod.group is None:
            builder.add_pod(pod)
        else:
            groups.setdefault(pod.group.key, (pod.group, []))[1].append(pod)
    for group, pods in groups.values():
        builder.add_group(group, pods)
    builder.queue.entries = _in_turn(builder.queue.entries)
    return builder.queue


def judge(pod: GatedPod, cache: ParseCache, reader: DemandReader) -> QueuedPod | str:
    """A pod with what it demands, or why that is not supported. Its claims exist, and no other pod shares them."""
    demand = reader.read(pod)
    if isinstance(demand, str):
        return demand
    try:
        return QueuedPod(pod, cache.pod(pod.raw), demand)
    except BadQuantity as error:
        return str(error)


def _in_turn(entries: list[QueueEntry]) -> list[QueueEntry]:
    """Priority first; of equal priority each namespace has one entry in turn, its oldest first."""
    turns: Counter[tuple[int, str]] = Counter()
    found = []
    for entry in sorted(entries, key=lambda each: each.order):
        share = (entry.order[0], entry.namespace)
        found.append((entry.order[0], turns[share], entry.order, entry))
        turns[share] += 1
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]


class _QueueBuilder:
    """Adds pods and groups to a queue."""

    def __init__(self, snapshot: SchedulingSnapshot, cache: ParseCache, reader: DemandReader) -> None:
        self.snapshot, self.cache, self.reader = snapshot, cache, reader
        self.queue = SchedulingQueue()
        placed = {placement.pod.uid for placement in snapshot.placements}
        self.waiting = sorted((pod for pod in snapshot.waiting if pod.uid not in placed),
                              key=lambda pod: (pod.since, pod.uid))
        self.pods_of_claim: Counter[str] = Counter()
        for pod in self.waiting:
            self.pods_of_claim.update({c["metadata"]["uid"] for c in pod.claims.values() if c is not None})
        for placement in snapshot.placements:
            self.pods_of_claim.update(set(placement.needs))

    def add_pod(self, pod: GatedPod) -> None:
        """A pod without a group."""
        if reason := self._pending_reason(pod):
            self.queue.pending.append((pod, reason))
            return
        queued = self._judge(pod)
        if isinstance(queued, QueuedPod):
            self.queue.entries.append(QueueEntry((queued,)))
        else:
            self.queue.unsupported.append((pod, queued))

    def add_problem(self, pod: GatedPod) -> None:
        """A pod that is let go whatever it asks for, as soon as that counts."""
        if self.snapshot.now < pod.problem_from:
            self.queue.pending.append((pod, pod.problem))
            self.queue.wake_at.append(pod.problem_from)
        else:
            self.queue.unsupported.append((pod, pod.problem))

    def add_group(self, group: PodGroup, pods: list[GatedPod]) -> None:
        """All pods of a group share one fate: what keeps one of them from being planned keeps all."""
        if group.size < 1:
            self.queue.unsupported += [(pod, f"group {group.key} does not say its size: {SIZE_RULE}") for pod in pods]
            return
        if reason := self._group_pending_reason(group, pods):
            self.queue.pending += [(pod, reason) for pod in pods]
            return
        queued: list[QueuedPod] = []
        for pod in pods:
            found = self._judge(pod)
            if isinstance(found, str):
                reason = f"pod {pod.ref.name} of group {group.key}: {found}"
                self.queue.unsupported += [(each, reason) for each in pods]
                return
            queued.append(found)
        self.queue.entries.append(QueueEntry(tuple(queued), group.key))

    def _group_pending_reason(self, group: PodGroup, pods: list[GatedPod]) -> str:
        for pod in pods:
            if reason := self._pending_reason(pod):
                return f"pod {pod.ref.name} of group {group.key}: {reason}"
        count = len(pods) + group.placed + sum(each.group == group.key for each in self.snapshot.placements)
        # A member of a group that has its devices was restarted; others may be done, so it does not wait for them.
        incomplete = count < group.size and not group.started
        return f"group {group.key} has {count} of {group.size} pods" if incomplete else ""

    def _pending_reason(self, pod: GatedPod) -> str:
        """What has to happen before the pod can be planned; empty when nothing has."""
        others = [gate["name"] for gate in pod.raw["spec"].get("schedulingGates") or () if gate["name"] != GATE]
        if others:
            return f"it still has the scheduling gate {others[0]} of another controller"
        missing = [name for name, claim in pod.claims.items() if claim is None]
        until = pod.held_since + CLAIM_TIMEOUT
        if missing and self.snapshot.now < until:
            self.queue.wake_at.append(until)
            return f"its claim {missing[0]} does not exist yet"
        return ""

    def _judge(self, pod: GatedPod) -> QueuedPod | str:
        """The same; what goes wrong with one pod is its own trouble."""
        try:
            return self._read(pod)
        except Exception as error:
            return unreadable(error)

    def _read(self, pod: GatedPod) -> QueuedPod | str:
        """The pod with what it demands, or why that is not supported."""
        if any(claim is None for claim in pod.claims.values()):
            return f"one of its claims was not created within {CLAIM_TIMEOUT:g} s"
        queued = judge(pod, self.cache, self.reader)
        if isinstance(queued, str):
            return queued
        for claim in pod.claims.values():
            if claim is not None and self.pods_of_claim[claim["metadata"]["uid"]] > 1:
                return f"claim {claim['metadata']['name']} is shared with another pod"
        return queued
