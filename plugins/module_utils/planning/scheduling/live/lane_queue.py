# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A queue that is kept from plan to plan, for thousands of plans with thousands of waiting pods.

Its order is that of ``build_queue``. Equal pods stand in one lane. If one of them waits for
devices, and no device is left to be promised to the others, the plan skips the rest of the lane.
Pods with terms about other pods have lanes of their own. A lane is not skipped if anti-affinity
terms concern its namespace: the result then depends on the labels of each pod, and on the pods that
are placed during the plan.
"""

from __future__ import annotations

import bisect
import heapq
import typing as t
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..filters.interpod_affinity import InterPodAffinity
from ..framework.pod_info import AffinityTerm
from ..queue import QueuedPod, QueueEntry, SchedulingQueue, Signature

Lane = tuple[str, frozenset[tuple[Signature, int]]]
"""Namespace and signature of its pods."""
Share = tuple[int, str]
"""Priority, the highest first, and namespace. Shares of one priority take turns."""


def lane_of(entry: QueueEntry) -> Lane:
    """Return the lane of an entry. Entries of one lane get the same results if no terms concern
    them.
    """
    counts = Counter(pod.signature_among_pods if pod.info.has_pod_terms else pod.signature for pod in entry.pods)
    return entry.namespace, frozenset(counts.items())


@dataclass
class LaneQueue(SchedulingQueue):
    """Single pods that wait. ``entries`` stays empty."""

    _passed: set[Lane] = field(default_factory=set)
    _orders: dict[Share, list[tuple[int, float, str]]] = field(default_factory=dict)
    _lanes: dict[tuple[Share, Lane], list[tuple[tuple[int, float, str], QueueEntry]]] = field(default_factory=dict)
    _places: dict[str, tuple[Share, Lane, QueueEntry]] = field(default_factory=dict)
    _affinity: InterPodAffinity | None = None
    _anti_affinity: Counter[AffinityTerm] = field(default_factory=Counter)
    _spoken_of: dict[str, bool] = field(default_factory=dict)

    def add(self, pod: QueuedPod) -> bool:
        """Add a pod. Return whether a plan may have a new result for it.

        This is so if it is the first of its lane, or if terms may distinguish it from the pods
        before it.
        """
        entry = QueueEntry((pod,))
        order, lane = entry.order, lane_of(entry)
        share = (order[0], entry.namespace)
        self._places[pod.gated.uid] = (share, lane, entry)
        bisect.insort(self._orders.setdefault(share, []), order)
        entries = self._lanes.setdefault((share, lane), [])
        bisect.insort(entries, (order, entry), key=lambda each: each[0])
        if terms := pod.info.anti_affinity:
            self._anti_affinity.update(terms)
            self._spoken_of.clear()
        return entries[0][1] is entry or self._is_spoken_of(entry.namespace)

    def remove(self, uid: str) -> None:
        """Remove a pod that has a node or is gone."""
        share, lane, entry = self._places.pop(uid)
        orders, entries = self._orders[share], self._lanes[share, lane]
        del orders[bisect.bisect_left(orders, entry.order)]
        del entries[bisect.bisect_left(entries, entry.order, key=lambda each: each[0])]
        if not entries:
            del self._lanes[share, lane]
        if terms := entry.pods[0].info.anti_affinity:
            self._anti_affinity -= Counter(terms)

    def __len__(self) -> int:
        return len(self._places)

    def pods(self) -> Iterator[QueuedPod]:
        """Return all waiting pods."""
        return (entry.pods[0] for _share, _lane, entry in self._places.values())

    def in_turn(self, affinity: InterPodAffinity) -> Iterator[QueueEntry]:
        """Begin a new plan, and return the entries in order, without those of skipped lanes."""
        self._affinity = affinity
        self._spoken_of.clear()
        self._passed.clear()
        self.wake_at.clear()
        self.pending.clear()
        lanes = [self._in_lane(share, lane) for share, lane in self._lanes]
        return (entry for _turn, entry in heapq.merge(*lanes, key=lambda each: each[0]))

    def skip(self, entry: QueueEntry) -> None:
        """Skip the lane of the entry in the current plan, unless terms may distinguish its pods."""
        if not self._is_spoken_of(entry.namespace):
            self._passed.add(self._places[entry.pods[0].gated.uid][1])

    def _is_spoken_of(self, namespace: str) -> bool:
        """Return whether anti-affinity of placed or waiting pods may concern pods of the namespace.

        Placing a pod of the line in the current plan does not change the result.
        """
        if self._affinity is None:
            return False
        if namespace not in self._spoken_of:
            self._spoken_of[namespace] = self._affinity.speaks_of(namespace, self._anti_affinity)
        return self._spoken_of[namespace]

    def _in_lane(self, share: Share, lane: Lane) -> Iterator[tuple[tuple[t.Any, ...], QueueEntry]]:
        orders = self._orders[share]
        for order, entry in self._lanes[share, lane]:
            if lane in self._passed:
                return
            yield (order[0], bisect.bisect_left(orders, order), order), entry
