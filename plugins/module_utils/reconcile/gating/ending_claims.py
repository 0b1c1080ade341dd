# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that are allocated still, and whose devices nobody uses soon: every pod that they are reserved for leaves.

kube-controller-manager takes the allocation away some moments after the last of these pods (its ResourceClaim
controller, ``pkg/controller/resourceclaim``).
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Hashable, Iterable, Iterator

from ...kube.objects import claims, pods
from ...kube.times import parse_time
from ...kube.watch.store import Changes, Store

Json = dict[str, t.Any]
# A pod that should be gone for longer hangs, as one does whose node is away.
OVERDUE_SECONDS: t.Final = 10.0
# Claims that are judged in one step.
STEP: t.Final = 20


class EndingClaims:
    """Follows the pods from the first question on: later only claims of pods that changed are judged. All others are
    judged once, by ``ahead`` or for the first question. Thread-safe."""

    def __init__(self, claims_: Store, pods_: Store) -> None:
        self._claims, self._pods = claims_, pods_
        self._changes: Changes | None = None
        self._unjudged: list[Hashable] = []
        self._ending: set[Hashable] = set()
        self._lock = threading.Lock()

    def until(self, now: float, end: float) -> list[Json]:
        """Those whose pods are gone, or should be between ``now`` and ``end``, in seconds since the epoch."""
        with self._lock:
            asked = self._follow().take() | self._ending | set(self._unjudged)
            self._unjudged = []
            found = {key: claim for key in asked if (claim := self._ends(key))}
            self._ending = set(found)
        return [claim for claim in found.values() if now - OVERDUE_SECONDS <= self._gone(claim, now) <= end]

    def ahead(self) -> Iterator[None]:
        """Judge the claims that no question was about yet, some at each step. Who waits to lead is asked nothing for
        months: what changed and what went since the last round does not pile up."""
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
        """Changes of pods since all claims were to be judged."""
        if self._changes is None:
            self._changes = self._pods.follow(_claim_keys, known=False)
            self._unjudged = [key for key, _kept in self._claims.all_handles()]
        return self._changes

    def _ends(self, key: Hashable) -> Json | None:
        """The claim, if it is allocated and all its pods leave."""
        namespace, name = t.cast("tuple[str, str]", key)
        claim = self._claims.get(name, namespace)
        return claim if claim and claims.results(claim) and self._all_leave(claim) else None

    def _all_leave(self, claim: Json) -> bool:
        """Of a claim of a PodGroup it is not known."""
        return not claims.for_a_group(claim) and all(pods.ended(pod) for pod in self._consumers(claim))

    def _gone(self, claim: Json, now: float) -> float:
        """When the last of its pods is gone: ``deletionTimestamp`` is the end of a pod's grace period."""
        ends = (pod["metadata"].get("deletionTimestamp") for pod in self._consumers(claim))
        return max((parse_time(end) for end in ends if end), default=now)

    def _consumers(self, claim: Json) -> list[Json]:
        """Those of its pods that are there."""
        return [pod for each in claims.consumers(claim) for pod in self._pods.by("uid", each.get("uid"))]


def _claim_keys(pod: Json) -> Iterable[Hashable]:
    if not pods.wants_devices(pod):
        return ()
    return {(pod["metadata"]["namespace"], name) for name in pods.claim_names(pod).values() if name}
