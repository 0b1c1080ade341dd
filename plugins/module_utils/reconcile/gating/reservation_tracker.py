# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow a pod with a reservation until the scheduler binds it there or elsewhere, or refuses it.

While its devices are being attached, the chosen node is checked again. If the node no longer suits
the pod, the pod is planned again, and it is released in the end, so that no pod stays gated for ever.
"""

from __future__ import annotations

from ...model.pod import Pod
from ...planning.scheduling.snapshot import Placement
from ...runtime.work_queue import WorkQueue
from ..bookings.consumers import unsuitable
from ..keys import GatesKey, Key
from ..runtime.event_reporter import EventReporter
from ..runtime.step_marks import DecidedSteps
from ..state.cluster_state import ClusterState
from ..state.reservations import OPEN, READY, RESERVED, Reservation
from .reservation_ends import ReservationEnds

# Seconds in which the scheduler may still refuse a pod that has its devices.
PATIENCE = 0.8
# Seconds in which models that did not arrive are not requested on that node again.
BLOCK_SECONDS = 60.0


class ReservationTracker:
    """Follows pods with reservations. ``pod_changed`` may be called on any thread."""

    def __init__(self, state: ClusterState, ends: ReservationEnds, queue: WorkQueue[Key], reporter: EventReporter,
                 steps: DecidedSteps) -> None:
        self._state, self._ends, self._queue = state, ends, queue
        self._reporter, self._steps = reporter, steps

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

    def revalidate(self, now: float) -> float | None:
        """Give up reservations of gated pods that are no longer valid, so that these pods are planned again.

        A node may be cordoned or lost while the devices are being attached, and a device may never
        become visible.

        ``now`` is in seconds since the epoch. Return when the next reservation is overdue, or None.
        """
        due = []
        for reservation in self._state.reservations.all():
            if not (judged := reservation.phase in (RESERVED, READY)) and not self._is_held(reservation):
                continue
            if self._state.reservations.get(reservation.placement.pod.uid) is not reservation:
                continue  # its group was given up
            deadline = self._deadline(reservation)
            if reason := unsuitable(self._state, reservation.placement) if judged else "":
                self._ends.give_up(reservation, reason)
            elif now >= deadline:
                self._overdue(reservation, now)
            else:
                due.append(deadline)
        return min(due, default=None)

    def _is_held(self, reservation: Reservation) -> bool:
        """Return whether the gate is still there though it should be gone. Nothing else checks such
        a pod."""
        pod = self._state.pods.value(reservation.placement.pod.name, reservation.placement.pod.namespace)
        return reservation.phase == OPEN and pod is not None and pod.held

    def _deadline(self, reservation: Reservation) -> float:
        """Return when the reservation is overdue, in seconds since the epoch, less the time that
        earlier nodes took."""
        allowed, placement = self._state.settings.placement_timeout, reservation.placement
        left = 2 * allowed - self._state.held.of(placement.pod.uid).spent
        return placement.since + max(0.0, min(allowed, left))

    def _overdue(self, reservation: Reservation, now: float) -> None:
        placement = reservation.placement
        reason = f"its devices were not in the node's ResourceSlice {now - placement.since:.0f} s after the choice"
        for model in {model for need in placement.needs.values() for model in need}:
            self._state.blocks.block(placement.node, model, BLOCK_SECONDS, reason)
        self._ends.give_up(reservation, reason)

    def _note_bound(self, placement: Placement, node: str) -> None:
        self._steps.bound(placement, node)
        self._reporter.note("PodBound", f"{placement.pod.namespace}/{placement.pod.name}", f"to node {node}",
                            claims=self._state.claim_refs(placement.needs))

    def _misjudged(self, placement: Placement, how: str, said: str) -> None:
        self._steps.misjudged(how)
        self._reporter.about_pod(placement.pod, "NodeMisjudged", f"node {placement.node} was chosen, but {said}",
                                 "Warning", self._state.claim_refs(placement.needs))
