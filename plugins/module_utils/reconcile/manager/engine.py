# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the parts of an engine and wire them to each other. This is the only wiring."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial

from ...fabric.api import FabricManager
from ...kube.client.verbs import Client
from ...kube.event_recorder import Recorder
from ...planning.actions import WaitReason
from ...planning.node.evaluate import OPERATOR, PUBLISHER, SCALER, NodePolicy
from ...runtime.threads import Threads
from ...runtime.tracing import Tracer
from ...runtime.work_queue import WorkQueue
from ..config import ROLES, EngineConfig
from ..controller import Controller
from ..gating.controller import GatingController
from ..keys import GATHER_SECONDS, Key, NodeKey, NodeRecordsKey
from ..node.attach_operations import AttachOperations
from ..node.claim_check import ClaimCheck
from ..node.controller import Executor, NodeController
from ..node.detach_operations import DetachOperations
from ..node.machine_reader import MachineReader
from ..node.planner import NodePlanner
from ..node.request_controller import RequestController
from ..pool.controller import PoolController
from ..prewarm.controller import FloorsController
from ..provisioning.controller import ProvisioningController
from ..provisioning.waiting_requests import is_of_request, waiting_requests
from ..rescheduling.rescheduler import Rescheduler
from ..runtime.claim_steps import ClaimSteps
from ..runtime.event_reporter import EventReporter
from ..runtime.fence import Fence
from ..runtime.metrics import Metrics, NoMetrics
from ..runtime.step_marks import DecidedSteps, WatchedSteps
from ..state.cluster_state import ClusterState
from ..state.node_agents import ELSEWHERE, NodeAgents
from ..timelines.recorder import TimelineRecorder
from ..timelines.waits_keeper import WaitsKeeper
from ..writers.writer import Writer
from .dispatch import Dispatch
from .inventory_polls import InventoryPolls
from .watches import Watches
from .workers import Workers

# Subjects of problems of the process.
ABOUT = ("API server", "CDI Manager", "inventory", "binding conditions", "pools", "another operator")


class Engine:
    """The parts of an engine. It starts no thread and sends no request by itself.

    ``fabric`` is the driver of the CDI Manager. ``roles`` are the components of CoHDI that it
    replaces, out of ``publisher``, ``scaler`` and ``operator``. With ``events``, write Events as
    ``component``. ``metrics`` takes measurements and ``tracer`` the spans of claims, if given.
    ``queue`` and ``state`` replace those of its own. The fence is open until ``require`` connects
    it to a leadership.
    """

    def __init__(self, client: Client, fabric: FabricManager, config: EngineConfig, *, roles: Iterable[str] = ROLES,
                 component: str = "composable-infra", events: bool = True, metrics: Metrics | None = None,
                 tracer: Tracer | None = None, queue: WorkQueue[Key] | None = None,
                 state: ClusterState | None = None) -> None:
        self.client, self.fabric, self.config, self.roles = client, fabric, config, frozenset(roles)
        settings, clock = config.settings, client.server_time
        operates = OPERATOR in self.roles
        self.threads, self.metrics, self.fence = Threads(), metrics or NoMetrics(), Fence()
        self.stopping = threading.Event()
        fenced = client.guarded(self.fence.check_write)
        self.queue = queue or WorkQueue(lambda key: GATHER_SECONDS.get(type(key)), self._waited, clock)
        self.state = state or ClusterState(settings, NodeAgents(config.node_operations if operates else ELSEWHERE))
        self.state.clock = clock

        self.recorder = Recorder(fenced, component, component) if events else None
        self.reporter = EventReporter(self.state, self.recorder, settings)
        self.writer = Writer(fenced, self.state)
        self.waits = WaitsKeeper(fenced, config.lease_namespace, partial(self.reporter.once, "waits"),
                                 enabled=SCALER in self.roles, clock=clock)
        timelines = TimelineRecorder(lambda node, when: self.queue.add_at(NodeRecordsKey(node), when), clock,
                                     self.waits.count)
        self.claim_steps = ClaimSteps(self.metrics, tracer, config.fabric.manager, clock, timelines)

        decided = DecidedSteps(self.state, self.claim_steps)

        self.operations = AttachOperations(self.state, self.writer, fabric, self.fence, self.reporter, decided,
                                           self.threads, config.parallel_attaches, self._operation_finished)
        self.detaches = DetachOperations(self.operations,
                                         ClaimCheck(client, self.state, self.writer.resources.taints))
        self.rescheduler = Rescheduler(self.writer, settings.handover_timeout, self.threads)
        self.reader = MachineReader(fabric, self.threads, lambda node: self.queue.add(NodeKey(node)))
        policy = NodePolicy(settings, self.roles, config.fabric.attach_timeout)
        self.planner = NodePlanner(self.state, fabric, policy, self.reporter, self.reader)

        self.pools = PoolController(self.state, self.writer, self.reporter, enabled=PUBLISHER in self.roles)
        self.gating = GatingController(self.state, self.writer, self.pools, self.reporter, decided, self.queue,
                                       self.threads, enabled=SCALER in self.roles and settings.gating)
        self.provisioning = ProvisioningController(self.state, self.writer, self.gating, self.reporter, self.metrics,
                                                   enabled=config.provisioning_requests and self.gates)
        executor = Executor(self.state, self.writer, self.operations, self.detaches, self.rescheduler, self.gating,
                            self.reporter, decided, self.threads)
        self.nodes = NodeController(self.state, self.planner, executor, self.writer, self.reporter, timelines,
                                    self.queue)
        self.requests = RequestController(self.state, self.writer, self.queue, enabled=operates)
        self.controllers: tuple[Controller, ...] = (
            self.nodes, self.pools, self.gating, self.provisioning, self.requests,
            FloorsController(self.state, self.queue))

        steps = WatchedSteps(self.state, self.claim_steps)
        self.dispatch = Dispatch(self.state, self.queue, self.controllers, (steps.observe, self.rescheduler.observe),
                                 self._poll_soon)
        self.workers = Workers(self.queue, self.controllers, self.reporter, self.metrics, clock,
                               lambda: self.fence.open)
        self.watches = Watches(client, self.state, self.dispatch.watched, self.dispatch.echoed, roles=self.roles,
                               leases=config.lease_namespace, provisioning=config.provisioning_requests)
        self.inventory_polls = InventoryPolls(fabric, self.state, self.reporter, config.scan_interval,
                                              config.fabric.attach_timeout, self.stopping, self.dispatch.polled)

    @property
    def gates(self) -> bool:
        """Return whether this engine serves gated pods."""
        return self.gating.enabled

    @property
    def looks(self) -> bool:
        """Return whether to poll the CDI Manager. A scaler alone needs it only to choose nodes for
        gated pods."""
        return PUBLISHER in self.roles or OPERATOR in self.roles or self.gates

    def ready(self) -> bool:
        """Return whether every list was read and the CDI Manager was polled."""
        return self.watches.synced() and (self.state.snapshot is not None or not self.looks)

    def problems(self) -> list[str]:
        """Return the current problems of watches, CDI Manager and pools, one sentence each."""
        return list(self.troubles())

    def troubles(self) -> dict[str, str]:
        """Return the same sentences, each with its subject out of ABOUT."""
        api, manager, inventory, slices, pools, rival = ABOUT
        old = self.inventory_polls.problem() if self.looks else ""
        found = [*((said, api) for said in self.watches.problems()), (self.state.fabric_problem, manager),
                 (old, inventory), (self.state.pools_problem, slices), (self.state.rival.problem(), rival),
                 *((said, pools) for said in list(self.state.refused_models.values()))]
        first: dict[str, str] = {}
        for said, about in found:
            if said:
                first.setdefault(said, about)
        return first

    def wait_reasons(self) -> list[WaitReason]:
        """Return why claims and ProvisioningRequests wait, as of the last plans."""
        planned = [reason for reasons in list(self.nodes.wait_reasons.values()) for reason in reasons
                   if not is_of_request(reason.claim)]
        return [*planned, *self.gating.wait_reasons, *waiting_requests(self.state)]

    def _poll_soon(self) -> None:
        self.inventory_polls.soon.set()

    def _operation_finished(self, node: str) -> None:
        self.queue.add(NodeKey(node))
        self._poll_soon()

    def _waited(self, key: Key, seconds: float) -> None:
        self.metrics.observe("queue_duration_seconds", seconds, controller=key.controller)
