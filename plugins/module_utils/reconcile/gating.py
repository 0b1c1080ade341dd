# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that our gate holds: choose a node, have the devices attached, open the gate, and see what the scheduler does.

The order is the safety: a device that is chosen leaves the pool before it is asked for, the pod is nominated meanwhile,
and the gate goes last. The attaching itself is the node pass's; for it a booked claim is one more that waits there.
"""

from __future__ import annotations

import functools
import time
import typing as t
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..kube import gates
from ..kube.errors import ApiError
from ..scaling.actions import OpenGate, Unbook, Verdict
from ..scaling.gating.memo import Memo
from ..scaling.gating.plan import plan_gates
from ..scaling.gating.view import Booking, GatePlan, Release
from ..scaling.view import PodRef
from .bookings import OPEN, READY, Seat
from .burst import Burst
from .counters import Counters
from .gateview import gate_view, waiting
from .narrator import Narrator
from .nominations import Nominations
from .poolview import fabric_of
from .triggers import Enqueue, Later, node_key, pool_key
from .world import Json, World
from .writer import Writer

KEY = ("gates",)
# Pods that are created together are planned together, when the API server is done with their creation.
GATHER, GATHER_MOST = 0.015, 0.06
# How long, in seconds, the scheduler may go on refusing a pod whose devices are there.
PATIENCE = 0.8
# Changes that may help a pod that was planned in vain wait for so many times the duration of a pass.
REST = 3.0
THREADS = 16
Publish = Callable[[tuple[str, int]], object]


class Gating:
    """One for an engine. ``publish(model, fabric)`` writes a pool at once; it does nothing where others publish."""

    def __init__(self, world: World, writer: Writer, narrator: Narrator, counters: Counters, enqueue: Enqueue,
                 later: Later, publish: Publish) -> None:
        self.world, self.writer, self.narrator, self.counters = world, writer, narrator, counters
        self._enqueue, self._later, self._publish = enqueue, later, publish
        self.verdicts: tuple[Verdict, ...] = ()
        self._memo, self._coming = Memo(), Burst(GATHER, GATHER_MOST)
        self._left, self._took, self._planned = True, 0.0, False
        self._io = ThreadPoolExecutor(THREADS, thread_name_prefix="gate")
        self.nominations = Nominations(writer, self._namespaces, later)

    def stop(self) -> None:
        """Let the writing threads go."""
        self.nominations.stop()
        self._io.shutdown(wait=False, cancel_futures=True)

    def plan(self) -> GatePlan:
        """What would be decided now. Pods of namespaces with another handover are let go.

        Nothing is decided before the CDI Manager was seen: nobody knows then what can be served.
        """
        if self.world.snapshot is None:
            return GatePlan()
        settings, found = self.world.settings, tuple(waiting(self.world))
        served = tuple(p for p in found if settings.handover_of(p.ref.namespace) == "gated")
        other = [p for p in found if settings.handover_of(p.ref.namespace) != "gated"]
        plan = plan_gates(gate_view(self.world, served), settings, self._memo) if served else GatePlan()
        released = tuple(Release(p.ref, f"the handover of namespace {p.ref.namespace} is "
                                        f"{settings.handover_of(p.ref.namespace)}", False) for p in other)
        return replace(plan, releases=plan.releases + released)

    def run(self) -> None:
        """The pass over all held pods. Raises ApiError when a pool could not be written: nothing is chosen then."""
        if more_until := self._coming.lasts_until():
            self._later(KEY, more_until)
            return
        began = time.monotonic()
        self._judge_refused()
        self._open_ready()
        plan = self.plan()
        self.verdicts, self._took = plan.verdicts, time.monotonic() - began
        self._left = bool(plan.verdicts) or self.world.snapshot is None
        first, self._planned = not self._planned, self._planned or self.world.snapshot is not None
        if plan.wake_at is not None:
            self._later(KEY, plan.wake_at)
        self._book(plan.bookings)
        if first:
            for node in self.world.nodes.list():
                self._enqueue(node_key(node["metadata"]["name"]))
        self._each(self._let_go, plan.releases)

    def unplanned(self) -> bool:
        """True while pods are held that an earlier engine may have attached devices for: those must stay."""
        return not self._planned and bool(self.world.pods.by("gated", True))

    def _book(self, bookings: tuple[Booking, ...]) -> None:
        self.world.bookings.add(bookings)
        try:
            for pool in sorted(self._pools(bookings)):
                self._publish(pool)
        except ApiError:
            for booking in bookings:
                self.world.bookings.drop(booking.pod.uid)
            raise
        self.world.bookings.reserve(bookings)
        for booking in bookings:
            self._tell(booking.pod, "NodeChosen", f"node {booking.node}: {booking.reason}")
        for node in {b.node for b in bookings}:
            self._enqueue(node_key(node))
        self.nominations.begin(bookings)

    def _pools(self, bookings: Iterable[Booking]) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for booking in bookings:
            fabric = fabric_of(self.world, booking.node, self.world.snapshot) if self.world.snapshot else None
            found.update((m, fabric) for need in booking.needs.values() for m in need if fabric is not None)
        return found

    def _each(self, work: Callable[[t.Any], None], todo: Iterable[t.Any]) -> None:
        """Do it for all at the same time; the first error is raised after all have ended."""
        begun = [self._io.submit(work, item) for item in todo]
        errors = [e for f in begun if (e := f.exception())]
        if errors:
            raise errors[0]

    def _let_go(self, release: Release) -> None:
        if self.writer.ungate(release.pod):
            self.counters.add("gate_released_total", reason="unserved" if release.judged else "not_judged")
            self._tell(release.pod, "GateReleased", release.reason)

    def open(self, action: OpenGate) -> None:
        """All devices of a pod are there: keep them for its claims, and open the gate once its group is complete."""
        for claim, resource in action.devices:
            self.world.hold(resource, claim)
        self.world.bookings.make_ready(action.pod.uid)
        self._open_ready()

    def _open_ready(self) -> None:
        """Open the gates of all pods that wait for nothing more."""
        self._each(self._open, self.world.bookings.take_ready(functools.cache(self._namespaces)))

    def _namespaces(self) -> dict[str, dict[str, str]]:
        return {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in self.world.namespaces.list()}

    def _open(self, booking: Booking) -> None:
        """Remove the gate, nominate before if that has not happened: the scheduler must find it when it looks."""
        pod = booking.pod
        try:
            if not self.writer.nominate(pod.namespace, pod.name, pod.uid, booking.node) or not self.writer.ungate(pod):
                self.drop(pod.uid)
                return
        except ApiError:
            self.world.bookings.not_ready(pod.uid)
            self._end_holds(booking)
            raise
        self.world.bookings.opened(pod.uid)
        self.counters.add("gate_opened_total")
        self._tell(pod, "GateOpened", f"its devices are on node {booking.node}")

    def unbook(self, action: Unbook) -> None:
        """The node cannot be served after all; a group gives up together, newest first."""
        seat = self.world.bookings.get(action.pod.uid)
        if seat is None:
            return
        self._tell(action.pod, "NodeGivenUp", f"node {action.node}: {action.reason}", "Warning")
        members = self.world.bookings.group(seat.booking.group) or [seat.booking]
        for booking in sorted(members, key=lambda b: b.since, reverse=True):
            self.drop(booking.pod.uid)

    def drop(self, pod: str) -> None:
        """Forget a booking; what was held for it is anybody's."""
        if booking := self._forget(pod):
            self._end_holds(booking)
            self.nominations.end(booking)

    def _forget(self, pod: str) -> Booking | None:
        """Forget a booking, but not its holds: which devices its claims took may not have been seen yet."""
        booking = self.world.bookings.drop(pod)
        if booking is None:
            return None
        for key in (node_key(booking.node), *(pool_key(m, f) for m, f in sorted(self._pools([booking])))):
            self._enqueue(key)
        self._later(KEY, time.time() + GATHER)
        return booking

    def _end_holds(self, booking: Booking) -> None:
        for raw in (r for claim in booking.needs for r in self.world.holds.kept_for(claim)):
            self.world.holds.end(raw["metadata"]["name"])

    def seen(self, kind: str, pod: Json, old: Json | None) -> None:
        """A pod changed: a held one came or went, or one whose gate was opened is bound, refused or gone."""
        seat = self.world.bookings.get(pod["metadata"]["uid"])
        gone = kind == "DELETED" or gates.ended(pod)
        if seat is not None:
            self._follow(seat, pod, gone)
        elif not gone and gates.held(pod):
            self._later(KEY, max(self._coming.note(), time.time() + self._took))
        if seat is None and old is not None and gates.bound(pod) and (gone or not gates.bound(old)):
            self.changed()

    def changed(self) -> None:
        """Something of the cluster or the fabric changed: pods that still wait are planned anew in a moment."""
        if self._left:
            self._later(KEY, time.time() + max(GATHER, REST * self._took))

    def _follow(self, seat: Seat, pod: Json, gone: bool) -> None:
        booking = seat.booking
        if gone:
            self.drop(booking.pod.uid)
        elif node := gates.bound(pod):
            if node != booking.node:
                self._misjudged(booking, "elsewhere", f"the scheduler placed it on node {node}")
                self.drop(booking.pod.uid)
            self._forget(booking.pod.uid)
        elif seat.phase == OPEN and gates.unschedulable(pod):
            self._refused(seat)
        elif not gates.held(pod) and seat.phase not in (OPEN, READY):
            self.drop(booking.pod.uid)

    def _refused(self, seat: Seat) -> None:
        """The scheduler may have looked before it saw the device, or that its last claim is gone: look again soon."""
        seat.refused = seat.refused or time.time()
        self._later(KEY, seat.refused + PATIENCE)

    def _judge_refused(self) -> None:
        """Pods that are still refused a second later were misjudged."""
        for seat in (s for s in self.world.bookings.all() if s.refused):
            pod = self.world.pods.get(seat.booking.pod.name, seat.booking.pod.namespace)
            said = gates.unschedulable(pod) if pod and not gates.bound(pod) else ""
            if said and time.time() - seat.refused < PATIENCE:
                self._later(KEY, seat.refused + PATIENCE)
            elif said:
                self._misjudged(seat.booking, "unschedulable", f"the scheduler refused it: {said}")
                self.drop(seat.booking.pod.uid)

    def _misjudged(self, booking: Booking, how: str, said: str) -> None:
        self.counters.add("gate_misjudged_total", reason=how)
        self._tell(booking.pod, "NodeMisjudged", f"node {booking.node} was chosen, but {said}", "Warning")

    def _tell(self, pod: PodRef, reason: str, message: str, type_: str = "Normal") -> None:
        self.narrator.about_pod(pod, reason, message, type_)
