# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waiting pods that are planned, in order. As the PreEnqueue plugins and the queue of
kube-scheduler.
"""

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
"""Seconds until a pod is released because its claim was not created."""
MAX_REASON = 200
SIZE_RULE = "the annotation composable.infra/group-size must be a whole number from 1 to 9999"
Signature = tuple[object, ...]


def unreadable(error: Exception) -> str:
    """Return why a pod that could not be judged is released."""
    return f"the pod could not be planned: {type(error).__name__}: {error}"[:MAX_REASON]


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod that can be planned, with its parsed fields and its demand."""

    gated: GatedPod
    info: PodInfo
    demand: Demand

    @property
    def priority(self) -> int:
        """Return the priority of the pod, at most ``HIGHEST_PRIORITY``."""
        return min(int(self.gated.raw["spec"].get("priority") or 0), HIGHEST_PRIORITY)

    @property
    def signature(self) -> Signature:
        """Return a key that is equal for pods with the same results, if no terms about other pods
        matter.

        As in KEP-5598.
        """
        requests = tuple(sorted((name, value) for name, value in self.info.requests.items() if value))
        return self.info.node_signature, self.demand.signature, requests, self.info.ports

    @property
    def signature_among_pods(self) -> Signature:
        """Return the same key for the case that terms about other pods matter."""
        info = self.info
        labels = tuple(sorted(info.labels.items()))
        return (*self.signature, info.namespace, labels, info.affinity, info.anti_affinity, info.spread)


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """Pods that are placed together or not at all: one pod, or the pods of the group with the key
    ``group``.
    """

    pods: tuple[QueuedPod, ...]
    group: str = ""

    @property
    def namespace(self) -> str:
        """Return the namespace of its pods."""
        return self.pods[0].gated.ref.namespace

    @property
    def order(self) -> tuple[int, float, str]:
        """Return the sort key: priority, then age. A group has its highest priority and its oldest
        pod.
        """
        oldest = min((pod.gated.since, pod.gated.uid) for pod in self.pods)
        return (-max(pod.priority for pod in self.pods), *oldest)


@dataclass(slots=True)
class SchedulingQueue:
    """Every waiting pod in exactly one place.

    ``entries``: to be planned, in this order. ``unsupported``: released, with the reason.
    ``pending``: cannot be planned yet, with the reason. ``wake_at``: when pending pods are due, in
    epoch seconds.
    """

    entries: list[QueueEntry] = field(default_factory=list)
    unsupported: list[tuple[GatedPod, str]] = field(default_factory=list)
    pending: list[tuple[GatedPod, str]] = field(default_factory=list)
    wake_at: list[float] = field(default_factory=list)

    def in_turn(self, affinity: InterPodAffinity) -> Iterator[QueueEntry]:
        """Return the entries in their order. ``affinity``: has the terms of the pods on nodes."""
        return iter(self.entries)

    def skip(self, entry: QueueEntry) -> None:
        """Note that entries like this one need no further attempt, only wait reasons."""


def build_queue(snapshot: SchedulingSnapshot, cache: ParseCache, reader: DemandReader) -> SchedulingQueue:
    """Return the queue of the waiting pods that have no placement in the snapshot."""
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
    """Return a pod with its demand, or why the demand is not supported.

    The claims of the pod must exist, and no other pod may share them.
    """
    demand = reader.read(pod)
    if isinstance(demand, str):
        return demand
    try:
        return QueuedPod(pod, cache.pod(pod.raw), demand)
    except BadQuantity as error:
        return str(error)


def _in_turn(entries: list[QueueEntry]) -> list[QueueEntry]:
    """Sort by priority. Within a priority the namespaces take turns, each with its oldest entry
    first.
    """
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
        """Add a pod without a group."""
        if reason := self._pending_reason(pod):
            self.queue.pending.append((pod, reason))
            return
        queued = self._judge(pod)
        if isinstance(queued, QueuedPod):
            self.queue.entries.append(QueueEntry((queued,)))
        else:
            self.queue.unsupported.append((pod, queued))

    def add_problem(self, pod: GatedPod) -> None:
        """Add a pod with a problem. It is released as soon as the problem counts."""
        if self.snapshot.now < pod.problem_from:
            self.queue.pending.append((pod, pod.problem))
            self.queue.wake_at.append(pod.problem_from)
        else:
            self.queue.unsupported.append((pod, pod.problem))

    def add_group(self, group: PodGroup, pods: list[GatedPod]) -> None:
        """Add a group. If one pod cannot be planned, none of its pods can."""
        if group.size < 1:
            self.queue.unsupported += [(pod, f"group {group.key} has no valid size: {SIZE_RULE}") for pod in pods]
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
        # A restarted member of a group that had its devices does not wait for the others, since
        # they may have ended.
        incomplete = count < group.size and not group.started
        return f"group {group.key} has {count} of {group.size} pods" if incomplete else ""

    def _pending_reason(self, pod: GatedPod) -> str:
        """Return what must happen before the pod can be planned, empty for nothing."""
        others = [gate["name"] for gate in pod.raw["spec"].get("schedulingGates") or () if gate["name"] != GATE]
        if others:
            return f"the pod still has the scheduling gate {others[0]} of another controller"
        missing = [name for name, claim in pod.claims.items() if claim is None]
        until = pod.held_since + CLAIM_TIMEOUT
        if missing and self.snapshot.now < until:
            self.queue.wake_at.append(until)
            return f"its claim {missing[0]} does not exist yet"
        return ""

    def _judge(self, pod: GatedPod) -> QueuedPod | str:
        """Return the result of ``_read``. An error of one pod concerns only this pod."""
        try:
            return self._read(pod)
        except Exception as error:
            return unreadable(error)

    def _read(self, pod: GatedPod) -> QueuedPod | str:
        """Return the pod with its demand, or why the pod is not supported."""
        if any(claim is None for claim in pod.claims.values()):
            return f"one of its claims was not created within {CLAIM_TIMEOUT:g} s"
        queued = judge(pod, self.cache, self.reader)
        if isinstance(queued, str):
            return queued
        for claim in pod.claims.values():
            if claim is not None and self.pods_of_claim[claim["metadata"]["uid"]] > 1:
                return f"claim {claim['metadata']['name']} is shared with another pod"
        return queued
