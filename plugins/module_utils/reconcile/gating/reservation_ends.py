# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the reservations of held pods end: the devices that were kept for them are anybody's again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...planning.scheduling.snapshot import Placement
from ..keys import Key, NodeKey, PoolKey
from ..pool.snapshot import fabric_of
from ..runtime.event_reporter import EventReporter
from ..runtime.work_queue import WorkQueue
from ..state.cluster_state import ClusterState
from ..state.reservations import OPEN, Reservation
from .nominations import Nominations


class ReservationEnds:
    """Ends reservations and has looked at whatever that concerns; ``plan_soon()`` has held pods planned anew."""

    def __init__(self, state: ClusterState, queue: WorkQueue[Key], nominations: Nominations,
                 reporter: EventReporter, plan_soon: Callable[[], None]) -> None:
        self._state, self._queue, self._nominations, self._reporter = state, queue, nominations, reporter
        self._plan_soon = plan_soon

    def give_up(self, reservation: Reservation, reason: str) -> None:
        """The devices of a held pod do not come to its node; a group gives up together, newest first."""
        now, placement = self._state.clock(), reservation.placement
        self._reporter.about_pod(placement.pod, "NodeGivenUp", f"node {placement.node}: {reason}", "Warning",
                                 self._state.claim_refs(placement.needs))
        members = [each for each in self._state.reservations.all() if each is reservation
                   or (placement.group and each.placement.group == placement.group and each.phase != OPEN)]
        for each in sorted(members, key=lambda member: member.placement.since, reverse=True):
            self._state.held.failed(each.placement.pod.uid, now - each.placement.since)
            self.unreserve(each.placement.pod.uid)

    def unreserve(self, pod: str) -> None:
        """Give up the reservation of a pod (its uid): its devices are kept for nobody, its node is not its own."""
        if placement := self.forget(pod):
            self.end_holds(placement)
            self._nominations.end(placement)

    def forget(self, pod: str) -> Placement | None:
        """Forget a reservation, but not its holds: which devices its claims took may not have been seen yet."""
        placement = self._state.reservations.drop(pod)
        if placement is not None:
            self._queue.add_change(NodeKey(placement.node))
            for pool in sorted(pools_of(self._state, [placement])):
                self._queue.add_change(pool)
            self._plan_soon()
        return placement

    def end_holds(self, placement: Placement) -> None:
        """What was kept for the claims of a pod is kept for nobody."""
        for raw in (r for claim in placement.needs for r in self._state.holds.kept_for(claim)):
            self._state.holds.end(raw["metadata"]["name"])


def pools_of(state: ClusterState, placements: Iterable[Placement]) -> set[PoolKey]:
    """The pools that the devices of these placements are taken from."""
    found: set[PoolKey] = set()
    for placement in placements:
        fabric = fabric_of(state, placement.node, state.snapshot) if state.snapshot else None
        if fabric is not None:
            found.update(PoolKey(model, fabric) for need in placement.needs.values() for model in need)
    return found
