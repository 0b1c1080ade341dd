# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be done for pods that our gate holds while their devices are being attached: a room, and finalizers.

The scheduler counts a nominated pod on its node, also one that a gate holds, when it places pods of the same or a lower
priority (kube-scheduler 1.36, ``backend/queue``: ``PriorityQueue.Update`` of an unschedulable pod). So nobody takes the
room meanwhile, and nothing but the gate is left to write when the device is seen. A pod that would count against the
spread of another there, which was planned without it, is nominated when its own gate is opened.

The scheduler puts a finalizer on a claim before it allocates it (kube-scheduler 1.34 to 1.36, ``DynamicResources``), a
write for each claim just when all wait; one that is there already it does not write. The resourceclaim controller takes
it off a claim that is deleted, whether or not it was allocated.

Both come a moment after the choice: what stands between a pod and its device has the API server first.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence

from ...kube.errors import ApiError
from ...kube.objects import pods
from ...planning.scheduling.snapshot import Placement
from ..keys import Key, NominationsKey
from ..runtime.threads import Threads
from ..runtime.work_queue import WorkQueue
from ..state.reservations import RESERVED, Namespaces
from ..state.writer import Writer

THREADS = 4
# Seconds from the choice: by then the requests for the devices of a burst of pods have been sent.
PAUSE = 0.15


class Nominations:
    """Writes in the background: what is late or fails is made good when the gate is opened. Thread-safe."""

    def __init__(self, writer: Writer, namespaces: Namespaces, queue: WorkQueue[Key], threads: Threads) -> None:
        self._writer, self._reservations = writer, writer.state.reservations
        self._namespaces, self._queue = namespaces, queue
        self._background = threads.background(THREADS, "nominate")
        self._lock = threading.Lock()
        self._chosen_now: list[Placement] = []

    def begin(self, placements: Sequence[Placement]) -> None:
        """Their nodes were chosen: they are nominated a moment later."""
        if placements:
            with self._lock:
                self._chosen_now += placements
            self._queue.add_at(NominationsKey(), self._writer.state.clock() + PAUSE)

    def write(self) -> None:
        """Nominate the pods that still wait for devices; the others were nominated when their gates were opened."""
        with self._lock:
            placements, self._chosen_now = self._chosen_now, []
        namespaces = functools.cache(self._namespaces)
        for placement in placements:
            reservation = self._reservations.get(placement.pod.uid)
            if reservation is None or reservation.phase != RESERVED:
                continue
            if not self._reservations.in_the_way(placement.pod.uid, namespaces):
                self._background.submit(self._write, placement)
            for claim in placement.needs:
                self._background.submit(self._protect, claim)

    def end(self, placement: Placement) -> None:
        """The choice is void: the room is anybody's, if the pod is still held."""
        pod = self._writer.state.pods.get(placement.pod.name, placement.pod.namespace)
        if pod is not None and pods.held(pod):
            self._background.submit(self._write, placement)

    def _protect(self, claim: str) -> None:
        with contextlib.suppress(ApiError):
            self._writer.protect(claim)

    def _write(self, placement: Placement) -> None:
        """What is true now, and again if that changed while it was written."""
        pod = placement.pod
        node = self._chosen(pod.uid)
        try:
            self._writer.nominate(pod.namespace, pod.name, pod.uid, node)
            if self._chosen(pod.uid) != node:
                self._writer.nominate(pod.namespace, pod.name, pod.uid, self._chosen(pod.uid))
        except ApiError:
            return

    def _chosen(self, uid: str) -> str:
        reservation = self._reservations.get(uid)
        return reservation.placement.node if reservation else ""
