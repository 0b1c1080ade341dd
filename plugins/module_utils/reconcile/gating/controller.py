# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose nodes for gated pods, have their devices attached, remove their gates and follow them.

The order of steps keeps the plan safe. First the controller takes a chosen device out of its pool,
then it requests the device and nominates the pod, and last it removes the gate. The node controller
attaches the device. It treats the claim of a reserved pod like any other waiting claim.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import NODES, PODS
from ...kube.errors import ApiError, Forbidden
from ...kube.objects import nodes
from ...model.pod import Pod
from ...planning.actions import OpenGate, Unreserve, WaitReason
from ...planning.scheduling.live.cycle import MOST_KEPT, LiveCycle
from ...planning.scheduling.parse_cache import ParseCache
from ...planning.scheduling.snapshot import Placement, SchedulingPlan
from ...runtime.batcher import Batcher
from ...runtime.threads import Stopped, Threads
from ...runtime.work_queue import WorkQueue
from ..bookings.bookings import Bookings
from ..bookings.consumers import booked_placements, misplaced
from ..controller import Change, Controller
from ..keys import GatesKey, Key, NodeKey, NominationsKey, Result
from ..pool.controller import PoolController, publish
from ..runtime.event_reporter import EventReporter
from ..runtime.step_marks import DecidedSteps
from ..state.cluster_state import ClusterState
from ..state.reservations import READY
from ..writers.writer import Writer
from .gate_opener import GateOpener, namespace_labels
from .held_pods_log import HeldPodsLog
from .node_facts import KnownNodes
from .nominations import Nominations
from .pass_record import PassRecord
from .planner import plan_gated_pods, read_ahead
from .reservation_ends import ReservationEnds, pools_of
from .reservation_tracker import ReservationTracker

# Pods that are created together are planned together. The first value is the delay of a plan after
# a change, the second the longest delay after the first pod of a burst, both in seconds.
GATHER, GATHER_MOST = 0.015, 0.06
# Pause after a plan that takes longer than `GATHER_MOST`, as a multiple of its duration. The other
# threads need time for their work.
PAUSE = 2.0
# Delay of a new plan after a change that may help a pod that could not be placed, as a multiple of
# the last plan's duration.
REST = 3.0


class GatingController(Controller):
    """Controller of gated pods. An engine has one. Does nothing by itself unless ``enabled``.

    ``wait_reasons`` says for each claim of a gated pod why it waits, as of the last plan.
    """

    def __init__(self, state: ClusterState, writer: Writer, pools: PoolController, reporter: EventReporter,
                 steps: DecidedSteps, queue: WorkQueue[Key], threads: Threads, *, enabled: bool) -> None:
        self._state, self._writer, self._pools, self.enabled = state, writer, pools, enabled
        self.reconcilers = {GatesKey: self.reconcile, NominationsKey: self.nominate}
        self._reporter, self._queue, self._steps = reporter, queue, steps
        self._gated_pods = HeldPodsLog(state, reporter)
        self.nominations = Nominations(writer, lambda: namespace_labels(state), queue, threads)
        self.bookings = Bookings(queue)
        self.ends = ReservationEnds(state, queue, self.nominations, reporter, self._plan_soon, self.bookings.given_up)
        self._opener = GateOpener(state, writer, self.ends, reporter, steps, threads, self.bookings)
        self._tracker = ReservationTracker(state, self.ends, queue, reporter, steps)
        self._cycle, self._known_nodes = LiveCycle(MOST_KEPT), KnownNodes()
        self._planning = threading.Lock()
        self._coming = Batcher(GATHER, GATHER_MOST, state.now)
        self._some_wait, self._took, self._planned = True, 0.0, 0.0
        self._missed = False
        self._errors: list[ApiError] = []
        self.passes = PassRecord()
        self.wait_reasons: tuple[WaitReason, ...] = ()

    def reconcile(self, _key: GatesKey) -> Result:
        """Plan all gated pods: reserve nodes and devices, remove gates of served pods, release the
        others.

        While more pods are expected, plan nothing and return when to call again. If no plan can be
        made, release the pods that have waited too long. Raise ApiError if a pool could not be
        written (then nothing is reserved) or if a gate could not be removed, after all other work
        is done. Source: KEP-3521 for scheduling gates.
        """
        if more_until := self._coming.lasts_until():
            return Result(more_until)
        self._errors = []
        now, fabric_seen = self._state.clock(), self._fabric_seen()
        held = self._state.pods.values("gated", True)
        self._state.held.note((pod.uid for pod in held), now)
        self._gated_pods.note(held)
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
            self._steps.gate_pass(self._took)
        if fabric_seen and not self._state.gated_pods_planned:
            self._note_first_plan()
        if self._errors:
            raise self._errors[0]
        due = now + self._state.settings.placement_timeout if plan.placements else None
        return Result.at_earliest(plan.wake_at, due, *again)

    def _plan(self, now: float) -> tuple[SchedulingPlan, tuple[float | None, ...]]:
        """Return the plan, and when to call again for pods that already have a node.

        Remove the gates that are due. If a gate cannot be removed, the other pods do not wait for
        it.
        """
        began = time.monotonic()
        self._missed = False
        self._state.note_uses(self._state.nodes_with_holds())
        again = self._tracker.end_refused()
        self._hand_over()
        with self._later():
            self._opener.open_ready()
        overdue = self._tracker.revalidate(now)
        with self._planning:
            found = plan_gated_pods(self._state, self._cycle.plan, self._known_nodes, self.bookings)
        plan = self.bookings.note_plan(found)
        self._planned = time.monotonic()
        self.wait_reasons, self._took = plan.wait_reasons, self._planned - began
        self._some_wait = (bool(plan.wait_reasons) or not self._fabric_seen()
                           or bool(self.bookings.waiting()))
        if self._missed:
            self.cluster_changed()
        with self._later():
            self._opener.let_go(plan.releases)
        return plan, (again, overdue)

    def _fabric_seen(self) -> bool:
        """Return whether two polls of the CDI Manager in a row returned the same machines."""
        return self._state.snapshot is not None and not self._state.snapshot.unconfirmed

    def _note_first_plan(self) -> None:
        """Let the node controller give up unused devices from now on.

        The first plan has kept the devices that an earlier process attached for gated pods.
        """
        self._state.gated_pods_planned = True
        for node in self._state.nodes.names():
            self._queue.add_change(NodeKey(node))

    @contextlib.contextmanager
    def _later(self) -> t.Iterator[None]:
        """Catch an error of the API server. The caller raises it at the end of the pass."""
        try:
            yield
        except ApiError as error:
            self._errors.append(error)

    def read_ahead(self) -> t.Iterator[None]:
        """Parse in small steps what the next plan needs, so that the plan does not wait for it.

        Any thread may call this. A plan waits for one step at most.
        """
        steps, more = read_ahead(self._state, self._cycle.cache, self._known_nodes), True
        while more:
            with self._planning:
                more = next(steps, steps) is not steps
            yield

    def copy_cache(self) -> ParseCache:
        """Return a copy of the parsed objects, for a forecast that runs beside the live plans."""
        return self._cycle.cache.copy()

    def _reserve(self, placements: tuple[Placement, ...]) -> None:
        """Publish the pools without the chosen devices, then reserve the devices so that they can
        be requested.

        The nodes of a ProvisioningRequest are written to its status before its devices are reserved.
        """
        self._state.reservations.add(placements)
        try:
            for pool in sorted(pools_of(self._state, placements)) if self._pools.enabled else ():
                publish(self._state, self._writer, pool)
        except ApiError:
            for placement in placements:
                self._state.reservations.drop(placement.pod.uid)
            raise
        placements = tuple(each for each in placements if not self.bookings.changed(each))
        self._state.reservations.reserve(placements)
        self.reserved(placements)
        self.nominations.begin(placements)

    def reserved(self, placements: tuple[Placement, ...]) -> None:
        """Report the choice of nodes, count the attaches, and queue the nodes."""
        for placement in placements:
            self._note_chosen(placement)
            named = sum(map(len, placement.devices.values()))
            count = sum(n for models in placement.needs.values() for n in models.values()) - named
            self._state.attaches.note(placement.pod.namespace, count, placement.since)
        self.queue_nodes(placements)

    def queue_nodes(self, placements: t.Iterable[Placement]) -> None:
        """Queue the nodes of these placements."""
        for node in {placement.node for placement in placements}:
            self._queue.add_change(NodeKey(node))

    def _hand_over(self) -> None:
        """Give gated pods the nodes and devices that were booked for them.

        If a pod may not run there, give up the place of an expected pod, so that its devices can move.
        """
        for booked in booked_placements(self._state, self.bookings):
            self._state.reservations.add([booked.placement], READY)
            for resource, claim in booked.devices:
                self._state.holds.keep(resource, claim)
            self.bookings.changed(booked.expected)
            self._state.reservations.drop(booked.expected.pod.uid)
            self._note_chosen(booked.placement)
        for booked, why in misplaced(self._state, self.bookings):
            self.bookings.displace(booked.expected.pod.uid, booked.placement.pod.uid)
            self.ends.unreserve(booked.expected.pod.uid)
            self._reporter.about_pod(booked.placement.pod, "NodeGivenUp",
                                     f"node {booked.placement.node} has the devices of its ProvisioningRequest, "
                                     f"but {why}")

    def _note_chosen(self, placement: Placement) -> None:
        claims = self._state.claim_refs(placement.needs)
        self._reporter.about_pod(placement.pod, "NodeChosen", f"node {placement.node}: {placement.reason}",
                                 claims=claims)
        self._steps.node_chosen(placement)

    def open(self, action: OpenGate) -> None:
        """Keep the devices of a pod for its claims. Remove the gate once all pods of its group are
        ready."""
        for claim, resource in action.devices:
            self._state.holds.keep(resource, claim)
        self._steps.gate_due(action)
        self._state.reservations.make_ready(action.pod.uid)
        self._opener.open_ready()

    def unreserve(self, action: Unreserve) -> None:
        """Give up the reservation of a pod, because the node cannot serve it after all."""
        if reservation := self._state.reservations.get(action.pod.uid):
            self.ends.give_up(reservation, action.reason)

    def nominate(self, _key: NominationsKey) -> Result:
        """Nominate the pods that just got a node."""
        self.nominations.write()
        return Result()

    def concerned(self, change: Change) -> tuple[Key, ...]:
        """Plan gated pods again soon if a change may help or hurt them. Return no key.

        A heartbeat of a node does neither, because it leaves the facts of the node as they are.
        """
        if not self.enabled:
            return ()
        if change.resource == PODS:
            self.pod_changed(change)
        elif change.resource == NODES:
            self.node_changed(change.name)
            if nodes.facts_differ(change.new, change.old):
                self.cluster_changed()
        else:
            self.cluster_changed()
        return ()

    def polled(self, old: FabricSnapshot | None, new: FabricSnapshot) -> tuple[Key, ...]:
        """Plan waiting pods again soon. Return no key."""
        if self.enabled:
            self.cluster_changed()
        return ()

    def all_keys(self) -> tuple[GatesKey, ...]:
        """Return the key of all gated pods."""
        return (GatesKey(),) if self.enabled else ()

    def pod_changed(self, change: Change) -> None:
        """Handle a change of a gated pod, or of a pod with a reservation that is bound, refused or
        gone."""
        pod, old = change.new, change.old
        if not isinstance(pod, Pod):
            self._plan_soon()
            return
        reservation = self._state.reservations.get(pod.uid)
        gone = change.gone or pod.ended
        if reservation is not None:
            self._tracker.pod_changed(reservation, pod, gone)
        elif not gone and pod.held:
            self._plan_soon(max(self._coming.note(), self._state.clock() + self._took))
        elif isinstance(old, Pod) and pod.node and (gone or not old.node):
            self.cluster_changed()

    def node_changed(self, name: str) -> None:
        """Plan again if gated pods have a reservation on this node, because it may no longer suit
        them."""
        if self._state.reservations.on(name):
            self._plan_soon()

    def _plan_soon(self, when: float = 0.0) -> None:
        """Plan gated pods again, not before ``when`` (seconds since the epoch)."""
        pause = PAUSE * self._took if self._took > GATHER_MOST else 0.0
        rest = self._planned + pause - time.monotonic()
        self._queue.add_at(GatesKey(), max(when, self._state.clock() + max(GATHER, rest)))

    def cluster_changed(self) -> None:
        """Plan waiting pods again soon after a change of the cluster or the fabric."""
        self._missed = True  # a running plan may not see the change
        if self._some_wait:
            self._plan_soon(self._state.clock() + REST * self._took)
