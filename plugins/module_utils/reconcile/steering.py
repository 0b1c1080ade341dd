# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a rescheduled pod back to the node whose device was attached for it.

The scheduler tries ``status.nominatedNodeName`` first, but clears it itself twice on the way (when binding fails and
when the allocation is dropped), so it is written again after each clearing until the pod is bound.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..kube.errors import ApiError
from ..scaling.view import PodRef
from .world import Json
from .writer import Writer


@dataclass(frozen=True, slots=True)
class _Course:
    pod: PodRef
    node: str
    until: float


class Steering:
    """Pods under way to a node. ``enqueue`` asks for ``steer(uid)`` to be called on a worker."""

    def __init__(self, writer: Writer, timeout: float, enqueue: Callable[[str], None]) -> None:
        self._writer, self._timeout, self._enqueue = writer, timeout, enqueue
        self._courses: dict[str, _Course] = {}
        self._lock = threading.Lock()

    def set_course(self, pod: PodRef, node: str) -> None:
        """Nominate now and keep doing so."""
        with self._lock:
            self._courses[pod.uid] = _Course(pod, node, time.time() + self._timeout)
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
            self._enqueue(uid)

    def steer(self, uid: str) -> None:
        """Write the nomination of one pod if it is still under way."""
        with self._lock:
            course = self._courses.get(uid)
            if course and time.time() > course.until:
                course = self._courses.pop(uid) and None
        if course is None:
            return
        try:
            alive = self._writer.nominate(course.pod.namespace, course.pod.name, uid, course.node)
        except ApiError:
            self._enqueue(uid)
            return
        if not alive:
            with self._lock:
                self._courses.pop(uid, None)

    def under_way(self) -> int:
        """How many pods are still being brought to their node."""
        now = time.time()
        with self._lock:
            for uid in [u for u, c in self._courses.items() if c.until < now]:
                del self._courses[uid]
            return len(self._courses)
