# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a rescheduled pod back to the node whose device was attached for it.

The scheduler tries ``status.nominatedNodeName`` first, but clears it itself twice: when binding fails, and a back-off
later in the cycle that drops the allocation, after which it looks again within milliseconds: too soon for a new
nomination to be sure of arriving. So the allocation that it has given up is dropped here, during the back-off. The
scheduler then needs no cycle of its own for that, clears nothing a second time, and finds a nomination that is a
second old. If this comes too late nothing is lost but the certainty.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ..kube import gates
from ..kube.errors import ApiError
from ..scaling.view import PodRef
from .background import Background
from .world import Json
from .writer import Writer

THREADS = 8


@dataclass(frozen=True, slots=True)
class _Course:
    pod: PodRef
    node: str
    claim: str
    until: float


class Steering:
    """Pods under way to a node, until they are bound or ``timeout`` seconds have passed."""

    def __init__(self, writer: Writer, timeout: float) -> None:
        self._writer, self._timeout = writer, timeout
        self._courses: dict[str, _Course] = {}
        self._lock = threading.Lock()
        self._background = Background(THREADS, "steer")

    def stop(self) -> None:
        """Nominate no more."""
        self._background.close()

    def set_course(self, pod: PodRef, node: str, claim: str) -> None:
        """Nominate now, in the calling thread, and keep doing so."""
        with self._lock:
            self._courses[pod.uid] = _Course(pod, node, claim, time.time() + self._timeout)
        self.steer(pod.uid)

    def seen(self, kind: str, pod: Json) -> None:
        """A watched pod changed: it lost its nomination, was bound (it leaves the watch then, unless pods are held), or
        was deleted.
        """
        uid = pod["metadata"]["uid"]
        with self._lock:
            course = self._courses.get(uid)
            if course is None:
                return
            if kind == "DELETED" or gates.bound(pod):
                del self._courses[uid]
                return
        if (pod.get("status") or {}).get("nominatedNodeName") != course.node:
            self._background.do(self.steer, uid, True)

    def given_up(self, claim: Json) -> None:
        """The scheduler no longer reserves a claim that was told to move on: drop its allocation now."""
        if self._is_under_way(claim["metadata"]["uid"]):
            self._background.do(self._deallocate, claim)

    def deallocated(self, claim: Json) -> None:
        """A claim lost its allocation: its pods are placed anew in a moment."""
        with self._lock:
            uids = [uid for uid, course in self._courses.items() if course.claim == claim["metadata"]["uid"]]
        for uid in uids:
            self._background.do(self.steer, uid, True)

    def _is_under_way(self, claim: str) -> bool:
        with self._lock:
            return any(course.claim == claim for course in self._courses.values())

    def _deallocate(self, claim: Json) -> None:
        try:
            self._writer.deallocate(claim)
        except ApiError:
            return  # the scheduler drops it itself in its next cycle

    def steer(self, uid: str, anyway: bool = False) -> None:
        """Write the nomination of one pod if it is still under way; ``anyway`` also when it seems to be there."""
        course = self._course(uid)
        if course is None:
            return
        try:
            pod = course.pod
            alive = self._writer.nominate(pod.namespace, pod.name, uid, course.node, anyway)
        except ApiError:
            return  # the next sight of the pod tries again
        if not alive:
            with self._lock:
                self._courses.pop(uid, None)

    def _course(self, uid: str) -> _Course | None:
        with self._lock:
            course = self._courses.get(uid)
            if course is not None and time.time() > course.until:
                del self._courses[uid]
                return None
            return course

    def under_way(self) -> int:
        """How many pods are still being brought to their node."""
        now = time.time()
        with self._lock:
            for uid in [u for u, c in self._courses.items() if c.until < now]:
                del self._courses[uid]
            return len(self._courses)
