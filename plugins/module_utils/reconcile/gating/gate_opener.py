# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the scheduling gate of pods that have their devices, and of pods that are released."""

from __future__ import annotations

import functools
from functools import partial

from ...kube.errors import Forbidden
from ...model.value import Json
from ...planning.node.snapshot import PodRef
from ...planning.scheduling.snapshot import Placement, Release
from ...runtime.threads import Threads, run_all
from ..bookings.bookings import Bookings
from ..runtime.event_reporter import EventReporter
from ..runtime.step_marks import DecidedSteps
from ..state.cluster_state import ClusterState
from ..state.reservations import CHOSEN
from ..writers.writer import Writer
from .reservation_ends import ReservationEnds

THREADS = 16


class GateOpener:
    """Removes scheduling gates. An engine has one. Thread-safe."""

    def __init__(self, state: ClusterState, writer: Writer, ends: ReservationEnds, reporter: EventReporter,
                 steps: DecidedSteps, threads: Threads, bookings: Bookings) -> None:
        self._bookings = bookings
        self._state, self._writer, self._ends = state, writer, ends
        self._reporter, self._steps = reporter, steps
        self._threads = threads.executor(THREADS, "gate")

    def open_ready(self) -> None:
        """Remove the gates of all ready pods. Raise the first ApiError after all were tried."""
        namespaces = functools.cache(lambda: namespace_labels(self._state))
        ready = self._state.reservations.take_ready(namespaces)
        run_all(self._threads, [partial(self._open, placement) for placement in ready])

    def let_go(self, releases: tuple[Release, ...]) -> None:
        """Remove the gates of pods that are not served. Raise the first ApiError after all were
        tried."""
        run_all(self._threads, [partial(self._let_go, release) for release in releases])

    def _open(self, placement: Placement) -> None:
        """Nominate the pod if that is still to do, then remove its gate.

        A pod that a ProvisioningRequest expects has no gate, so only its request is queued. The
        scheduler must find the nomination when it sees the pod without a gate.
        """
        pod = placement.pod
        if self._bookings.changed(placement):
            self._steps.no_gate(pod.uid)
            return
        try:
            there = self._writer.pods.nominate(pod.namespace, pod.name, pod.uid, placement.node)
            if not there or not self._writer.pods.ungate(pod):
                self._ends.unreserve(pod.uid)
                return
        except Exception:  # the gate is still there, and only another try removes it
            self._state.reservations.not_ready(pod.uid)
            self._ends.end_holds(placement)
            raise
        self._state.reservations.opened(pod.uid)
        self._steps.gate_opened(placement)
        self._reporter.about_pod(pod, "GateOpened", f"its devices are on node {placement.node}",
                                 claims=self._state.claim_refs(placement.needs))

    def let_go_overdue(self, now: float, why: str) -> None:
        """Release the pods that have waited for a plan longer than ``hold_timeout``.

        ``now`` is in seconds since the epoch. ``why`` says why no plan can be made or carried out.
        """
        limit, found = self._state.settings.hold_timeout, []
        reason = f"gated pods could not be planned for {limit:g} s: {why}"
        for pod in self._state.pods.at("gated", True):
            ref = pod_ref(pod.as_object())
            seen, reservation = self._state.held.of(ref.uid).seen, self._state.reservations.get(ref.uid)
            if (reservation is None or reservation.phase == CHOSEN) and seen and now - seen >= limit:
                found.append(Release(ref, reason, unschedulable=False))
        self.let_go(tuple(found))

    def _let_go(self, release: Release) -> None:
        pod = self._state.pods.value(release.pod.name, release.pod.namespace)
        if self._writer.pods.ungate(release.pod):
            claims = self._state.claims_of_pod(pod) if pod else ()
            known = [claim for ref in claims if (claim := self._state.claim(ref.uid))]
            self._reporter.about_pod(release.pod, "GateReleased", release.reason, claims=claims)
            for claim in (each for each in known if not each.results):
                self._reporter.about_claim(claim, "GateReleased", release.reason)
            self._steps.gate_released(known, release.reason, unschedulable=release.unschedulable)
            if release.unschedulable:
                self._tell(release)

    def _tell(self, release: Release) -> None:
        """Write the reason on the pod.

        An admission policy of an older version forbids this write. Then report it once, so that no
        other pod waits.
        """
        try:
            self._writer.pods.tell_not_served(release.pod, release.reason)
            self._reporter.once("served", "")
        except Forbidden as error:
            self._reporter.once("served", f"the reason why pods are not served cannot be written on them: {error}")


def namespace_labels(state: ClusterState) -> dict[str, dict[str, str]]:
    """Return the labels of each namespace by its name."""
    return {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in state.namespaces.list()}


def pod_ref(raw: Json) -> PodRef:
    """Return the reference of a raw pod."""
    meta = raw["metadata"]
    return PodRef(meta["namespace"], meta["name"], meta["uid"])
