# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine of all programs: watch, queue, reconcile.

A module runs it until nothing is left to do, the controller for ever. Check mode only takes its
plan.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t
from collections.abc import Callable, Iterable
from functools import partial

from ...fabric.api import FabricManager
from ...fabric.errors import FabricError
from ...kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    LEASES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ...kube.client.verbs import Client
from ...kube.coordination.agent_leases import AGENT_LEASE
from ...kube.errors import ApiError
from ...kube.event_recorder import Recorder
from ...kube.objects import claims, pods
from ...kube.objects.claim_ref import ClaimRef
from ...planning.actions import WaitReason
from ...planning.device_info import DIRECT
from ...planning.node.demand import RESCHEDULE
from ...planning.node.evaluate import OPERATOR, PUBLISHER, SCALER, NodePolicy
from ...planning.node.supply import DELETING
from ...runtime.garbage import spare_collections
from ...runtime.progress import Progress
from ...runtime.threads import Stopped, Threads
from ...runtime.tracing import Tracer
from ...runtime.work_queue import WorkQueue
from ..config import ROLES, EngineConfig
from ..gating.controller import GatingController
from ..keys import (
    GATHER_SECONDS,
    FloorsKey,
    GatesKey,
    Key,
    NodeKey,
    NodeRecordsKey,
    NominationsKey,
    PoolKey,
    ProvisioningKey,
    RequestKey,
    Result,
)
from ..node.attach_operations import AttachOperations
from ..node.claim_check import ClaimCheck
from ..node.controller import Executor, NodeController
from ..node.detach_operations import DetachOperations
from ..node.machine_reader import MachineReader
from ..node.planner import NodePlanner
from ..node.request_controller import RequestController
from ..pool.controller import PoolController, pool_keys
from ..prewarm.controller import FloorsController, concerns_floors
from ..provisioning.controller import ProvisioningController
from ..rescheduling.rescheduler import Rescheduler
from ..runtime.event_reporter import EventReporter
from ..runtime.fence import Fence
from ..runtime.hops import Hops
from ..runtime.metrics import Metrics, NoMetrics
from ..state import adapters
from ..state.cluster_state import ClusterState, Json
from ..state.node_hands import ELSEWHERE, NodeHands
from ..timelines.recorder import TimelineRecorder
from ..timelines.timeline import Timeline
from ..timelines.waits_keeper import WaitsKeeper
from ..writers.writer import Writer
from .event_mapping import is_further_step, keys_of
from .fabric_looks import FabricLooks
from .watches import OnChange, Watches

RUNNING = "Running"
# Subjects of problems of the process.
ABOUT = ("API server", "CDI Manager", "inventory", "binding conditions", "pools", "another operator")
# Seconds between two plans of gated pods when nothing happens.
PASS_SECONDS = 5.0
SLOW_SECONDS = 1.0
# Seconds between two rounds of reading ahead, and how long one read may take at once.
READ_AHEAD_SECONDS, READ_AHEAD_SLICE = 30.0, 0.05
# Seconds until a failed key is retried: after an error of the API server or the CDI Manager, and
# after any other error.
RETRY_SECONDS, RETRY_UNEXPECTED_SECONDS = 1.0, 5.0
# Number of open connections to the API server, and seconds between uses that keep them open.
CONNECTIONS, WARM_SECONDS = 8, 15.0


class ControllerManager:
    """The engine: start it, let it run, stop it.

    ``fabric`` is the driver of the CDI Manager. ``roles`` are the components of CoHDI that it
    replaces, out of ``publisher``, ``scaler`` and ``operator``. With ``events``, write Events as
    ``component``. ``metrics`` takes measurements and ``tracer`` the spans of claims, if given. The
    constructor starts nothing. ``watch`` begins to read, ``work`` to act. ``fence`` is open until
    ``require`` connects it to a leadership.
    """

    def __init__(self, client: Client, fabric: FabricManager, config: EngineConfig, *, roles: Iterable[str] = ROLES,
                 component: str = "composable-infra", events: bool = True, metrics: Metrics | None = None,
                 tracer: Tracer | None = None) -> None:
        self.client, self.fabric, self.config, self.roles = client, fabric, config, frozenset(roles)
        settings = config.settings
        self.threads, self.metrics, self.fence = Threads(), metrics or NoMetrics(), Fence()
        fenced = client.guarded(self.fence.check_write)
        self.queue: WorkQueue[Key] = WorkQueue(lambda key: GATHER_SECONDS.get(type(key)), self._waited,
                                               client.server_time)
        self.timelines = TimelineRecorder(lambda node, when: self.queue.add_at(NodeRecordsKey(node), when),
                                          client.server_time, self._count_waits)
        self.hops = Hops(self.metrics, tracer, config.fabric.manager, client.server_time, self.timelines)
        hands = config.node_hands if OPERATOR in self.roles else ELSEWHERE
        self.state = state = ClusterState(settings, NodeHands(hands))
        state.clock = client.server_time
        self.watches = Watches(client, state, self._tell, self._tell_echo, roles=self.roles,
                               leases=config.lease_namespace, provisioning=config.provisioning_requests)
        self.recorder = Recorder(fenced, component, component) if events else None
        self.reporter = reporter = EventReporter(state, self.recorder, settings)
        self.writer = writer = Writer(fenced, state)
        self.waits = WaitsKeeper(fenced, config.lease_namespace, partial(reporter.once, "waits"),
                                 enabled=SCALER in self.roles, clock=client.server_time)
        self.rescheduler = Rescheduler(writer, settings.handover_timeout, self.threads)
        self.pools = PoolController(state, writer, reporter, enabled=PUBLISHER in self.roles)
        self.gating = GatingController(state, writer, self.pools, reporter, self.hops, self.queue, self.threads)
        self.provisioning = ProvisioningController(state, writer, self.gating, reporter, self.metrics,
                                                   enabled=config.provisioning_requests and self.gates)
        self.operations = AttachOperations(state, writer, fabric, self.fence, reporter, self.hops,
                                           self.threads, config.parallel_attaches, self._operation_finished)
        policy = NodePolicy(settings, self.roles, config.fabric.attach_timeout)
        self.reader = MachineReader(fabric, self.threads, lambda node: self.queue.add(NodeKey(node)))
        self.planner = NodePlanner(state, fabric, policy, reporter, self.reader)
        detaches = DetachOperations(self.operations, ClaimCheck(client, state, writer.resources.taints))
        executor = Executor(state, writer, self.operations, detaches, self.rescheduler, self.gating, reporter,
                            self.threads)
        self.nodes = NodeController(state, self.planner, executor, writer, reporter, self.queue)
        self.requests = RequestController(state, writer, self.queue, enabled=OPERATOR in self.roles)
        self.reconcilers: dict[type, Callable[[t.Any], Result]] = {
            NodeKey: self.nodes.reconcile, NodeRecordsKey: self.nodes.write_records, PoolKey: self.pools.reconcile,
            RequestKey: self.requests.reconcile, GatesKey: self.gating.reconcile,
            NominationsKey: self.gating.nominate, FloorsKey: FloorsController(state, self.queue).reconcile,
            ProvisioningKey: self.provisioning.reconcile}
        # Called for each watched change on the watch's thread. The live page uses this and only
        # reads.
        self.listeners: list[OnChange] = []
        self.stopping, self.progress = threading.Event(), Progress()
        self.fabric_looks = FabricLooks(fabric, state, reporter, config.scan_interval,
                                        config.fabric.attach_timeout, self.stopping, self._seen)

    @property
    def gates(self) -> bool:
        """Return whether this engine serves gated pods."""
        return SCALER in self.roles and self.config.settings.gating

    def gates_problem(self) -> str:
        """Return why new pods must not be gated now, or an empty string.

        If the last plan of gated pods is old, queue a new one.
        """
        if self.state.snapshot is None:
            said = self.state.fabric_problem
            return "the CDI Manager was not seen yet" + (f": {said}" if said else "")
        if self.gating.passes.age() > PASS_SECONDS:
            self.queue.add(GatesKey())
        return self.gating.passes.problem()

    def watch(self) -> None:
        """Begin to watch the cluster and to poll the CDI Manager. Change nothing."""
        self.watches.start()
        if self.looks:
            self.threads.start(self.fabric_looks.run, "look")

    def read_ahead(self) -> None:
        """Begin to read at intervals what plans of gated pods need. Change nothing.

        A new leader's first plan is then fast, even with thousands of nodes.
        """
        if self.gates:
            self.threads.start(self._read_ahead, "read-ahead")

    def _read_ahead(self) -> None:
        """Read in rounds. After the first round, exempt its objects from garbage collection.

        Otherwise a collection could scan them during a plan.
        """
        spared = False
        while not self.stopping.wait(RETRY_SECONDS):
            if self.ready():
                try:
                    self._read_round()
                    self.state.age()
                    if not spared:
                        spare_collections()
                        spared = True
                    self.reporter.once("read-ahead", "")
                except Exception as error:  # a plan would report the same error
                    self.reporter.once("read-ahead", f"{type(error).__name__}: {error}")
                self.stopping.wait(READ_AHEAD_SECONDS)

    def _read_round(self) -> None:
        """Read for at most half of the time, in short slices, so that watches, workers and Leases
        go on."""
        began = time.monotonic()
        for _step in self.gating.read_ahead():
            worked = time.monotonic() - began
            if worked >= READ_AHEAD_SLICE:
                if self.stopping.wait(worked):
                    return
                began = time.monotonic()

    def work(self) -> None:
        """Begin to act after reading again what an earlier leader wrote, because a watch may be
        behind.

        Call this only when ``ready``. With half the data, a claim could fail because its node is
        unknown.
        """
        self.threads.start(self._begin, "begin")

    def _begin(self) -> None:
        self.state.rival.began()
        while not self.stopping.is_set():
            try:
                if self.roles & {SCALER, OPERATOR}:
                    self.writer.read_journal()
                if OPERATOR in self.roles:
                    self.writer.resources.read_taints()
                self.provisioning.restore()
                break
            except ApiError as error:
                self.reporter.once("journal", str(error))
                self.stopping.wait(RETRY_SECONDS)
        for number in range(self.config.workers):
            self.threads.start(self._work, f"worker-{number}")
        self.threads.start(self._keep_warm, "warm")

    def quiesce(self) -> None:
        """Start no new work. Watches go on."""
        self.stopping.set()
        self.queue.close()
        self.operations.stop()

    def await_replies(self, seconds: float) -> None:
        """Start no new work, and wait up to ``seconds`` for the CDI Manager to answer requests in
        flight.

        Then write all records. The successor may be another program that knows only the records.
        """
        self.quiesce()
        late = self.operations.await_replies(seconds)
        for key in self.queue.gathering():
            if isinstance(key, NodeRecordsKey):
                with contextlib.suppress(ApiError, FabricError):
                    self.nodes.write_records(key)
        if late:
            self.reporter.once("replies", f"the CDI Manager has not answered within {seconds:g} s about "
                               f"{', '.join(late)}; our next controller finds the devices by what is written on them, "
                               "CoHDI's asks for others")

    def flush(self) -> None:
        """Send the Events so far. None is sent after leadership is given up."""
        if self.recorder:
            self.recorder.flush()

    def stop(self, patience: float = 5.0) -> None:
        """End watches and threads, and wait up to ``patience`` seconds for each.

        The next engine adopts attaches that the CDI Manager is still working on.
        """
        self.quiesce()
        self.fabric_looks.soon.set()
        self.watches.stop()
        self.threads.stop(patience)
        if self.recorder:
            self.recorder.close()

    def ready(self) -> bool:
        """Return whether every list was read and the CDI Manager was polled."""
        return self.watches.synced() and (self.state.snapshot is not None or not self.looks)

    def stuck(self) -> str:
        """Return in a sentence why no more work will be done, or an empty string while workers work
        or wait."""
        return "" if self.stopping.is_set() else self.progress.stuck()

    def problems(self) -> list[str]:
        """Return the current problems of watches, CDI Manager and pools, one sentence each."""
        return list(self.troubles())

    def troubles(self) -> dict[str, str]:
        """Return the same sentences, each with its subject out of ABOUT."""
        api, manager, inventory, slices, pools, rival = ABOUT
        old = self.fabric_looks.problem() if self.looks else ""
        found = [*((said, api) for said in self.watches.problems()), (self.state.fabric_problem, manager),
                 (old, inventory), (self.state.pools_problem, slices), (self.state.rival.problem(), rival),
                 *((said, pools) for said in list(self.state.refused_models.values()))]
        first: dict[str, str] = {}
        for said, about in found:
            if said:
                first.setdefault(said, about)
        return first

    def wait_reasons(self) -> list[WaitReason]:
        """Return why claims wait, as of the last plans."""
        planned = [reason for reasons in list(self.nodes.wait_reasons.values()) for reason in reasons]
        return [*planned, *self.gating.wait_reasons]

    def enqueue_all(self) -> None:
        """Queue everything once, to repair what events may have missed."""
        for node in self.state.nodes.names() | {str(name) for name in self.state.resources.keys("node")}:
            self.queue.add(NodeKey(node))
        for pool in pool_keys(self.state):
            self.queue.add(pool)
        if self.gates:
            self.queue.add(GatesKey())
        for key in self.provisioning.all_keys():
            self.queue.add(key)
        self._floors_changed()

    def reconcile(self, key: Key) -> None:
        """Work on a key and schedule its next turn. Never raise.

        A bad key harms no other key. Its problem is reported once, and the key is tried again
        later.
        """
        began = time.monotonic()
        try:
            result = self.reconcilers[type(key)](key)
            self.reporter.once(str(key), "")
        except Stopped:  # the engine is stopping, and the next engine does this work
            return
        except (ApiError, FabricError) as error:
            self.reporter.once(str(key), str(error))
            result = Result(self.state.clock() + RETRY_SECONDS)
        except Exception as error:
            self.reporter.once(str(key), f"{type(error).__name__}: {error}")
            result = Result(self.state.clock() + RETRY_UNEXPECTED_SECONDS)
        if result.requeue_at is not None:
            self.queue.add_at(key, result.requeue_at)
        seconds = time.monotonic() - began
        self.metrics.observe("reconcile_duration_seconds", seconds, controller=key.controller)
        if seconds > SLOW_SECONDS:
            self.reporter.note("SlowReconcile", str(key), f"took {seconds:.2f} s", "Warning")

    def _tell(self, kind: str, resource: ApiResource, obj: Json, old: Json | None) -> None:
        for told in self.listeners:
            told(kind, resource, obj, old)
        self.object_changed(kind, resource, obj, old)

    def _tell_echo(self, kind: str, resource: ApiResource, obj: Json, old: Json | None) -> None:
        for told in self.listeners:
            told(kind, resource, obj, old)
        self.object_changed(kind, resource, obj, old, self.queue.add_echo)

    def object_changed(self, kind: str, resource: ApiResource, obj: Json, old: Json | None,
                       add: Callable[[Key], None] | None = None) -> None:
        """Record a change of a watched object (``kind``: ADDED, MODIFIED, DELETED), and queue
        affected keys.

        ``add`` queues a key. If it is None, the change is urgent.
        """
        self._floors_changed(concerns_floors(kind, resource, obj, old))
        self._requests_changed(resource, obj)
        if resource == PODS:
            self._note_bound(kind, obj, old)
            self._note_running(kind, obj, old)
            self.rescheduler.pod_changed(kind, obj)
            if self.gates:
                self.gating.pod_changed(kind, obj, old)
            return
        if resource == LEASES:
            self._agent_changed(kind, obj)
            return
        if resource == NODES:
            self._node_changed(kind, obj, old)
            self.gating.node_changed(obj["metadata"]["name"])
        keys = self._keys_of(resource, obj, old)
        if resource == CLAIMS:
            self._claim_changed(kind, obj, old)
        elif kind == "DELETED":
            self._forget(resource, obj)
        calm = kind == "MODIFIED" and is_further_step(resource, obj, old)
        for key in keys:
            (add or (self.queue.add_echo if calm else self.queue.add_change))(key)
        if self.gates and (keys or resource != NODES):
            self.gating.cluster_changed()
            if resource == NODES:
                self.gating.node_changed(obj["metadata"]["name"])

    def _requests_changed(self, resource: ApiResource, obj: Json) -> None:
        """Queue the ProvisioningRequests that a changed object concerns."""
        for key in self.provisioning.concerned(resource, obj):
            self.queue.add_change(key)

    def _note_bound(self, kind: str, pod: Json, old: Json | None) -> None:
        """End the step ``bind`` of the pod's claims when the pod is bound.

        If only pods without a node are watched, a pod that leaves the watch is bound.
        """
        if kind == "DELETED" or (pods.bound(pod) and not pods.bound(old or pod)):
            node = pods.bound(pod)
            for claim in self.state.claims_of_pod(pod):
                self.hops.end("bind", claim.uid, [claim], DIRECT, **({"node": node} if node else {}))

    def _note_running(self, kind: str, pod: Json, old: Json | None) -> None:
        """End the timelines of the pod's claims when the pod runs."""
        if kind != "DELETED" and pods.phase(pod) == RUNNING and pods.phase(old or pod) != RUNNING:
            self.timelines.running(self.state.claims_of_pod(pod))

    def _count_waits(self, timeline: Timeline) -> None:
        self.waits.count(timeline)

    def _keys_of(self, resource: ApiResource, obj: Json, old: Json | None) -> list[Key]:
        """Return the affected keys, each once.

        A DeviceClass may affect any pool. A claim that is gone or moved releases devices that were
        held for it.
        """
        holding = self.state.holding(claims.identity(obj)) if resource == CLAIMS else ()
        keys = list(dict.fromkeys([*map(NodeKey, holding), *keys_of(resource, obj, old, self.config.settings)]))
        return [*keys, *pool_keys(self.state)] if resource == DEVICE_CLASSES else keys

    def _forget(self, resource: ApiResource, obj: Json) -> None:
        """Forget what was remembered about a deleted object."""
        name = obj["metadata"]["name"]
        if resource == COMPOSABLE_RESOURCES:
            self._note_return(obj)
            self.state.forget(name)
            self.nodes.forget(name)
        elif resource == SLICES:
            self.state.forget_slice(name)

    def _note_return(self, resource: Json) -> None:
        """Record that a deleted ComposableResource returned its device, if it had one. The next
        poll shows it."""
        uid = resource["metadata"]["uid"]
        if (resource.get("status") or {}).get("state") == DELETING:
            self.state.note_return(resource)
            self.fabric_looks.soon.set()
        self.state.returns.gone(uid)

    def _node_changed(self, kind: str, node: Json, old: Json | None) -> None:
        """Handle a change of a node, which also affects other nodes with the same machine."""
        for twin in {*self.state.twins(node), *self.state.twins(old)}:
            self.queue.add_change(NodeKey(twin))
        if kind == "DELETED":
            self.queue.add(NodeKey(node["metadata"]["name"]))

    def _agent_changed(self, kind: str, lease: Json) -> None:
        """Handle the Lease of a node agent. Only a new or lost agent changes a plan, not a
        renewal."""
        node = lease["metadata"]["name"].removeprefix(AGENT_LEASE)
        if kind == "DELETED":
            self.state.hands.lease_gone(node)
        elif not self.state.hands.lease_changed(node, lease):
            return
        self.queue.add_change(NodeKey(node))
        self._floors_changed()
        if self.gates:
            self.gating.cluster_changed()

    def _floors_changed(self, changed: bool = True) -> None:
        """Compute again which idle devices nodes keep for claims to come."""
        if changed and self.config.settings.floors:
            self.queue.add_change(FloorsKey())

    def _claim_changed(self, kind: str, claim: Json, old: Json | None) -> None:
        """Help a claim that is being rescheduled."""
        self._note_claim(kind, claim, old)
        if kind != "DELETED" and SCALER in self.roles and old is not None and claims.binding_results(old):
            if not claims.results(claim):
                self.rescheduler.deallocated(claim)
            elif not claims.reserved(claim) and adapters.claim_phase(claim) == RESCHEDULE:
                self.rescheduler.given_up(claim)

    def _note_claim(self, kind: str, claim: Json, old: Json | None) -> None:
        """Begin and end the steps that the scheduler marks on a claim."""
        uid, pooled = claims.identity(claim), claims.binding_results(claim)
        if kind == "DELETED":
            self.hops.forget("request", uid)
            self.hops.forget("bind", uid)
            self.timelines.gone(claim["metadata"]["uid"])
        elif pooled and old is not None and not claims.binding_results(old):
            self.hops.begin("request", uid)
        elif not pooled and self.hops.began("handover", uid) and claims.results(claim):
            self.hops.end("handover", uid, [ClaimRef.of(claim)], RESCHEDULE)
            self.hops.over([claim], node=claims.node(claim) or "")

    def _waited(self, key: Key, seconds: float) -> None:
        self.metrics.observe("queue_duration_seconds", seconds, controller=key.controller)

    def _operation_finished(self, node: str) -> None:
        self.queue.add(NodeKey(node))
        self.fabric_looks.soon.set()

    def _work(self) -> None:
        """Run a worker: handle one key at a time until the queue is closed."""
        with self.progress.worker():
            while (key := self.queue.get()) is not None:
                try:
                    with self.progress.at(key):
                        self.reconcile(key)
                finally:
                    self.queue.done(key)

    def _keep_warm(self) -> None:
        """Keep connections open for a burst. To open one costs as much as ten requests."""
        while not self.stopping.wait(WARM_SECONDS):
            with contextlib.suppress(ApiError):
                self.client.warm(CONNECTIONS)

    @property
    def looks(self) -> bool:
        """Return whether to poll the CDI Manager. A scaler alone needs it only to choose nodes for
        gated pods."""
        return PUBLISHER in self.roles or OPERATOR in self.roles or self.gates

    def _seen(self, keys: Iterable[Key]) -> None:
        """Queue the keys that a poll affects."""
        for key in keys:
            self.queue.add_change(key)
        self._floors_changed()
        if self.gates:
            self.gating.cluster_changed()
