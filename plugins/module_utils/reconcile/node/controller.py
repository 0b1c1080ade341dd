# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run scaler and operator node by node: plan, carry out urgent actions, and write the records
later.

All actions of a plan run at the same time. ``Executor`` maps each kind of action to its function.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import CLAIMS, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, LEASES, NODES, SLICES
from ...kube.objects import cohdi
from ...kube.objects.claim_ref import ClaimRef
from ...kube.objects.ready import outdated
from ...model.resource import Resource
from ...planning import actions as act
from ...planning.actions import WaitReason
from ...planning.node.compose import ONLINE
from ...planning.node.evaluate import OPERATOR, SCALER
from ...planning.pool.plan import READY_CONDITION
from ...runtime.threads import Stopped, Threads, run_all
from ...runtime.work_queue import WorkQueue
from ..controller import Change, Controller
from ..gating.controller import GatingController
from ..keys import Key, NodeKey, NodeRecordsKey, Result
from ..rescheduling.rescheduler import Rescheduler
from ..runtime.event_reporter import EventReporter
from ..runtime.step_marks import DecidedSteps
from ..state.cluster_state import ClusterState
from ..timelines.recorder import START_SECONDS, TimelineRecorder
from ..timelines.timeline import Timeline, node_steps
from ..values import resource_values
from ..writers.resources import Notes
from ..writers.writer import Writer
from . import concerned_nodes
from .attach_operations import BLOCK_SECONDS, AttachOperations
from .detach_operations import DetachOperations
from .planner import NodePlanner

# Seconds until a node with a blocked model or an unread machine is planned again.
RETRY_SECONDS = 1.0
# Seconds until a refused or failed detach is tried again.
DETACH_RETRY_SECONDS = 3.0
IN_TURN = (act.AskRelease, act.TaintDevice, act.Detach, act.FinishDeparted)
THREADS = 32


class Executor:
    """Carries out the actions of plans. Thread-safe."""

    def __init__(self, state: ClusterState, writer: Writer, operations: AttachOperations, detaches: DetachOperations,
                 rescheduler: Rescheduler, gating: GatingController, reporter: EventReporter, steps: DecidedSteps,
                 threads: Threads) -> None:
        self._state, self._writer, self._rescheduler, self._reporter = state, writer, rescheduler, reporter
        self._steps = steps
        self._threads = threads.executor(THREADS, "write")
        self._how: dict[type[act.Action], Callable[[t.Any], object]] = {
            act.MarkClaim: self._mark_claim, act.SetSize: self._set_size, act.LabelNode: writer.nodes.label,
            act.SetPoolDevice: writer.resources.set_pool_device,
            act.DeleteResource: self._delete_resource,
            act.CreateResource: operations.create, act.Attach: operations.attach, act.Adopt: operations.adopt,
            act.Resume: operations.resume, act.Detach: detaches.detach, act.AskRelease: detaches.ask_release,
            act.FinishDeparted: detaches.finish_departed, act.TaintDevice: detaches.taint,
            act.WithdrawRelease: self._withdraw_release,
            act.OpenGate: gating.open, act.Unreserve: gating.unreserve,
            act.Finish: lambda action: writer.resources.finish(action.resource),
            act.FinishRequest: lambda action: writer.requests.finish(action.request),
            act.SetState: self._set_state}

    def carry_out(self, actions: Sequence[act.Action], notes: Mapping[str, Notes] | None = None) -> None:
        """Carry out all actions at the same time. Raise the first ApiError or FabricError after all
        have ended.

        ``notes`` are annotations to write on ComposableResources. If there is a use stamp for the
        same ComposableResource, write both together.
        """
        left = dict(notes or {})
        resources = self._writer.resources
        work = [partial(resources.touch, action, left.pop(action.resource, {})) if isinstance(action, act.Touch)
                else partial(self._how[type(action)], action) for action in actions]
        work += [partial(resources.note, name, found) for name, found in left.items()]
        if len(work) == 1:
            work[0]()
        else:
            with contextlib.suppress(Stopped):  # the next engine plans it again
                run_all(self._threads, [*work])

    def _mark_claim(self, action: act.MarkClaim) -> None:
        """Write a condition of the claim for the scheduler.

        If the scheduler is to allocate again, first keep the devices for the claim and nominate its
        pods.
        """
        if action.condition != READY_CONDITION:
            for device in action.devices:
                self._state.holds.keep(device, action.claim)
            for pod in action.pods if action.devices else ():
                self._rescheduler.nominate(pod, action.node, action.claim)
        if self._writer.claims.mark(action):
            if action.condition != READY_CONDITION:
                self._state.handovers.note(action.claim, action.devices, self._state.clock())
            key = f"{action.namespace}/{action.name}"
            self._reporter.note(action.condition, key, action.reason, claims=[ClaimRef(key, action.claim)])
            claim = self._state.claims.value(action.name, action.namespace)
            self._steps.marked(action, claim)
            if claim and not action.devices and action.condition != READY_CONDITION:
                self._reporter.about_claim(claim, "AttachFailed", action.reason, "Warning")

    def _set_size(self, action: act.SetSize) -> None:
        self._writer.requests.set_size(action)
        self._reporter.note("SizeSet", action.request, f"{action.before or 0} -> {action.size}: {action.reason}",
                            claims=self._state.claim_refs(action.claims))

    def _set_state(self, action: act.SetState) -> None:
        """Write the state of a ComposableResource, with a serial number that only the node knew
        before."""
        found = self._state.resources.value(action.resource)
        serial = {"device_id": found.serial} if found and found.serial and not found.device_id else {}
        self._writer.resources.set_status(action.resource, state=action.state, error=action.error, **serial)
        if action.error and not (found and action.error == found.error):
            self._reporter.tell(action.resource, "DeviceTrouble", action.error, type_="Warning")

    def _withdraw_release(self, action: act.WithdrawRelease) -> None:
        self._writer.resources.withdraw_release(action.resource)
        self._reporter.tell(action.resource, "ReleaseWithdrawn", action.reason)

    def _delete_resource(self, action: act.DeleteResource) -> None:
        if action.block:
            self._state.blocks.block(action.node, action.block, BLOCK_SECONDS, action.reason)
        self._writer.resources.delete(action.resource)
        self._reporter.about_device(action.resource, "Releasing", action.reason)


class NodeController(Controller):
    """Reconciles nodes.

    ``wait_reasons`` says for each node why its claims wait, as of the last plan.
    """

    kinds = frozenset({CLAIMS, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, LEASES, NODES, SLICES})

    def __init__(self, state: ClusterState, planner: NodePlanner, executor: Executor, writer: Writer,
                 reporter: EventReporter, timelines: TimelineRecorder, queue: WorkQueue[Key]) -> None:
        self._state, self._planner, self._executor, self._writer = state, planner, executor, writer
        self._reporter, self._timelines, self._queue = reporter, timelines, queue
        self._scales, self._operates = SCALER in planner.policy.roles, OPERATOR in planner.policy.roles
        self._turns: dict[tuple[str, type[act.Action]], float] = {}
        self.wait_reasons: dict[str, tuple[WaitReason, ...]] = {}
        self.reconcilers = {NodeKey: self.reconcile, NodeRecordsKey: self.write_records}

    def concerned(self, change: Change) -> Iterator[NodeKey]:
        """Yield the nodes that a change concerns. Forget what is known of a device that is gone."""
        if change.resource == COMPOSABLE_RESOURCES and change.gone:
            self.forget(change.name)
        yield from map(NodeKey, concerned_nodes.of_change(self._state, change))

    def polled(self, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterator[NodeKey]:
        """Yield the nodes that a poll concerns, and those with a device that left a lost machine."""
        yield from map(NodeKey, concerned_nodes.of_poll(self._state, old, new))
        yield from map(NodeKey, sorted(self._state.note_departures()))

    def all_keys(self) -> Iterator[NodeKey]:
        """Yield all nodes that exist or that a ComposableResource names."""
        yield from map(NodeKey, self._state.nodes.names() | {*map(str, self._state.resources.keys("node"))})

    def reconcile(self, key: NodeKey) -> Result:
        """Plan a node and carry out the urgent actions. ``write_records`` does the rest later.

        Return when to call again. That is when the plan changes by time, when a blocked model or an
        unread machine is due, or when a refused detach may be tried again. Raise the first ApiError
        or FabricError after all was tried.
        """
        name = key.name
        self._state.note_uses([name])
        snapshot, plan = self._planner.plan(name)
        if self._scales:
            self.wait_reasons[name] = plan.wait_reasons
            self._reporter.once(f"labels of node {name}", "; ".join(plan.label_problems))
        self._reporter.once(f"node operations of node {name}", plan.hands_problem)
        node = self._state.nodes.value(name)
        self._reporter.once(f"identity of node {name}", snapshot.problem if node and self._state.twins(node) else "")
        if plan.background or self._state.unwritten_holds(name) or self._state.stale_taints(name) or any(
                _is_outdated(each) or _is_unseen_by_agents(each) for each in self._operated(name)):
            self._queue.add_change(NodeRecordsKey(name))
        now = self._state.clock()
        waits = snapshot.unread or (snapshot.blocked and not snapshot.no_agent)
        retry = now + RETRY_SECONDS if waits else None
        actions, turn = self._in_turn(plan.urgent, now)
        self._executor.carry_out(actions)
        if any(isinstance(action, act.DeleteResource) for action in actions):
            self._queue.add(key)  # a leaving device has a next step, and no event triggers it at once
        return Result.at_earliest(plan.wake_at, retry, turn)

    def write_records(self, key: NodeRecordsKey) -> Result:
        """Write the records of a node that are not urgent. Raise ApiError.

        These are sizes that were acted on, holds, use stamps, the state Online and the observed
        generation of conditions. Also remove taints that now belong to another device.
        """
        self._state.note_uses([key.name])
        due = self._timelines.to_write(key.name)
        first = self._first_devices(key.name, due)
        self._executor.carry_out(self._planner.plan_records(key.name).background, self._timeline_notes(due, first))
        # The watch of pods may be ahead of the watch of claims. Then the device of a running pod is
        # not known here yet.
        now = self._state.clock()
        early = [each for each in due if each.uid not in first and now - each.ended < START_SECONDS]
        for timeline in due:
            if timeline not in early:
                self._timelines.written(timeline)
        for resource, claim in self._state.unwritten_holds(key.name):
            self._writer.resources.hold(resource, claim)
        operated = self._operated(key.name)
        for each in filter(_is_unseen_by_agents, operated):
            self._writer.resources.give_to_node(each.name)
            self._state.rival.created(each.name, each.created)
            self._reporter.once("rival", self._state.rival.problem())
        for each in filter(_is_outdated, operated):
            self._writer.resources.observe(each.name)
        for resource, keys in self._state.stale_taints(key.name).items():
            self._writer.resources.lift_taints(resource, keys)
        # The queue keeps only the earliest appointment of a node, so later timelines may have lost
        # theirs.
        later = self._timelines.next_due(key.name)
        return Result(max(later, now + RETRY_SECONDS if early else now) if later else None)

    def _first_devices(self, node: str, due: Sequence[Timeline]) -> dict[str, str]:
        """Return the first ComposableResource of each claim, by the claim's UID."""
        users = self._state.users(node) if due else {}
        return {users[name].uid: name for name in sorted(users, reverse=True)}

    def _timeline_notes(self, due: Sequence[Timeline], first: Mapping[str, str]) -> dict[str, Notes]:
        """Return annotations with the timelines of served claims, each for the first device of its
        claim."""
        of_resource: dict[str, list[Timeline]] = {}
        for timeline in due:
            if name := first.get(timeline.uid):
                resource = self._state.resources.value(name)
                steps = node_steps(resource_values.read_evidence(resource) if resource else None, timeline.began)
                of_resource.setdefault(name, []).append(replace(timeline, steps=steps))
        return {name: self._writer.resources.timeline_notes(name, found) for name, found in of_resource.items()}

    def _operated(self, node: str) -> list[Resource]:
        """Return the node's ComposableResources if this process is their operator."""
        return self._state.resources.values("node", node) if self._operates else []

    def forget(self, resource: str) -> None:
        """Forget a ComposableResource that is gone."""
        for kind in IN_TURN:
            self._turns.pop((resource, kind), None)

    def _in_turn(self, actions: tuple[act.Action, ...], now: float) -> tuple[list[act.Action], float | None]:
        """Return the actions that are due, and when to try the next release or detach.

        After a try, the same action waits ``DETACH_RETRY_SECONDS``.
        """
        found, turns = [], []
        for action in actions:
            if isinstance(action, IN_TURN):
                turn = (action.resource, type(action))
                due = self._turns.get(turn, 0.0)
                if due > now:
                    turns.append(due)
                    continue
                due = self._turns[turn] = now + DETACH_RETRY_SECONDS
                turns.append(due)
            found.append(action)
        return found, min(turns, default=None)


def _is_outdated(resource: Resource) -> bool:
    return outdated([each.common for each in resource.said], resource.generation)


def _is_unseen_by_agents(resource: Resource) -> bool:
    """Return whether agents cannot see a ComposableResource with a device that is not Online yet.

    Agents watch by a label that only this operator writes. A missing label means that another
    operator created the object.
    """
    return cohdi.TARGET_NODE not in resource.labels and not resource.deleting and resource.state != ONLINE
