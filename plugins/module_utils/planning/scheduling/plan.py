# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for gated pods: a node with devices, or why a pod is released or waits.

This corresponds to ``scheduleOne`` of kube-scheduler's ``schedule_one.go``, for the whole queue in
one cycle.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from . import messages
from .backfill import wait_for_returning, withhold_for
from .cycle import CycleState, NodeState
from .feasibility import Diagnosis, FeasibilityCheck
from .parse_cache import ParseCache
from .queue import QueuedPod, QueueEntry, SchedulingQueue, build_queue, unreadable
from .snapshot import Placement, Release, SchedulingPlan, SchedulingSettings, SchedulingSnapshot
from .supply import Allocation, Supplier


@dataclass(frozen=True, slots=True)
class _Reserved:
    """A pod that was put on a node. ``last_chosen``: value of the node before that."""

    pod: QueuedPod
    node: NodeState
    allocation: Allocation
    last_chosen: float


class QueuePlanner:
    """One plan for the queue. Collects the decisions.

    ``feasibility``: of a state that matches the snapshot.
    """

    def __init__(self, snapshot: SchedulingSnapshot, settings: SchedulingSettings, feasibility: FeasibilityCheck,
                 queue: SchedulingQueue) -> None:
        self.snapshot, self.settings, self.queue = snapshot, settings, queue
        self.state, self.feasibility = feasibility.state, feasibility
        self.failed: dict[frozenset[tuple[object, int]], tuple[int, Diagnosis]] = {}
        self.protected: set[tuple[str, ...]] = set()
        self.protecting: set[str] = set()
        self.used = Counter(snapshot.used)
        self.attached = {name: tuple(sorted(moments)) for name, moments in snapshot.attached.items()}
        self.placements: list[Placement] = []
        self.releases: list[Release] = []
        self.waiting: list[tuple[QueueEntry, Diagnosis]] = []

    def plan(self) -> SchedulingPlan:
        """Schedule every entry of the queue, and decide about every other pod."""
        for pod, reason in self.queue.unsupported:
            self.releases.append(Release(pod.ref, reason, unschedulable=False))
        for entry in self.queue.in_turn(self.state.interpod_affinity):
            if self.snapshot.unseen:
                self._wait_unseen(entry)
            else:
                self._try_schedule(entry)
        wait_reasons = [each for pod, reason in self.queue.pending for each in messages.pending_reasons(pod, reason)]
        for position, (entry, diagnosis) in enumerate(self.waiting, 1):
            wait_reasons += messages.waiting_reasons(entry, diagnosis, position, len(self.waiting))
        return SchedulingPlan(tuple(self.placements), tuple(self.releases), tuple(wait_reasons),
                              min(self.queue.wake_at, default=None))

    def _wait_unseen(self, entry: QueueEntry) -> None:
        """Wait for the first poll of the fabric for the hold time, then release the pods."""
        until = self._until(entry)
        if self.snapshot.now < until:
            self._pend(entry, until, self.snapshot.unseen)
        else:
            reason = f"{self.snapshot.unseen} (waited {self.settings.hold_timeout:g} s)"
            self.releases += [Release(pod.gated.ref, reason, unschedulable=True) for pod in entry.pods]

    def _try_schedule(self, entry: QueueEntry) -> None:
        """Schedule an entry. If it raises, release its pods, and plan the others as before."""
        try:
            self._schedule(entry)
        except Exception as error:
            self.releases += [Release(pod.gated.ref, unreadable(error), unschedulable=False) for pod in entry.pods]

    def _schedule(self, entry: QueueEntry) -> None:
        """Place an entry, or record why not.

        An entry like one that failed fails too, since nodes only become fuller during a plan. If
        terms about other pods matter, this is true only until the next pod is placed.
        """
        among_pods = any(self.state.other_pods_matter(pod.info) for pod in entry.pods)
        signature = frozenset(Counter(
            pod.signature_among_pods if among_pods else pod.signature for pod in entry.pods).items())
        failed = self.failed.get(signature)
        if failed is not None and (not among_pods or failed[0] == len(self.state.changed)):
            self._failed(entry, failed[1], among_pods)
            return
        result = self._reserve(entry)
        if isinstance(result, Diagnosis):
            self.failed[signature] = (len(self.state.changed), result)
            self._failed(entry, result, among_pods)
        elif reason := self._beyond_share(entry, result):
            self._unreserve(result)
            self.queue.pending += [(pod.gated, reason) for pod in entry.pods]
        else:
            self.placements += [self._placement(each, entry.group) for each in result]

    def _failed(self, entry: QueueEntry, diagnosis: Diagnosis, among_pods: bool) -> None:
        """Record a failed entry. Skip equal entries if it waits without promised devices.

        Equal entries are skipped only if no returning device is left that could be promised to
        them.
        """
        waits = self._unserved(entry, diagnosis)
        if waits and not among_pods and not any(self.state.returning.values()):
            self.queue.skip(entry)

    def _beyond_share(self, entry: QueueEntry, reserved: list[_Reserved]) -> str:
        """Return why the namespace must wait for these devices. If it need not, count them and
        return an empty text.
        """
        takes = [(model, take) for each in reserved for model, take in each.allocation.takes().items()]
        more: Counter[str] = Counter()
        for model, take in takes:
            more[model] += take.count
        now, shares, fresh = self.snapshot.now, self.settings.shares, sum(take.fresh for _model, take in takes)
        if reason := shares.over_quota(entry.namespace, self.used, more):
            return reason
        recent = self.attached.get(entry.namespace, ())
        if (since := shares.attach_from(entry.namespace, recent, fresh, now)) > now:
            self.queue.wake_at.append(since)
            had = f"namespace {entry.namespace} had {len(recent)} attaches in the last minute"
            return f"{had} (namespace_attaches_per_minute)"
        self.used.update({(entry.namespace, model): n for model, n in more.items()})
        self.attached[entry.namespace] = (*recent, *[now] * fresh)
        return ""

    def _unreserve(self, reserved: list[_Reserved]) -> None:
        for each in reversed(reserved):
            self.state.unreserve(each.node, each.pod.info, each.allocation.takes(), each.last_chosen)

    def _reserve(self, entry: QueueEntry) -> list[_Reserved] | Diagnosis:
        """Reserve a node for each pod of an entry, the largest demands first. If one fails, undo
        all.
        """
        reserved: list[_Reserved] = []
        complete = False
        try:
            for pod in sorted(entry.pods, key=lambda pod: -pod.demand.count):
                best = self.feasibility.best(pod)
                if best is None:
                    return self.feasibility.diagnose(pod)
                node, allocation = best
                reserved.append(_Reserved(pod, node, allocation, node.last_chosen))
                self.state.reserve(node, pod.info, allocation.takes())
            complete = True
            return reserved
        finally:
            if not complete:
                self._unreserve(reserved)

    def _placement(self, reserved: _Reserved, group: str) -> Placement:
        pod, node, allocation = reserved.pod, reserved.node.facts.name, reserved.allocation
        needs, devices = dict[str, dict[str, int]](), dict[str, tuple[str, ...]]()
        for request in allocation.requests:
            uid = pod.demand.claims[request.claim]
            models = needs.setdefault(uid, {})
            for model, take in request.takes:
                models[model] = models.get(model, 0) + take.count
                if take.idle:
                    devices[uid] = (*devices.get(uid, ()), *(device.name for device in take.idle))
        return Placement(pod.gated.ref, node, needs, self.snapshot.now, pod.gated.raw, devices, group,
                         messages.placement_reason(node, allocation))

    def _unserved(self, entry: QueueEntry, diagnosis: Diagnosis) -> bool:
        """Release the pods, or let them wait for devices. Return whether they wait without promised
        devices.

        Among the entries that wait for the same models the first is protected from those behind it.
        Each namespace has at most one protected entry, so that no tenant makes the plan withhold
        idle devices of many models.
        """
        if self._waits_for_returning(entry, diagnosis):
            return False
        if self.settings.unserved != "wait" or not diagnosis.resolvable:
            if self._waits_for_inventory(entry, diagnosis):
                return False
            reason = messages.unschedulable_reason(entry, diagnosis)
            self.releases += [Release(pod.gated.ref, reason, unschedulable=True) for pod in entry.pods]
            return False
        self.waiting.append((entry, diagnosis))
        models = tuple(sorted({model for pod in entry.pods for model in pod.demand.models}))
        if models not in self.protected and entry.namespace not in self.protecting:
            self.protected.add(models)
            self.protecting.add(entry.namespace)
            for pod in entry.pods:
                withhold_for(self.state, pod, self.feasibility.candidates(pod))
        return True

    def _waits_for_returning(self, entry: QueueEntry, diagnosis: Diagnosis) -> bool:
        """Return whether the entry waits for returning devices. It waits no longer than the hold
        time.
        """
        until = self._until(entry)
        if not diagnosis.resolvable or self.snapshot.now >= until or not any(self.state.returning.values()):
            return False
        if not wait_for_returning(self.state, [(pod, self.feasibility.candidates(pod)) for pod in entry.pods]):
            return False
        self._pend(entry, until, messages.returning_reason(entry, diagnosis))
        return True

    def _waits_for_inventory(self, entry: QueueEntry, diagnosis: Diagnosis) -> bool:
        """Return whether the entry waits because the inventory may lack devices.

        Whether devices exist for the entry is then uncertain. It waits no longer than the hold
        time.
        """
        models = {model for pod in entry.pods for model in pod.demand.models}
        why = next((self.snapshot.unsure[model] for model in sorted(models & self.snapshot.unsure.keys())), "")
        until = self._until(entry)
        if not why or self.snapshot.now >= until:
            return False
        reason = messages.unschedulable_reason(entry, diagnosis)
        self._pend(entry, until, f"{reason}. The inventory may be incomplete: {why}")
        return True

    def _until(self, entry: QueueEntry) -> float:
        """Return until when pods of an entry wait for what their plan lacks, in epoch seconds."""
        return min(pod.gated.held_since for pod in entry.pods) + self.settings.hold_timeout

    def _pend(self, entry: QueueEntry, until: float, reason: str) -> None:
        self.queue.wake_at.append(until)
        self.queue.pending += [(pod.gated, reason) for pod in entry.pods]


def plan_placements(snapshot: SchedulingSnapshot, settings: SchedulingSettings,
                    cache: ParseCache | None = None) -> SchedulingPlan:
    """Decide for every waiting pod without a placement: a node and its devices, a release, or a
    wait.

    Arguments: ``snapshot``: the cluster, with times in epoch seconds. ``settings``:
    ``planning.settings`` or an object with the same fields. ``cache``: saves parsing the same raw
    objects again. Only the cache changes, and it changes no plan. No other plan may use it at the
    same time, see ``ParseCache.copy``.

    Result: the plan. The same snapshot and settings always give the same plan, whatever is in the
    cache.

    Errors: none for objects of the cluster. An invalid or unsupported object becomes a release with
    its reason, and a node with invalid quantities offers nothing.

    Source: a pod gets a node only if kube-scheduler 1.34 to 1.36 would accept it with its default
    plugins (``pkg/scheduler/framework/plugins``, one file each in ``filters``, and KEP-4381 for
    claims). Pods are taken by priority and age, and no pod is preempted.
    """
    cache = cache if cache is not None else ParseCache()
    reader = cache.demand_reader(snapshot, settings)
    state = CycleState(snapshot, cache)
    feasibility = FeasibilityCheck(state, Supplier(state, reader.catalogue), settings.allocation_policy)
    plan = QueuePlanner(snapshot, settings, feasibility, build_queue(snapshot, cache, reader)).plan()
    cache.forget(snapshot)
    return plan
