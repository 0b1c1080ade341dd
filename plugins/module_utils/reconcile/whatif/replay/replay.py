# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replay hours in simulated time with the planners of the live cluster.

A heap has the events: a pod comes, a device is attached, the node shows it, a pod is bound, runs
and ends, a node releases a device, the fabric takes it back. Between two moments the planners
decide. One plan is for waiting pods (as a LiveCycle). The others are for nodes that changed or that
requested a later plan.

kube-scheduler places pods that are not gated. The replay places them with the same planner, and
then waits for the next scheduling cycle (the step ``handover``).
"""

from __future__ import annotations

import functools
import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ....planning.scheduling.live.cycle import LiveCycle
from ....planning.scheduling.live.lane_queue import LaneQueue
from ....planning.scheduling.queue import QueuedPod
from ....planning.scheduling.snapshot import Placement, SchedulingPlan
from ...state.reservations import reserved_claim
from ...timelines.timeline import START
from .durations import DETACH, GATE, LEAVE, REQUEST, Durations
from .load import HOUR, Arrival
from .node import ATTACH, OPEN, SLICE, Begun, Counts
from .parked import Parked
from .record import Devices, Record
from .start import Start
from .visit import Visit

Happening = Callable[[], None]
POLL = 0.5
"""Shortest delay, in seconds, until a node is planned again by time."""


class Replay:
    """One replay. ``rng`` draws all random values except the arrivals."""

    def __init__(self, start: Start, arrivals: Sequence[Arrival], durations: Durations, rng: random.Random,
                 hours: float) -> None:
        self.start, self.durations, self.rng = start, durations, rng
        self.began, self.now, self.record = start.snapshot.now, 0.0, Record(hours * HOUR)
        self.nodes, self.cycle = start.nodes(), LiveCycle()
        self.line, self.parked = LaneQueue(), Parked()
        self.free, self.returning, self.devices = Counter(start.snapshot.free), Counter[tuple[str, int]](), Devices()
        self.used = Counter(start.snapshot.used)
        self._visits: dict[str, Visit] = {}
        self._placements: dict[str, Placement] = {}
        self._last_placed = dict(start.snapshot.last_placed)
        self._facts = {name: node.facts for name, node in self.nodes.items()}
        self._heap: list[tuple[float, int, Happening]] = []
        self._numbers = itertools.count()
        self._touched, self._wakes, self._stale = dict.fromkeys(self.nodes), dict[str, float](), True
        self._counted = dict.fromkeys(self.nodes, Counts())
        self.devices.total.update(start.devices())
        self._begin(arrivals)

    def _begin(self, arrivals: Sequence[Arrival]) -> None:
        """Schedule the captured pods and the arrivals.

        A pod of the capture lives as long as a new pod in total. Waiting pods of the capture come
        first.
        """
        lifetimes = [arrival.lifetime for arrival in arrivals]
        for name, node in self.nodes.items():
            for begun in node.under_way():
                self._begun(name, begun)
        for pod in self.start.running:
            if lifetimes:
                self._after(self._left(lifetimes, self.began - pod.since), self._end, pod.node, pod.uid, pod.claims)
        for held in self.start.snapshot.waiting:
            self._come(Visit.of(held, 0.0, self.rng.choice(lifetimes) if lifetimes else self.record.end))
        for number, arrival in enumerate(arrivals):
            self._after(arrival.at, self._arrive, arrival, number)

    def _left(self, lifetimes: Sequence[float], age: float) -> float:
        """Return how long a pod of this age still runs, drawn from the longer lifetimes if there
        are any."""
        longer = [each - age for each in lifetimes if each > age]
        return self.rng.choice(longer or lifetimes)

    def run(self) -> Record:
        """Run the replay and return its record."""
        self._settle()
        while self._heap and self._heap[0][0] <= self.record.end:
            moment = self._heap[0][0]
            self.record.pass_time(moment - self.now, self.devices)
            self.now = moment
            while self._heap and self._heap[0][0] == moment:
                heapq.heappop(self._heap)[2]()
            self._settle()
        self.record.pass_time(self.record.end - self.now, self.devices)
        self.record.plans = self.cycle.plans
        return self.record

    def _after(self, seconds: float, what: Callable[..., None], *about: object) -> None:
        happening: Happening = functools.partial(what, *about)
        heapq.heappush(self._heap, (self.now + seconds, next(self._numbers), happening))

    def _step(self, step: str, what: Callable[..., None], *about: object) -> None:
        self._steps((step,), what, *about)

    def _steps(self, steps: Sequence[str], what: Callable[..., None], *about: object) -> None:
        """Schedule steps that follow each other without a decision in between."""
        self._after(sum(self.durations.draw(step, self.rng) for step in steps), what, *about)

    # Decisions of the planners.

    def _settle(self) -> None:
        """Plan until nothing more is to be decided at this moment.

        Plan the queue if devices became free or are on their way back, if a pod came and no older
        pod like it waits, or if the last plan requested it.
        """
        self._work()
        while self._stale and len(self.line):
            self._stale = False
            self._follow(self.cycle.plan(replace(
                self.start.snapshot, now=self.began + self.now, nodes=self._facts, waiting=(),
                placements=tuple(self._placements.values()), free=self.free, returning=self.returning,
                last_placed=self._last_placed, used=self.used), self.start.settings, self.line))
            self._work()

    def _follow(self, plan: SchedulingPlan) -> None:
        for placement in plan.placements:
            self._place(placement)
        for release in plan.releases:
            visit = self._visits[release.pod.uid]
            visit.guest.let_go = True
            self.line.remove(release.pod.uid)
            if release.unschedulable and visit.queued is not None:
                self.parked.add(visit.queued)
            else:
                visit.guest.unfit = release.reason
        if plan.wake_at is not None:
            self._after(max(POLL, plan.wake_at - self.began - self.now), self._look_again)

    def _look_again(self) -> None:
        self._stale = True

    def _place(self, placement: Placement) -> None:
        uid, node = placement.pod.uid, self.nodes[placement.node]
        visit, self._placements[uid] = self._visits[uid], placement
        visit.placement = placement
        visit.claims = {claim: reserved_claim(placement, claim, visit.claim_name(claim), node.facts.fabric,
                                              self.start.settings) for claim in placement.needs}
        node.claims.update(visit.claims)
        self.used.update(visit.takes())
        self._last_placed[placement.node] = self.began + self.now
        self.line.remove(uid)
        self._touched[placement.node] = None

    def _work(self) -> None:
        """Plan each changed node until its plan is empty."""
        while self._touched:
            name = next(iter(self._touched))
            del self._touched[name]
            node = self.nodes[name]
            wake_at, begun = node.work(self.began + self.now)
            for each in begun:
                self._begun(name, each)
            node.renew(self.began + self.now)
            self._facts[name] = node.facts
            self._count(name)
            if wake_at is not None:
                self._wake_at(name, max(self.now + POLL, wake_at - self.began))

    def _wake_at(self, name: str, moment: float) -> None:
        known = self._wakes.get(name)
        if known is None or moment < known or known <= self.now:
            self._wakes[name] = moment
            self._after(moment - self.now, self._wake, name, moment)

    def _wake(self, name: str, moment: float) -> None:
        if self._wakes.get(name) == moment:
            del self._wakes[name]
            self._touched[name] = None

    def _count(self, name: str) -> None:
        """Count a node's devices again, and add its changes to the free devices of its fabric."""
        node, fabric = self.nodes[name], self.nodes[name].facts.fabric
        before, self._counted[name] = self._counted[name], node.counts()
        self.devices.count(before, -1)
        self.devices.count(self._counted[name], 1)
        if fabric is not None:
            for model in before.returning.keys() | self._counted[name].returning.keys():
                more = self._counted[name].returning[model] - before.returning[model]
                self.returning[model, fabric] += more
                self._stale = self._stale or more > 0
            for model, n in node.free.items():
                self.free[model, fabric] += n
                self._stale = self._stale or n > 0
                self.parked.back(self.line, n)
            node.free.clear()

    # Events.

    def _begun(self, name: str, begun: Begun) -> None:
        if begun.what == ATTACH:
            self._steps((REQUEST, ATTACH), self._attached, name, begun.about)
        elif begun.what == SLICE:
            self._step(SLICE, self._device, name, "shown", begun.about)
        elif begun.what == LEAVE:
            self._step(LEAVE, self._device, name, "left", begun.about)
        elif begun.what == DETACH:
            self._step(DETACH, self._device, name, "detached", begun.about)
        elif begun.what == OPEN:
            self._open(self._visits[begun.about])
        else:
            self._unreserve(self._visits[begun.about])

    def _arrive(self, arrival: Arrival, number: int) -> None:
        self._come(Visit.of(arrival.gated(number, self.began), self.now, arrival.lifetime))

    def _come(self, visit: Visit) -> None:
        self.record.guests.append(visit.guest)
        self._visits[visit.pod.uid] = visit
        queued = self.cycle.judge(visit.pod, self.start.snapshot, self.start.settings)
        if isinstance(queued, QueuedPod):
            visit.queued = queued
            self._stale = self.line.add(queued) or self._stale
        else:
            visit.guest.unfit = queued

    def _attached(self, name: str, resource: str) -> None:
        self.record.attaches[self.nodes[name].resources[resource].model] += 1
        self._device(name, "attached", resource)
        self._begun(name, Begun(SLICE, resource))

    def _device(self, name: str, what: str, resource: str) -> None:
        getattr(self.nodes[name], what)(resource)
        self._touched[name] = None

    def _open(self, visit: Visit) -> None:
        """Hold the devices of a pod, which are all there, until the pod is bound."""
        uid = visit.pod.uid
        held = Counter[str]()
        held.update({model: n for (_namespace, model), n in visit.takes().items()})
        self._placements[uid] = replace(self._placements[uid], holding=dict(held))
        self._steps((GATE, "bind") if self.start.held(visit.guest.namespace) else ("handover",), self._bind, visit)

    def _bind(self, visit: Visit) -> None:
        placement = self._placements.pop(visit.pod.uid)
        self.nodes[placement.node].bound(visit.bound(placement.node), visit.claims)
        self._touched[placement.node] = None
        self._step(START, self._run, visit, placement.node)

    def _run(self, visit: Visit, node: str) -> None:
        visit.guest.ran = self.now
        keys = frozenset(claim.key for claim in visit.claims.values())
        self._after(visit.lifetime, self._end, node, visit.pod.uid, keys)

    def _end(self, node: str, uid: str, keys: frozenset[str]) -> None:
        self.nodes[node].ended(uid, keys, self.began + self.now)
        self._touched[node], self._stale = None, True
        visit = self._visits.pop(uid, None)
        if visit is not None:
            self.used.subtract(visit.takes())
        self.parked.back(self.line, len(keys))

    def _unreserve(self, visit: Visit) -> None:
        """Choose another node for a pod, because its node cannot be served."""
        placement = self._placements.pop(visit.pod.uid)
        for claim in visit.claims:
            self.nodes[placement.node].claims.pop(claim, None)
        self.used.subtract(visit.takes())
        if visit.queued is not None:
            self.line.add(visit.queued)
        self._stale = True
