# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that were released without devices and wait in kube-scheduler's queue.

When a device becomes free they are judged again, the oldest of each kind first.
"""

from __future__ import annotations

from collections import deque

from ....planning.scheduling.live.lane_queue import Lane, LaneQueue, lane_of
from ....planning.scheduling.queue import QueuedPod, QueueEntry


class Parked:
    """Released pods by kind, the oldest first."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[QueuedPod]] = {}

    def add(self, pod: QueuedPod) -> None:
        """Add a released pod. A pod that was judged again keeps its place."""
        waiting = self._lanes.setdefault(lane_of(QueueEntry((pod,))), deque())
        older = waiting and (pod.gated.since, pod.gated.uid) < (waiting[0].gated.since, waiting[0].gated.uid)
        waiting.appendleft(pod) if older else waiting.append(pod)

    def back(self, line: LaneQueue, count: int) -> None:
        """Move ``count`` pods of each kind back to the waiting line."""
        for lane, waiting in [*self._lanes.items()]:
            for _unused in range(min(count, len(waiting))):
                line.add(waiting.popleft())
            if not waiting:
                del self._lanes[lane]
