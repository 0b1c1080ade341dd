# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow how the scheduler handles a pod with a reservation: binds it there or elsewhere, or
refuses it."""

from __future__ import annotations

import typing as t

from ...model.pod import Pod
from ...planning.device_info import GATED
from ...planning.scheduling.snapshot import Placement
from ...runtime.work_queue import WorkQueue
from ..keys import GatesKey, Key
from ..runtime.claim_steps import ClaimSteps
from ..runtime.event_reporter import EventReporter
from ..state.cluster_state import ClusterState
from ..state.reservations import OPEN, READY, Reservation
from .reservation_ends import ReservationEnds

Json = dict[str, t.Any]
# Seconds in which the scheduler may still refuse a pod that has its devices.
PATIENCE = 0.8


class ReservationTracker:
    """Follows pods with reservations by watch events. Thread-safe."""

    def __init__(self, state: ClusterState, ends: ReservationEnds, queue: WorkQueue[Key], reporter: EventReporter,
                 claim_steps: ClaimSteps) -> None:
        self._state, self._ends, self._queue = state, ends, queue
        self._reporter, self._claim_steps = reporter, claim_steps

    def pod_changed(self, reservation: Reservation, pod: Pod, gone: bool) -> None:
        """Handle a change of a pod with a reservation. ``gone`` means deleted or ended."""
        placement = reservation.placement
        if gone:
            self._ends.unreserve(placement.pod.uid)
        elif node := pod.node:
            if node != placement.node:
                self._misjudged(placement, "elsewhere", f"the scheduler placed the pod on node {node}")
                self._ends.unreserve(placement.pod.uid)
            self._note_bound(placement, node)
            self._ends.forget(placement.pod.uid)
        elif reservation.phase == OPEN and pod.unschedulable:
            # The scheduler may not have seen the device yet, or the end of the device's last claim.
            reservation.refused = reservation.refused or self._state.clock()
            self._queue.add_at(GatesKey(), reservation.refused + PATIENCE)
        elif not pod.held and reservation.phase not in (OPEN, READY):
            self._ends.unreserve(placement.pod.uid)

    def end_refused(self) -> float | None:
        """End the reservations of pods that the scheduler has refused for too long.

        Return when to call again, in seconds since the epoch, or None if no pod is refused.
        """
        again = []
        for reservation in (r for r in self._state.reservations.all() if r.refused):
            pod = self._state.pods.value(reservation.placement.pod.name, reservation.placement.pod.namespace)
            said = pod.unschedulable if pod and not pod.node else ""
            if said and self._state.clock() - reservation.refused < PATIENCE:
                again.append(reservation.refused + PATIENCE)
            elif said:
                self._misjudged(reservation.placement, "unschedulable", f"the scheduler refused the pod: {said}")
                self._ends.unreserve(reservation.placement.pod.uid)
        return min(again, default=None)

    def _note_bound(self, placement: Placement, node: str) -> None:
        claims = self._state.claim_refs(placement.needs)
        # The watch event may arrive before the response to the gate's removal.
        self._claim_steps.end("gate", placement.pod.uid, claims, GATED, then="bind", node=placement.node)
        self._claim_steps.end("bind", placement.pod.uid, claims, GATED, node=node)
        self._claim_steps.over((claim for ref in claims if (claim := self._state.claim(ref.uid))), node=node)
        self._reporter.note("PodBound", f"{placement.pod.namespace}/{placement.pod.name}", f"to node {node}",
                            claims=claims)

    def _misjudged(self, placement: Placement, how: str, said: str) -> None:
        self._claim_steps.metrics.count("gate_misjudged_total", reason=how)
        self._reporter.about_pod(placement.pod, "NodeMisjudged", f"node {placement.node} was chosen, but {said}",
                                 "Warning", self._state.claim_refs(placement.needs))
