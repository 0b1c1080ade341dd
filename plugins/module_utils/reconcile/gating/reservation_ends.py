# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End reservations of gated pods, so that other pods can use the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...planning.node.snapshot import PodRef
from ...planning.scheduling.snapshot import Placement
from ...runtime.work_queue import WorkQueue
from ..keys import Key, NodeKey, PoolKey
from ..pool.snapshot import fabric_of
from ..runtime.event_reporter import EventReporter
from ..state.cluster_state import ClusterState
from ..state.reservations import OPEN, Reservation
from .nominations import Nominations


class ReservationEnds:
    """Ends reservations and queues the nodes and pools that are affected.

    ``plan_soon()`` has gated pods planned again. ``given_up(pod, reason)`` is called
    when the node of a pod was given up.
    """

    def __init__(self, state: ClusterState, queue: WorkQueue[Key], nominations: Nominations,
                 reporter: EventReporter, plan_soon: Callable[[], None],
                 given_up: Callable[[PodRef, str], None] = lambda _pod, _reason: None) -> None:
        self._given_up = given_up
        self._state, self._queue, self._nominations, self._reporter = state, queue, nominations, reporter
        self._plan_soon = plan_soon

    def give_up(self, reservation: Reservation, reason: str) -> None:
        """Give up the node of a gated pod because its devices do not arrive. Log ``reason``.

        If the pod belongs to a group, give up all its members, newest first.
        """
        now, placement = self._state.clock(), reservation.placement
        self._reporter.about_pod(placement.pod, "NodeGivenUp", f"node {placement.node}: {reason}", "Warning",
                                 self._state.claim_refs(placement.needs))
        members = [each for each in self._state.reservations.all() if each is reservation
                   or (placement.group and each.placement.group == placement.group and each.phase != OPEN)]
        for each in sorted(members, key=lambda member: member.placement.since, reverse=True):
            self._state.held.failed(each.placement.pod.uid, now - each.placement.since)
            self.unreserve(each.placement.pod.uid)
        self._given_up(placement.pod, f"node {placement.node}: {reason}")

    def unreserve(self, pod: str) -> None:
        """End the reservation of a pod (its UID). Its devices are no longer kept, and its
        nomination ends."""
        if placement := self.forget(pod):
            self.end_holds(placement)
            self._nominations.end(placement)

    def forget(self, pod: str) -> Placement | None:
        """Drop a reservation but not its holds, and return its placement, if there is one.

        The holds stay because the claims may have taken devices that the watch has not reported
        yet.
        """
        placement = self._state.reservations.drop(pod)
        if placement is not None:
            self._queue.add_change(NodeKey(placement.node))
            for pool in sorted(pools_of(self._state, [placement])):
                self._queue.add_change(pool)
            self._plan_soon()
        return placement

    def end_holds(self, placement: Placement) -> None:
        """End all holds for the claims of a pod."""
        for kept in (each for claim in placement.needs for each in self._state.holds.kept_for(claim)):
            self._state.holds.end(kept.name)


def pools_of(state: ClusterState, placements: Iterable[Placement]) -> set[PoolKey]:
    """Return the pools that supply the devices of these placements."""
    found: set[PoolKey] = set()
    for placement in placements:
        fabric = fabric_of(state, placement.node, state.snapshot) if state.snapshot else None
        if fabric is not None:
            found.update(PoolKey(model, fabric) for need in placement.needs.values() for model in need)
    return found
