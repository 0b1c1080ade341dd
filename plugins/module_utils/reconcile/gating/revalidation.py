# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the chosen nodes again while their devices are being attached.

Meanwhile a node may be cordoned or lost, and a device may be attached but never become visible.
Then the pod is planned again, and it is released in the end, so that no pod stays gated for ever.
"""

from __future__ import annotations

from ..bookings.consumers import unsuitable
from ..state.cluster_state import ClusterState
from ..state.reservations import OPEN, READY, RESERVED, Reservation
from .reservation_ends import ReservationEnds

# Seconds in which models that did not arrive are not requested on that node again.
BLOCK_SECONDS = 60.0


class Revalidation:
    """Checks every reservation of a pod that is still gated."""

    def __init__(self, state: ClusterState, ends: ReservationEnds) -> None:
        self._state, self._ends = state, ends

    def run(self, now: float) -> float | None:
        """Give up reservations that are no longer valid.

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
