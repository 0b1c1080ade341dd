# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that our gate holds: choose a node, have the devices attached, open the gate, and see what the scheduler does.

The order is the safety: a device that is chosen leaves the pool before it is asked for, the pod is nominated meanwhile,
and the gate goes last. The attaching itself is the node controller's: for it the claim of a reserved pod is one more
that waits there.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from ...kube.errors import ApiError, Forbidden
from ...kube.objects import pods
from ...planning.actions import OpenGate, Unreserve, WaitReason
from ...planning.device_info import GATED
from ...planning.scheduling.parse_cache import ParseCache
from ...planning.scheduling.snapshot import Placement, SchedulingPlan
from ..keys import GatesKey, Key, NodeKey, NominationsKey, Result
from ..pool.controller import PoolController, publish
from ..runtime.batcher import Batcher
from ..runtime.event_reporter import EventReporter
from ..runtime.hops import Hops
from ..runtime.threads import Stopped, Threads
from ..runtime.work_queue import WorkQueue
from ..state.cluster_state import ClusterState
from ..state.writer import Writer
from .gate_opener import GateOpener, namespace_labels
from .held_pods_log import HeldPodsLog
from .node_facts import KnownNodes
from .nominations import Nominations
from .pass_record import PassRecord
from .planner import plan_held_pods, read_ahead
from .reservation_ends import ReservationEnds, pools_of
from .reservation_tracker import ReservationTracker
from .second_judgement import SecondJudgement

Json = dict[str, t.Any]
# Pods that come together are planned together: seconds until they are planned after a change, and after the first pod
# of a burst at the latest.
GATHER, GATHER_MOST = 0.015, 0.06
# After a plan that takes longer than a burst is gathered for is so many times its duration: plans of many nodes leave
# the others time for their work.
PAUSE = 2.0
# Changes that may help a pod that was planned in vain wait for so many times the duration of a plan.
REST = 3.0


class GatingController:
    """One for an engine. ``wait_reasons``: what each claim of a held pod waits for, as last planned."""

    def __init__(self, state: ClusterState, writer: Writer, pools: PoolController, reporter: EventReporter,
                 hops: Hops, queue: WorkQueue[Key], threads: Threads) -> None:
        self._state, self._writer, self._pools = state, writer, pools
        self._reporter, self._queue, self._hops = reporter, queue, hops
        self._held_pods = HeldPodsLog(state, reporter)
        self.nominations = Nominations(writer, lambda: namespace_labels(state), queue, threads)
        self.ends = ReservationEnds(state, queue, self.nominations, reporter, self._plan_soon)
        self._second_judgement = SecondJudgement(state, self.ends)
        self._opener = GateOpener(state, writer, self.ends, reporter, hops, threads)
        self._tracker = ReservationTracker(state, self.ends, queue, reporter, hops)
        self._cache, self._known_nodes, self._planning = ParseCache(), KnownNodes(), threading.Lock()
        self._coming = Batcher(GATHER, GATHER_MOST, state.now)
        self._some_wait, self._took, self._planned = True, 0.0, 0.0
        self._missed = False
        self._errors: list[ApiError] = []
        self.passes = PassRecord()
        self.wait_reasons: tuple[WaitReason, ...] = ()

    def reconcile(self, _key: GatesKey) -> Result:
        """Plan all held pods: reserve nodes and devices, open the gates of those that are served, let others go.

        Pods that come together are planned together: while more are coming, the result only says when to come back.
        Raises ApiError when a pool could not be written (nothing is reserved then) or a gate could not be removed,
        after all else was done. Where no plan can be made, pods that have waited too long are let go.
        Source: KEP-3521 for scheduling gates.
        """
        if more_until := self._coming.lasts_until():
            return Result(more_until)
        self._errors = []
        now, fabric_seen = self._state.clock(), self._fabric_seen()
        held = self._state.pods.by("gated", True)
        self._state.held.note((pod["metadata"]["uid"] for pod in held), now)
        self._held_pods.note(held)
        try:
            plan, again = self._plan(now)
            self._reserve(plan.placements)
        except Stopped:
            raise
        except Exception as error:
            self.passes.failed(str(error))
            with contextlib.suppress(ApiError):
                self._opener.let_go_overdue(now, str(error))
            raise
        refused = next((error for error in self._errors if isinstance(error, Forbidden)), None)
        if refused:
            self.passes.failed(str(refused))
        else:
            self.passes.succeeded(self._took)
            self._hops.metrics.observe("gate_pass_duration_seconds", self._took)
        if fabric_seen and not self._state.held_pods_planned:
            self._note_first_plan()
        if self._errors:
            raise self._errors[0]
        due = now + self._state.settings.placement_timeout if plan.placements else None
        return Result.at_earliest(plan.wake_at, due, *again)

    def _plan(self, now: float) -> tuple[SchedulingPlan, tuple[float | None, ...]]:
        """The plan, with when to come back for what is chosen already. Gates are removed on the way; one that cannot be
        removed keeps no other pod waiting."""
        began = time.monotonic()
        self._missed = False
        self._state.note_uses(self._state.nodes_with_holds())
        again = self._tracker.end_refused()
        with self._later():
            self._opener.open_ready()
        overdue = self._second_judgement.run(now)
        with self._planning:
            plan = plan_held_pods(self._state, self._cache, self._known_nodes)
        self._planned = time.monotonic()
        self.wait_reasons, self._took = plan.wait_reasons, self._planned - began
        self._some_wait = bool(plan.wait_reasons) or not self._fabric_seen()
        if self._missed:
            self.cluster_changed()
        with self._later():
            self._opener.let_go(plan.releases)
        return plan, (again, overdue)

    def _fabric_seen(self) -> bool:
        """Whether the CDI Manager was read, and showed the same machines twice in a row."""
        return self._state.snapshot is not None and not self._state.snapshot.unconfirmed

    def _note_first_plan(self) -> None:
        """Devices that an earlier process attached for held pods are kept for them by now; others may be given up."""
        self._state.held_pods_planned = True
        for node in self._state.nodes.names():
            self._queue.add_change(NodeKey(node))

    @contextlib.contextmanager
    def _later(self) -> t.Iterator[None]:
        """An error of the API server is raised when the pass is over."""
        try:
            yield
        except ApiError as error:
            self._errors.append(error)

    def read_ahead(self) -> t.Iterator[None]:
        """Read what the next plan would have to, some at each step, so that nobody waits for it. On any thread: a plan
        waits for one step at most."""
        steps, more = read_ahead(self._state, self._cache, self._known_nodes), True
        while more:
            with self._planning:
                more = next(steps, steps) is not steps
            yield

    def copy_cache(self) -> ParseCache:
        """What was read of raw objects so far, for a forecast beside the live plans."""
        return self._cache.copy()

    def _reserve(self, placements: tuple[Placement, ...]) -> None:
        """The devices leave the pools, then they may be asked for."""
        self._state.reservations.add(placements)
        try:
            for pool in sorted(pools_of(self._state, placements)) if self._pools.enabled else ():
                publish(self._state, self._writer, pool)
        except ApiError:
            for placement in placements:
                self._state.reservations.drop(placement.pod.uid)
            raise
        self._state.reservations.reserve(placements)
        for placement in placements:
            self._note_chosen(placement)
            named = sum(map(len, placement.devices.values()))
            count = sum(n for models in placement.needs.values() for n in models.values()) - named
            self._state.attaches.note(placement.pod.namespace, count, placement.since)
        for node in {placement.node for placement in placements}:
            self._queue.add_change(NodeKey(node))
        self.nominations.begin(placements)

    def _note_chosen(self, placement: Placement) -> None:
        claims = self._state.claim_refs(placement.needs)
        self._reporter.about_pod(placement.pod, "NodeChosen", f"node {placement.node}: {placement.reason}",
                                 claims=claims)
        if seen := self._state.held.of(placement.pod.uid).seen:
            self._hops.took("plan", claims, seen, handover=GATED, node=placement.node)
        for claim in placement.needs:
            self._hops.begin("request", claim)

    def open(self, action: OpenGate) -> None:
        """All devices of a pod are there: keep them for its claims, and open the gate once its group is complete."""
        for claim, resource in action.devices:
            self._state.holds.keep(resource, claim)
            self._hops.forget("request", claim)
            self._hops.end("slice", resource, self._state.claim_refs([claim]), GATED, node=action.node,
                           resource=resource)
        self._hops.begin("gate", action.pod.uid)
        self._state.reservations.make_ready(action.pod.uid)
        self._opener.open_ready()

    def unreserve(self, action: Unreserve) -> None:
        """The node cannot be served after all."""
        if reservation := self._state.reservations.get(action.pod.uid):
            self.ends.give_up(reservation, action.reason)

    def nominate(self, _key: NominationsKey) -> Result:
        """Nominate the pods whose nodes were chosen a moment ago."""
        self.nominations.write()
        return Result()

    def pod_changed(self, kind: str, pod: Json, old: Json | None) -> None:
        """A pod changed: a held one came or went, or one whose gate was opened is bound, refused or gone."""
        reservation = self._state.reservations.get(pod["metadata"]["uid"])
        gone = kind == "DELETED" or pods.ended(pod)
        if reservation is not None:
            self._tracker.pod_changed(reservation, pod, gone)
        elif not gone and pods.held(pod):
            self._plan_soon(max(self._coming.note(), self._state.clock() + self._took))
        elif old is not None and pods.bound(pod) and (gone or not pods.bound(old)):
            self.cluster_changed()

    def node_changed(self, name: str) -> None:
        """A node that was chosen for held pods may suit them no longer."""
        if self._state.reservations.on(name):
            self._plan_soon()

    def _plan_soon(self, when: float = 0.0) -> None:
        """Have held pods planned anew, not before ``when`` (seconds since the epoch)."""
        pause = PAUSE * self._took if self._took > GATHER_MOST else 0.0
        rest = self._planned + pause - time.monotonic()
        self._queue.add_at(GatesKey(), max(when, self._state.clock() + max(GATHER, rest)))

    def cluster_changed(self) -> None:
        """Something of the cluster or the fabric changed: pods that still wait are planned anew in a moment."""
        self._missed = True  # a plan that is being made may not see it, and know only later that pods wait
        if self._some_wait:
            self._plan_soon(self._state.clock() + REST * self._took)
