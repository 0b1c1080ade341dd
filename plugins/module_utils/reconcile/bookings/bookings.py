# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that accepted ProvisioningRequests expect, and what the last plan decided about them.

Nodes and devices are in the reservations, as for gated pods, and in the status of the request.
After a crash the controller reads them there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ...kube.objects.provisioning_requests import consumed, is_expected
from ...planning.node.snapshot import PodRef
from ...planning.scheduling.snapshot import GatedPod, Json, Placement, SchedulingPlan
from ...runtime.work_queue import WorkQueue
from ..keys import GatesKey, Key, ProvisioningKey
from .expected_pods import ExpectedPod

WAITING, BOOKED, DONE = "waiting", "booked", "done"


@dataclass(slots=True)
class Booking:
    """One accepted request.

    ``pods``: all pods that it expects, by UID. ``phase`` is ``waiting`` (no node yet), ``booked``
    (nodes chosen) or ``done`` (devices attached, pods may use them). ``reason`` says why it waits.
    ``unsupported`` says why it never gets devices. ``failures`` counts nodes that were given up.
    ``displaced``: pods (their UIDs) that may not run where the devices are, and for which a place was
    given up.
    """

    key: ProvisioningKey
    uid: str
    pods: dict[str, ExpectedPod]
    phase: str = WAITING
    reason: str = ""
    unsupported: str = ""
    failures: int = 0
    claims: set[str] = field(default_factory=set)
    displaced: frozenset[str] = frozenset()


class Bookings:
    """Bookings of an engine. Thread-safe. Methods return copies."""

    def __init__(self, queue: WorkQueue[Key]) -> None:
        self._queue, self._lock = queue, threading.Lock()
        self._known: dict[ProvisioningKey, Booking] = {}
        self._by_pod: dict[str, ProvisioningKey] = {}

    def add(self, key: ProvisioningKey, uid: str, expected: Iterable[ExpectedPod], phase: str = WAITING) -> None:
        """Add an accepted request with its UID."""
        with self._lock:
            by_uid = {each.uid: each for each in expected}
            names = {f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" for each in by_uid.values()
                     for claim in each.pod.claims.values() if claim}
            names |= {f"{each.pod.ref.namespace}/{each.pod.ref.name}-extended-resources" for each in by_uid.values()}
            self._known[key] = Booking(key, uid, by_uid, phase, claims=names)
            self._by_pod.update(dict.fromkeys(by_uid, key))

    def get(self, key: ProvisioningKey) -> Booking | None:
        """Return a booking, or None."""
        with self._lock:
            found = self._known.get(key)
            return replace(found) if found else None

    def keys(self) -> list[ProvisioningKey]:
        """Return the keys of all bookings."""
        with self._lock:
            return [*self._known]

    def forget(self, key: ProvisioningKey) -> None:
        """Forget a request that is over or gone."""
        with self._lock:
            if found := self._known.pop(key, None):
                for uid in found.pods:
                    self._by_pod.pop(uid, None)

    def set_phase(self, key: ProvisioningKey, phase: str) -> None:
        """Record how far a request is."""
        with self._lock:
            if found := self._known.get(key):
                found.phase = phase

    def waiting(self) -> tuple[GatedPod, ...]:
        """Return the pods of all requests without nodes."""
        with self._lock:
            return tuple(each.pod for found in self._known.values() if found.phase == WAITING
                         for each in found.pods.values())

    def holds_back(self, pod: Json) -> str:
        """Return why a gated pod is not planned yet, empty if it may be.

        The devices of its request are being attached.
        """
        consumes = consumed(pod)
        with self._lock:
            found = self._known.get(ProvisioningKey(*consumes)) if consumes else None
            return (f"the devices of ProvisioningRequest {found.key.name} to be attached"
                    if found and found.phase != DONE else "")

    def note_plan(self, plan: SchedulingPlan) -> SchedulingPlan:
        """Record why requests wait, and queue them.

        Return the plan without what it says of expected pods. They have no gate to remove, and their
        claims do not exist.
        """
        refused = {each.pod.uid: each for each in plan.releases if is_expected(each.pod.uid)}
        reasons = {each.claim: each.waits_for for each in plan.wait_reasons}
        with self._lock:
            waits = [each for each in self._known.values() if each.phase == WAITING]
            for found in waits:
                release = next((refused[uid] for uid in found.pods if uid in refused), None)
                if release is not None:
                    found.reason = release.reason
                    found.unsupported = "" if release.unschedulable else release.reason
                else:
                    found.reason = next((reasons[name] for name in sorted(found.claims) if name in reasons), "")
        for found in waits:
            self._queue.add(found.key)
        of_requests = {name for each in waits for name in each.claims}
        return replace(plan, releases=tuple(each for each in plan.releases if each.pod.uid not in refused),
                       wait_reasons=tuple(each for each in plan.wait_reasons if each.claim not in of_requests))

    def given_up(self, pod: PodRef, reason: str) -> None:
        """Record that a node of a request was given up. All its pods are planned again."""
        with self._lock:
            key = self._by_pod.get(pod.uid)
            found = self._known.get(key) if key else None
            if found is not None and found.phase == BOOKED:
                found.phase, found.reason, found.failures = WAITING, reason, found.failures + 1
        if key is not None:
            self._queue.add(key)

    def displace(self, expected: str, pod: str) -> None:
        """Record that the place of an expected pod (its UID) is given up for another pod."""
        with self._lock:
            key = self._by_pod.get(expected)
            found = self._known.get(key) if key else None
            if found is not None:
                found.displaced |= {pod}
        if key is not None:
            self._queue.add(key)

    def changed(self, placement: Placement) -> bool:
        """Queue the request of a placement, which has its nodes now.

        Return whether the pod of the placement is one that a request expects.
        """
        with self._lock:
            key = self._by_pod.get(placement.pod.uid)
            found = self._known.get(key) if key else None
            if found is not None and found.phase == WAITING:
                found.phase = BOOKED
        if key is not None:
            self._queue.add(key)
        return is_expected(placement.pod.uid)

    def plan_again(self) -> None:
        """Have gated pods and requests planned."""
        self._queue.add(GatesKey())
