# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes chosen for gated pods, from the choice until the pod is bound, gone or failed.

Reservations are not stored in the cluster. After a crash the pods that are still gated are planned
again, and the plan prefers devices that are attached or in flight.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ...planning.node.demand import GATED
from ...planning.node.snapshot import Claim, PoolResult
from ...planning.scheduling.gate_order import follows, minds_order
from ...planning.scheduling.snapshot import Placement
from ...planning.settings import Settings
from .memory import Remembered

CHOSEN, RESERVED, READY, OPEN = "chosen", "reserved", "ready", "open"
# Labels by namespace, computed only if the neighbors of a pod matter.
Namespaces = Callable[[], Mapping[str, Mapping[str, str]]]


@dataclass(slots=True)
class Reservation:
    """A chosen placement and the progress of its pod.

    ``number`` counts choices. ``phase`` is ``chosen`` (still in the pool), ``reserved`` (devices
    may be requested), ``ready`` (all devices are there and held) or ``open`` (the gate was
    removed). ``refused`` is when the scheduler first found no place for the pod after that, in
    seconds since the epoch, or 0.0.
    """

    placement: Placement
    phase: str = CHOSEN
    number: int = 0
    minds_order: bool = False
    refused: float = 0.0


class Reservations(Remembered):
    """Reservations by pod UID. Thread-safe."""

    def __init__(self) -> None:
        self._reservations: dict[str, Reservation] = {}
        self._by_claim: dict[str, str] = {}
        self._by_node: dict[str, set[str]] = {}
        self._last: dict[str, float] = {}
        self._count = self._minding = 0
        self._lock = threading.RLock()

    def add(self, placements: Iterable[Placement], phase: str = CHOSEN) -> None:
        """Add new choices."""
        with self._lock:
            for placement in placements:
                self._count += 1
                reservation = self._reservations[placement.pod.uid] = Reservation(placement, phase, self._count,
                                                                                  minds_order(placement.raw))
                self._minding += reservation.minds_order
                self._by_node.setdefault(placement.node, set()).add(placement.pod.uid)
                self._by_claim.update(dict.fromkeys(placement.needs, placement.pod.uid))
                self._last[placement.node] = max(placement.since, self._last.get(placement.node, 0.0))

    def copy(self) -> t.Self:
        """Return a copy for a forecast that adds its own."""
        other = type(self)()
        with self._lock:
            other._reservations = {uid: replace(found) for uid, found in self._reservations.items()}
            other._by_claim, other._last = dict(self._by_claim), dict(self._last)
            other._by_node = {node: set(uids) for node, uids in self._by_node.items()}
            other._count, other._minding = self._count, self._minding
        return other

    def last_chosen(self) -> dict[str, float]:
        """Return when each node was last chosen."""
        with self._lock:
            return dict(self._last)

    def reserve(self, placements: Iterable[Placement]) -> None:
        """Allow requests for chosen devices, which are out of the pool now."""
        with self._lock:
            for placement in placements:
                reservation = self._reservations.get(placement.pod.uid)
                if reservation is not None and reservation.phase == CHOSEN:
                    reservation.phase = RESERVED

    def get(self, pod: str) -> Reservation | None:
        """Return the reservation of a pod (its UID), or None."""
        with self._lock:
            return self._reservations.get(pod)

    def drop(self, pod: str) -> Placement | None:
        """Forget the reservation of a pod (its UID) and return its placement, or None."""
        with self._lock:
            reservation = self._reservations.pop(pod, None)
            if reservation is None:
                return None
            self._by_node[reservation.placement.node].discard(pod)
            self._minding -= reservation.minds_order
            for claim in reservation.placement.needs:
                self._by_claim.pop(claim, None)
            return reservation.placement

    def make_ready(self, pod: str) -> None:
        """Record that all devices of a pod are there."""
        with self._lock:
            reservation = self._reservations.get(pod)
            if reservation is not None and reservation.phase == RESERVED:
                reservation.phase = READY

    def take_ready(self, namespaces: Namespaces) -> list[Placement]:
        """Return the pods with gates that may be removed now, each once.

        Their groups are complete, and pods that must come before them are bound.
        """
        with self._lock:
            ready = [s for s in self._reservations.values() if s.phase == READY and self._complete(s.placement.group)]
            found = [s for s in ready if not self._must_follow(s, namespaces)]
            for reservation in found:
                reservation.phase = OPEN
            return [s.placement for s in found]

    def in_the_way(self, pod: str, namespaces: Namespaces) -> bool:
        """Return whether a nomination now would hinder a pod that was planned earlier on the same
        node.

        ``pod`` is a UID. The scheduler counts a nominated pod, but the plan of the other pod did
        not.
        """
        with self._lock:
            reservation = self._reservations.get(pod)
            return reservation is not None and self._must_follow(reservation, namespaces, reservation.placement.node)

    def _complete(self, group: str) -> bool:
        members = (s for s in self._reservations.values() if group and s.placement.group == group)
        return all(s.phase in (READY, OPEN) for s in members)

    def _must_follow(self, reservation: Reservation, namespaces: Namespaces, node: str = "") -> bool:
        if not (self._minding or reservation.minds_order):
            return False
        others = (s for s in self._reservations.values() if s.number < reservation.number and (reservation.minds_order
                                                                                               or s.minds_order)
                  and node in ("", s.placement.node))
        labels = namespaces()
        return any(follows(reservation.placement.raw, s.placement.raw, labels) for s in others)

    def not_ready(self, pod: str) -> None:
        """Record that the gate could not be removed, so that its devices are checked again."""
        with self._lock:
            reservation = self._reservations.get(pod)
            if reservation is not None and reservation.phase in (READY, OPEN):
                reservation.phase = RESERVED

    def opened(self, pod: str) -> None:
        """Record that the gate was removed."""
        with self._lock:
            if reservation := self._reservations.get(pod):
                reservation.phase = OPEN

    def on(self, node: str) -> bool:
        """Return whether a node has reservations."""
        with self._lock:
            return bool(self._by_node.get(node))

    def group(self, key: str) -> list[Placement]:
        """Return the placements of a group."""
        with self._lock:
            return [s.placement for s in self._reservations.values() if key and s.placement.group == key]

    def all(self) -> list[Reservation]:
        """Return all reservations."""
        with self._lock:
            return list(self._reservations.values())

    def holds_for(self, claim: str) -> bool:
        """Return whether the pod of a claim (its UID) has a reservation, so that holds for the
        claim stay."""
        with self._lock:
            return claim in self._by_claim

    def claims(self, node: str, fabric: int | None, settings: Settings,
               name_of: Callable[[str], str]) -> tuple[Claim, ...]:
        """Return the claims on a node that wait for devices, for the planner of the node."""
        with self._lock:
            here = [self._reservations[uid] for uid in self._by_node.get(node, ())]
            waiting = [s.placement for s in sorted(here, key=lambda s: s.placement.since) if s.phase == RESERVED]
        return tuple(reserved_claim(b, uid, name_of(uid), fabric, settings) for b in waiting for uid in b.needs)

    def wanted(self, model: str, has_devices: Callable[[str], bool] = lambda _uid: False) -> dict[str, int]:
        """Return the devices of a model that are reserved for unallocated claims, by node.

        ``has_devices`` says whether a claim (its UID) is allocated.
        """
        found: dict[str, int] = {}
        for reservation in self.all():
            n = sum(need.get(model, 0) for uid, need in reservation.placement.needs.items() if not has_devices(uid))
            if n:
                found[reservation.placement.node] = found.get(reservation.placement.node, 0) + n
        return found


def reserved_claim(placement: Placement, uid: str, name: str, fabric: int | None, settings: Settings) -> Claim:
    """Return a claim of a gated pod on its chosen node, for the planner of the node."""
    pod = placement.pod
    results = tuple(PoolResult(m.driver_name, "", "", m, fabric) for name, n in placement.needs[uid].items()
                    for _unused in range(n) if (m := settings.model(name)))
    return Claim(uid, pod.namespace, name, GATED, placement.since, (pod,), results,
                 named=frozenset(placement.devices.get(uid, ())))
