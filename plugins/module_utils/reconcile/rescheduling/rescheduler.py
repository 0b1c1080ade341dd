# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a rescheduled pod back to the node that got a device for it.

The scheduler tries ``status.nominatedNodeName`` first, but it clears the field twice. The first
time is when binding fails. The second time is one back-off later, in the cycle that drops the
allocation. After that the scheduler tries again within milliseconds, maybe before a new nomination
arrives. So drop the allocation here, during the back-off. Then the scheduler needs no cycle for
that, does not clear the field again, and finds a nomination that is a second old. If this write
comes too late, the pod may go to another node, but nothing else is lost.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ...kube.api_resources import CLAIMS, PODS
from ...kube.errors import ApiError
from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...model.value import Value
from ...planning.node.demand import RESCHEDULE
from ...planning.node.snapshot import PodRef
from ...runtime.threads import Threads
from ..controller import Change
from ..writers.writer import Writer

THREADS = 8


@dataclass(frozen=True, slots=True)
class _Nomination:
    pod: PodRef
    node: str
    claim: str
    until: float


class Rescheduler:
    """Pods on the way to a node, until they are bound or ``timeout`` seconds have passed."""

    def __init__(self, writer: Writer, timeout: float, threads: Threads) -> None:
        self._writer, self._timeout = writer, timeout
        self._nominations: dict[str, _Nomination] = {}
        self._lock = threading.Lock()
        self._background = threads.background(THREADS, "reschedule")

    def nominate(self, pod: PodRef, node: str, claim: str) -> None:
        """Nominate the pod now, in the calling thread, and renew the nomination when it is lost."""
        with self._lock:
            self._nominations[pod.uid] = _Nomination(pod, node, claim, time.monotonic() + self._timeout)
        self.renew(pod.uid)

    def observe(self, change: Change) -> None:
        """Help the pods and claims that are on their way, as their changes come."""
        if change.resource == PODS:
            self.pod_changed(change)
        elif change.resource == CLAIMS and not change.gone:
            self._claim_changed(change.new, change.old)

    def _claim_changed(self, claim: Value, old: Value | None) -> None:
        if not (isinstance(claim, ResourceClaim) and isinstance(old, ResourceClaim) and old.pool_results):
            return
        if not claim.results:
            self.deallocated(claim)
        elif not claim.reserved and claim.phase == RESCHEDULE:
            self.given_up(claim)

    def pod_changed(self, change: Change) -> None:
        """Handle a watched pod that lost its nomination, was bound or was deleted.

        A bound pod leaves the watch, unless pods are gated.
        """
        pod = change.new
        if not isinstance(pod, Pod):
            return
        uid = pod.uid
        with self._lock:
            nomination = self._nominations.get(uid)
            if nomination is None:
                return
            if change.gone or pod.node:
                del self._nominations[uid]
                return
        if pod.nominated != nomination.node:
            self._background.submit(self.renew, uid, True)

    def given_up(self, claim: ResourceClaim) -> None:
        """Drop the allocation of a claim that is marked to be allocated again and that has no
        reservation now."""
        with self._lock:
            ours = any(nomination.claim == claim.identity for nomination in self._nominations.values())
        if ours:
            self._background.submit(self._deallocate, claim)

    def deallocated(self, claim: ResourceClaim) -> None:
        """Nominate the pods of a claim that lost its allocation, because they are scheduled again
        soon."""
        with self._lock:
            uids = [uid for uid, found in self._nominations.items() if found.claim == claim.identity]
        for uid in uids:
            self._background.submit(self.renew, uid, True)

    def _deallocate(self, claim: ResourceClaim) -> None:
        try:
            self._writer.claims.deallocate(claim)
        except ApiError:
            return  # the scheduler drops it in its next cycle

    def renew(self, uid: str, anyway: bool = False) -> None:
        """Write the nomination of a pod (its UID) that is still on the way.

        With ``anyway``, write it even if it seems to be there.
        """
        nomination = self._current(uid)
        if nomination is None:
            return
        try:
            pod = nomination.pod
            alive = self._writer.pods.nominate(pod.namespace, pod.name, uid, nomination.node, anyway)
        except ApiError:
            return  # the next event of the pod tries again
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
        """Return how many pods are still on the way to their node."""
        now = time.monotonic()
        with self._lock:
            for uid in [u for u, n in self._nominations.items() if n.until < now]:
                del self._nominations[uid]
            return len(self._nominations)
