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

from ...kube.errors import ApiError
from ...kube.objects import claims, pods
from ...planning.node.snapshot import PodRef
from ..runtime.threads import Threads
from ..state.cluster_state import Json
from ..state.writer import Writer

THREADS = 8


@dataclass(frozen=True, slots=True)
class _Nomination:
    pod: PodRef
    node: str
    claim: str
    until: float


class Rescheduler:
    """Pods under way to a node, until they are bound or ``timeout`` seconds have passed."""

    def __init__(self, writer: Writer, timeout: float, threads: Threads) -> None:
        self._writer, self._timeout = writer, timeout
        self._nominations: dict[str, _Nomination] = {}
        self._lock = threading.Lock()
        self._background = threads.background(THREADS, "reschedule")

    def nominate(self, pod: PodRef, node: str, claim: str) -> None:
        """Nominate now, in the calling thread, and keep doing so."""
        with self._lock:
            self._nominations[pod.uid] = _Nomination(pod, node, claim, time.monotonic() + self._timeout)
        self.renew(pod.uid)

    def pod_changed(self, kind: str, pod: Json) -> None:
        """A watched pod changed: it lost its nomination, was bound (it leaves the watch then, unless pods are held), or
        was deleted.
        """
        uid = pod["metadata"]["uid"]
        with self._lock:
            nomination = self._nominations.get(uid)
            if nomination is None:
                return
            if kind == "DELETED" or pods.bound(pod):
                del self._nominations[uid]
                return
        if (pod.get("status") or {}).get("nominatedNodeName") != nomination.node:
            self._background.submit(self.renew, uid, True)

    def given_up(self, claim: Json) -> None:
        """The scheduler no longer reserves a claim that was told to move on: drop its allocation now."""
        with self._lock:
            ours = any(nomination.claim == claims.identity(claim) for nomination in self._nominations.values())
        if ours:
            self._background.submit(self._deallocate, claim)

    def deallocated(self, claim: Json) -> None:
        """A claim lost its allocation: its pods are placed anew in a moment."""
        with self._lock:
            uids = [uid for uid, found in self._nominations.items() if found.claim == claims.identity(claim)]
        for uid in uids:
            self._background.submit(self.renew, uid, True)

    def _deallocate(self, claim: Json) -> None:
        try:
            self._writer.deallocate(claim)
        except ApiError:
            return  # the scheduler drops it itself in its next cycle

    def renew(self, uid: str, anyway: bool = False) -> None:
        """Write the nomination of one pod if it is still under way; ``anyway`` also when it seems to be there."""
        nomination = self._current(uid)
        if nomination is None:
            return
        try:
            pod = nomination.pod
            alive = self._writer.nominate(pod.namespace, pod.name, uid, nomination.node, anyway)
        except ApiError:
            return  # the next sight of the pod tries again
        if not alive:
            with self._lock:
                self._nominations.pop(uid, None)

    def _current(self, uid: str) -> _Nomination | None:
        with self._lock:
            nomination = self._nominations.get(uid)
            if nomination is not None and time.monotonic() > nomination.until:
                del self._nominations[uid]
                return None
            return nomination

    def under_way(self) -> int:
        """How many pods are still being brought to their node."""
        now = time.monotonic()
        with self._lock:
            for uid in [u for u, n in self._nominations.items() if n.until < now]:
                del self._nominations[uid]
            return len(self._nominations)
