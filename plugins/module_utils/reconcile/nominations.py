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
import time
from collections.abc import Sequence

from ..kube import gates
from ..kube.errors import ApiError
from ..scaling.gating.view import Booking
from .background import Background
from .bookings import RESERVED, Namespaces
from .triggers import Later
from .writer import Writer

KEY = ("nominate",)
THREADS = 4
# Seconds from the choice: by then the requests for the devices of a burst of pods have been sent.
PAUSE = 0.15


class Nominations:
    """Writes in the background: what is late or fails is made good when the gate is opened. Thread-safe."""

    def __init__(self, writer: Writer, namespaces: Namespaces, later: Later) -> None:
        self._writer, self._bookings, self._namespaces, self._later = writer, writer.world.bookings, namespaces, later
        self._background = Background(THREADS, "nominate")
        self._lock = threading.Lock()
        self._chosen_now: list[Booking] = []

    def stop(self) -> None:
        """Nominate no more."""
        self._background.close()

    def begin(self, bookings: Sequence[Booking]) -> None:
        """Their nodes were chosen: there will be a pass."""
        if bookings:
            with self._lock:
                self._chosen_now += bookings
            self._later(KEY, time.time() + PAUSE)

    def run(self) -> None:
        """The pass over who still waits for devices; the others were nominated when their gates were opened."""
        with self._lock:
            bookings, self._chosen_now = self._chosen_now, []
        namespaces = functools.cache(self._namespaces)
        for booking in bookings:
            seat = self._bookings.get(booking.pod.uid)
            if seat is None or seat.phase != RESERVED:
                continue
            if not self._bookings.in_the_way(booking.pod.uid, namespaces):
                self._background.do(self._write, booking)
            for claim in booking.needs:
                self._background.do(self._protect, claim)

    def end(self, booking: Booking) -> None:
        """The choice is void: the room is anybody's, if the pod is still held."""
        pod = self._writer.world.pods.get(booking.pod.name, booking.pod.namespace)
        if pod is not None and gates.held(pod):
            self._background.do(self._write, booking)

    def _protect(self, claim: str) -> None:
        with contextlib.suppress(ApiError):
            self._writer.protect(claim)

    def _write(self, booking: Booking) -> None:
        """What is true now, and again if that changed while it was written."""
        pod = booking.pod
        node = self._chosen(pod.uid)
        try:
            self._writer.nominate(pod.namespace, pod.name, pod.uid, node)
            if self._chosen(pod.uid) != node:
                self._writer.nominate(pod.namespace, pod.name, pod.uid, self._chosen(pod.uid))
        except ApiError:
            return

    def _chosen(self, uid: str) -> str:
        seat = self._bookings.get(uid)
        return seat.booking.node if seat else ""
