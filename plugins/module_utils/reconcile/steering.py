# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a rescheduled pod back to the node whose device was attached for it.

The scheduler tries ``status.nominatedNodeName`` first, but clears it itself twice on the way (when binding fails and
when the allocation is dropped), and may look again within milliseconds. So the nomination is written again the moment
it is seen missing, and once more the moment the claim loses its allocation, on threads that do nothing else.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ..kube.errors import ApiError
from ..scaling.view import PodRef
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
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="steer")

    def stop(self) -> None:
        """Nominate no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def set_course(self, pod: PodRef, node: str, claim: str) -> None:
        """Nominate now, in the calling thread, and keep doing so."""
        with self._lock:
            self._courses[pod.uid] = _Course(pod, node, claim, time.time() + self._timeout)
        self.steer(pod.uid)

    def seen(self, kind: str, pod: Json) -> None:
        """A watched pod changed: it lost its nomination, was bound (leaves the watch) or deleted."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            course = self._courses.get(uid)
            if course is None:
                return
            if kind == "DELETED":
                del self._courses[uid]
                return
        if (pod.get("status") or {}).get("nominatedNodeName") != course.node:
            self._soon(uid)

    def deallocated(self, claim: str) -> None:
        """A claim lost its allocation: its pods are placed anew in a moment."""
        with self._lock:
            uids = [uid for uid, course in self._courses.items() if course.claim == claim]
        for uid in uids:
            self._soon(uid)

    def _soon(self, uid: str) -> Future[None] | None:
        try:
            return self._threads.submit(self.steer, uid, True)
        except RuntimeError:  # shut down meanwhile
            return None

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
