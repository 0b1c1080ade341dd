# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find allocated claims that soon end, because every pod in ``status.reservedFor`` is being
deleted.

kube-controller-manager removes the allocation shortly after the last of these pods is gone (its
ResourceClaim controller, ``pkg/controller/resourceclaim``).
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Hashable, Iterable, Iterator

from ...kube.times import parse_time
from ...kube.watch.store import Changes
from ...kube.watch.value_store import ValueStore
from ...model.claim import ResourceClaim
from ...model.pod import Pod

# A pod that still exists this long after its grace period is stuck, for example on a lost node.
OVERDUE_SECONDS: t.Final = 10.0
# Number of claims that are judged in one step.
STEP: t.Final = 20


class EndingClaims:
    """Index of ending claims. Thread-safe.

    The first call judges all claims, unless ``ahead`` has done so. Later calls judge only the
    claims of pods that changed.
    """

    def __init__(self, claims_: ValueStore[ResourceClaim], pods_: ValueStore[Pod]) -> None:
        self._claims, self._pods = claims_, pods_
        self._changes: Changes | None = None
        self._unjudged: list[Hashable] = []
        self._ending: set[Hashable] = set()
        self._lock = threading.Lock()

    def until(self, now: float, end: float) -> list[ResourceClaim]:
        """Return the claims that lost their last pod, or will lose it by ``end``.

        Omit claims with a pod that is overdue for more than OVERDUE_SECONDS. ``now`` and ``end``
        are in seconds since the epoch.
        """
        with self._lock:
            asked = self._follow().take() | self._ending | set(self._unjudged)
            self._unjudged = []
            found = {key: claim for key in asked if (claim := self._ends(key))}
            self._ending = set(found)
        return [claim for claim in found.values() if now - OVERDUE_SECONDS <= self._gone(claim, now) <= end]

    def ahead(self) -> Iterator[None]:
        """Judge the claims that were not judged yet, some at each step.

        A standby process may call ``until`` for the first time after months. Calling this regularly
        keeps the list of changes short.
        """
        with self._lock:
            changed = self._follow().take()
            self._unjudged, self._ending = [*changed.union(self._unjudged, self._ending)], set()
        more = True
        while more:
            with self._lock:
                self._unjudged, some = self._unjudged[:-STEP], self._unjudged[-STEP:]
                self._ending.update(key for key in some if self._ends(key))
                more = bool(self._unjudged)
            yield

    def _follow(self) -> Changes:
        """Return the changes of pods since all claims were listed for judgment."""
        if self._changes is None:
            self._changes = self._pods.follow(_claim_keys, known=False)
            self._unjudged = [*self._claims.all_keys()]
        return self._changes

    def _ends(self, key: Hashable) -> ResourceClaim | None:
        """Return the claim if it is allocated and all its pods are leaving."""
        namespace, name = t.cast("tuple[str, str]", key)
        claim = self._claims.value(name, namespace)
        return claim if claim and claim.results and self._all_leave(claim) else None

    def _all_leave(self, claim: ResourceClaim) -> bool:
        """Return False for a claim of a PodGroup, because its pods are not known."""
        return not claim.for_a_group and all(pod.ended for pod in self._consumers(claim))

    def _gone(self, claim: ResourceClaim, now: float) -> float:
        """Return when the last pod of the claim is gone, in seconds since the epoch.

        ``deletionTimestamp`` is the end of a pod's grace period.
        """
        ends = (pod.deleted for pod in self._consumers(claim))
        return max((parse_time(end) for end in ends if end), default=now)

    def _consumers(self, claim: ResourceClaim) -> list[Pod]:
        """Return the pods of the claim that still exist."""
        return [pod for _name, uid in claim.pods for pod in self._pods.values("uid", uid)]


def _claim_keys(pod: Pod) -> Iterable[Hashable]:
    return {(pod.namespace, name) for name in pod.claims.values() if name} if pod.wants_devices else ()
