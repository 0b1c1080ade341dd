# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes chosen for pods that our gate holds, from the choice until the pod is bound, gone or failed.

Nothing of this is stored in the cluster: after a crash the pods that still have the gate are planned anew, and the
plan prefers the devices that are attached or on their way already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..scaling.demand import GATED
from ..scaling.gating.order import follows, minds_order
from ..scaling.gating.view import Booking
from ..scaling.settings import Settings
from ..scaling.view import Claim, PoolResult

CHOSEN, RESERVED, READY, OPEN = "chosen", "reserved", "ready", "open"
# Labels by namespace, made only when some pod's neighbours matter.
Namespaces = Callable[[], Mapping[str, Mapping[str, str]]]


@dataclass(slots=True)
class Seat:
    """A booking, the how many-th it is, and how far it is.

    ``chosen``: not yet taken out of the pool; ``reserved``: devices may be asked for; ``ready``: all are there and
    held; ``open``: the gate was removed; ``refused``: when the scheduler first found no place for it after that
    (seconds since the epoch).
    """

    booking: Booking
    phase: str = CHOSEN
    number: int = 0
    minds_order: bool = False
    refused: float = 0.0


class Bookings:
    """By pod uid. Thread-safe."""

    def __init__(self) -> None:
        self._seats: dict[str, Seat] = {}
        self._by_claim: dict[str, str] = {}
        self._by_node: dict[str, set[str]] = {}
        self._last: dict[str, float] = {}
        self._count = self._minding = 0
        self._lock = threading.RLock()

    def add(self, bookings: Iterable[Booking], phase: str = CHOSEN) -> None:
        """Remember new choices."""
        with self._lock:
            for booking in bookings:
                self._count += 1
                seat = self._seats[booking.pod.uid] = Seat(booking, phase, self._count, minds_order(booking.raw))
                self._minding += seat.minds_order
                self._by_node.setdefault(booking.node, set()).add(booking.pod.uid)
                self._by_claim.update(dict.fromkeys(booking.needs, booking.pod.uid))
                self._last[booking.node] = max(booking.since, self._last.get(booking.node, 0.0))

    def last_chosen(self) -> dict[str, float]:
        """When each node was last chosen."""
        with self._lock:
            return dict(self._last)

    def reserve(self, bookings: Iterable[Booking]) -> None:
        """What was chosen is out of the pool: its devices may be asked for."""
        with self._lock:
            for booking in bookings:
                seat = self._seats.get(booking.pod.uid)
                if seat is not None and seat.phase == CHOSEN:
                    seat.phase = RESERVED

    def get(self, pod: str) -> Seat | None:
        """The seat of a pod (its uid)."""
        with self._lock:
            return self._seats.get(pod)

    def drop(self, pod: str) -> Booking | None:
        """Forget a pod (its uid)."""
        with self._lock:
            seat = self._seats.pop(pod, None)
            if seat is None:
                return None
            self._by_node[seat.booking.node].discard(pod)
            self._minding -= seat.minds_order
            for claim in seat.booking.needs:
                self._by_claim.pop(claim, None)
            return seat.booking

    def make_ready(self, pod: str) -> None:
        """All devices of a pod are there."""
        with self._lock:
            seat = self._seats.get(pod)
            if seat is not None and seat.phase == RESERVED:
                seat.phase = READY

    def take_ready(self, namespaces: Namespaces) -> list[Booking]:
        """Pods whose gates may be opened now, each given out once: their groups are complete, and those are bound that
        must be there before them."""
        with self._lock:
            ready = [s for s in self._seats.values() if s.phase == READY and self._complete(s.booking.group)]
            found = [s for s in ready if not self._must_follow(s, namespaces)]
            for seat in found:
                seat.phase = OPEN
            return [s.booking for s in found]

    def in_the_way(self, pod: str, namespaces: Namespaces) -> bool:
        """Whether a pod (its uid) would hinder one that was planned before it on its node, were it nominated already:
        the scheduler counts it there, and the plan of the other did not."""
        with self._lock:
            seat = self._seats.get(pod)
            return seat is not None and self._must_follow(seat, namespaces, seat.booking.node)

    def _complete(self, group: str) -> bool:
        members = (s for s in self._seats.values() if group and s.booking.group == group)
        return all(s.phase in (READY, OPEN) for s in members)

    def _must_follow(self, seat: Seat, namespaces: Namespaces, node: str = "") -> bool:
        if not (self._minding or seat.minds_order):
            return False
        others = (s for s in self._seats.values() if s.number < seat.number and (seat.minds_order or s.minds_order)
                  and node in ("", s.booking.node))
        labels = namespaces()
        return any(follows(seat.booking.raw, s.booking.raw, labels) for s in others)

    def not_ready(self, pod: str) -> None:
        """The gate could not be removed: its devices are looked for again."""
        with self._lock:
            seat = self._seats.get(pod)
            if seat is not None and seat.phase in (READY, OPEN):
                seat.phase = RESERVED

    def opened(self, pod: str) -> None:
        """The gate was removed."""
        with self._lock:
            if seat := self._seats.get(pod):
                seat.phase = OPEN

    def group(self, key: str) -> list[Booking]:
        """Bookings of a group."""
        with self._lock:
            return [s.booking for s in self._seats.values() if key and s.booking.group == key]

    def all(self) -> list[Seat]:
        """Every seat."""
        with self._lock:
            return list(self._seats.values())

    def holds_for(self, claim: str) -> bool:
        """True while the pod of a claim (its uid) is booked: what is held for it stays held."""
        with self._lock:
            return claim in self._by_claim

    def claims(self, node: str, fabric: int | None, settings: Settings,
               name_of: Callable[[str], str]) -> tuple[Claim, ...]:
        """Claims on a node that still wait for their devices, as the planner of the node sees them."""
        with self._lock:
            here = [self._seats[uid] for uid in self._by_node.get(node, ())]
            waiting = [s.booking for s in sorted(here, key=lambda s: s.booking.since) if s.phase == RESERVED]
        return tuple(_claim(b, uid, name_of(uid), fabric, settings) for b in waiting for uid in b.needs)

    def wanted(self, model: str, has_devices: Callable[[str], bool] = lambda _uid: False) -> dict[str, int]:
        """Devices of a model that are booked for claims (their uids) that have none yet, by node."""
        found: dict[str, int] = {}
        for seat in self.all():
            n = sum(need.get(model, 0) for uid, need in seat.booking.needs.items() if not has_devices(uid))
            if n:
                found[seat.booking.node] = found.get(seat.booking.node, 0) + n
        return found


def _claim(booking: Booking, uid: str, name: str, fabric: int | None, settings: Settings) -> Claim:
    pod = booking.pod
    results = tuple(PoolResult(m.driver_name, "", "", m, fabric) for name, n in booking.needs[uid].items()
                    for _unused in range(n) if (m := settings.model(name)))
    return Claim(uid, pod.namespace, name, GATED, booking.since, (pod,), results)
