# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nominate gated pods and protect their claims while their devices are being attached.

When the scheduler places pods of the same or a lower priority, it counts a nominated pod on its
node, even a gated one (kube-scheduler 1.36, ``backend/queue``: ``PriorityQueue.Update`` of an
unschedulable pod). So no other pod takes the room, and only the gate is left to write when the
device is visible. A pod that would disturb the topology spread of a pod planned without it is
nominated only when its own gate is removed.

The scheduler writes a finalizer on a claim before it allocates the claim (kube-scheduler 1.34 to
1.36, ``DynamicResources``). That is one write for each claim, just when pods wait. The scheduler
skips the write if the finalizer is already there. The ResourceClaim controller removes it from a
deleted claim, allocated or not.

Both writes come shortly after the choice of a node, so that requests for devices are sent first.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence

from ...kube.errors import ApiError
from ...planning.scheduling.snapshot import Placement
from ...runtime.threads import Threads
from ...runtime.work_queue import WorkQueue
from ..keys import Key, NominationsKey
from ..state.reservations import RESERVED, Namespaces
from ..writers.writer import Writer

THREADS = 4
# Seconds after the choice. By then the requests for the devices of a burst of pods have been sent.
PAUSE = 0.15


class Nominations:
    """Writes in the background. Thread-safe.

    If a write is late or fails, it is repeated when the gate is removed.
    """

    def __init__(self, writer: Writer, namespaces: Namespaces, queue: WorkQueue[Key], threads: Threads) -> None:
        self._writer, self._reservations = writer, writer.state.reservations
        self._namespaces, self._queue = namespaces, queue
        self._background = threads.background(THREADS, "nominate")
        self._lock = threading.Lock()
        self._chosen_now: list[Placement] = []

    def begin(self, placements: Sequence[Placement]) -> None:
        """Schedule the nomination of these pods, which just got a node."""
        if placements:
            with self._lock:
                self._chosen_now += placements
            self._queue.add_at(NominationsKey(), self._writer.state.clock() + PAUSE)

    def write(self) -> None:
        """Nominate the pods that still wait for devices. The others were nominated when their gates
        were removed."""
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
        """Write the pod's nomination again after its reservation ended, so that the room is free
        for others."""
        pod = self._writer.state.pods.value(placement.pod.name, placement.pod.namespace)
        if pod is not None and pod.held:
            self._background.submit(self._write, placement)

    def _protect(self, claim: str) -> None:
        with contextlib.suppress(ApiError):
            self._writer.claims.protect(claim)

    def _write(self, placement: Placement) -> None:
        """Write the current nomination. Write it again if it changed during the write."""
        pod = placement.pod
        node = self._chosen(pod.uid)
        try:
            self._writer.pods.nominate(pod.namespace, pod.name, pod.uid, node)
            if self._chosen(pod.uid) != node:
                self._writer.pods.nominate(pod.namespace, pod.name, pod.uid, self._chosen(pod.uid))
        except ApiError:
            return

    def _chosen(self, uid: str) -> str:
        reservation = self._reservations.get(uid)
        return reservation.placement.node if reservation else ""
