# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of an engine on a fake API server and a fake manager, without its threads and watches."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.planning.node.evaluate import NodePolicy
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.controller import GatingController
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    FloorsKey,
    GatesKey,
    Key,
    NodeKey,
    NodeRecordsKey,
    NominationsKey,
    PoolKey,
    RequestKey,
    Result,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.attach_operations import AttachOperations
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.claim_check import ClaimCheck
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.controller import Executor, NodeController
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.detach_operations import DetachOperations
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.planner import NodePlanner
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.request_controller import (
    RequestController,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool.controller import PoolController
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.controller import FloorsController
from ansible_collections.composable.infra.plugins.module_utils.reconcile.rescheduling.rescheduler import Rescheduler
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.event_reporter import EventReporter
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.fence import Fence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.hops import Hops
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_hands import NodeHands
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.writer import Writer
from ansible_collections.composable.infra.plugins.module_utils.runtime.threads import Threads
from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import WorkQueue
from ansible_collections.composable.infra.tests.unit.planning.builders import settings
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.unit.reconcile.fake_hands import FakeHands
from ansible_collections.composable.infra.tests.unit.reconcile.recorded_metrics import RecordedMetrics

ROLES = frozenset({"publisher", "scaler", "operator"})
KINDS = [*ClusterState(settings()).stores]


def kind_of(raw: dict[str, t.Any]) -> ApiResource:
    """The API resource of an object."""
    return next(kind for kind in KINDS if kind.kind == raw["kind"])


class RecordingQueue(WorkQueue[Key]):
    """What was added at once, and what later."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[Key] = []
        self.later: list[tuple[Key, float]] = []

    def add_change(self, key: Key) -> None:
        """Take it down."""
        self.keys.append(key)

    def add_at(self, key: Key, when: float) -> None:
        """Take it down."""
        self.later.append((key, when))


class Bench:
    """Everything that a pass needs. ``put`` is what the API server has and the watches have seen.

    ``hands``: as the setting ``node_hands``; with ssh a stand-in does at once what the nodes are asked for.
    """

    PARALLEL: t.Final = 8

    def __init__(self, hands: str = "ssh", **options: t.Any) -> None:
        self.api, self.fabric = FakeApi(), FakeFabric()
        self.settings = settings(**options)
        self.state = ClusterState(self.settings, NodeHands(hands))
        self.fence = Fence()
        self.writer = Writer(self.api.client.guarded(self.fence.check_write), self.state)
        self.reporter = EventReporter(self.state, None, self.settings)
        self.threads, self.queue, self.metrics = Threads(), RecordingQueue(), RecordedMetrics()
        self.hops = Hops(self.metrics, manager="fm")
        self.rescheduler = Rescheduler(self.writer, self.settings.handover_timeout, self.threads)
        self.hands = FakeHands(self.api, self._see)
        self.api.after = self.hands if hands == "ssh" else None
        self.finished: list[str] = []
        self.later, self.keys = self.queue.later, self.queue.keys
        self.operations: AttachOperations
        self.detaches: DetachOperations
        self.gating: GatingController
        self.nodes: NodeController
        self.reconcilers: dict[type, Callable[[t.Any], Result]]

    def _see(self, raw: dict[str, t.Any]) -> None:
        self.store(kind_of(raw)).upsert(raw)

    def build(self, roles: frozenset[str] = ROLES) -> None:
        """Put together what acts; ``roles``: for whom nodes are planned."""
        state, writer, reporter, threads = self.state, self.writer, self.reporter, self.threads
        self.operations = AttachOperations(state, writer, self.fabric, self.fence, reporter, self.hops, threads,
                                           self.PARALLEL, self.finished.append)
        self.detaches = DetachOperations(self.operations, ClaimCheck(self.api.client, state, writer.resources.taints))
        pools = PoolController(state, writer, reporter, enabled=True)
        self.gating = GatingController(state, writer, pools, reporter, self.hops, self.queue, threads)
        planner = NodePlanner(state, self.fabric, NodePolicy(self.settings, roles, 180.0), reporter)
        executor = Executor(state, writer, self.operations, self.detaches, self.rescheduler, self.gating, reporter,
                            threads)
        self.nodes = NodeController(state, planner, executor, writer, reporter, self.queue)
        self.reconcilers = {
            NodeKey: self.nodes.reconcile, NodeRecordsKey: self.nodes.write_records, PoolKey: pools.reconcile,
            RequestKey: RequestController(state, writer, self.queue, enabled=True).reconcile,
            GatesKey: self.gating.reconcile, NominationsKey: self.gating.nominate,
            FloorsKey: FloorsController(state, self.queue).reconcile}

    def reconcile(self, key: Key) -> None:
        """Work on one key as the engine does: trouble is told, and the next turn is appointed."""
        try:
            result = self.reconcilers[type(key)](key)
            self.reporter.once(str(key), "")
        except ApiError as error:
            self.reporter.once(str(key), str(error))
            result = Result(time.time() + 1.0)
        if result.requeue_at is not None:
            self.later.append((key, result.requeue_at))

    def use(self, engine: ControllerManager) -> None:
        """Let this be the bench of an engine, whose watches may run or not."""
        self.state, self.settings, self.reporter = engine.state, engine.config.settings, engine.reporter
        self.operations, self.rescheduler, self.threads = engine.operations, engine.rescheduler, engine.threads
        self.gating, self.reconcilers = engine.gating, engine.reconcilers

    def store(self, resource: ApiResource) -> Store:
        """The store that watches a kind."""
        return self.state.stores[resource]

    def put(self, *raws: dict[str, t.Any]) -> None:
        """Objects of any kind, seen by the watches."""
        for raw in raws:
            kind = kind_of(raw)
            self.store(kind).upsert(self.api.put(kind, raw))

    def drop(self, *raws: dict[str, t.Any]) -> None:
        """Objects are gone, and the watches have seen it."""
        for raw in raws:
            kind = kind_of(raw)
            gone = self.api.put(kind, raw)
            self.api.remove(kind, raw["metadata"]["name"], raw["metadata"].get("namespace") or "")
            self.store(kind).remove(gone)

    def look(self) -> None:
        """The manager is looked at, as the engine does from time to time."""
        self.state.snapshot = self.fabric.snapshot([m.cdi_model_name for m in self.settings.models])

    def run(self, rounds: int = 3) -> None:
        """Reconcile all that there is, as often as it takes for one to act on what another wrote."""
        for _unused in range(rounds):
            self.look()
            self.reconcile(FloorsKey())
            nodes = [n["metadata"]["name"] for n in self.state.nodes.list()]
            keys: list[Key] = [key for name in nodes for key in (NodeKey(name), NodeRecordsKey(name))]
            for key in [*keys, *(RequestKey(r["metadata"]["name"]) for r in self.state.requests.list())]:
                self.reconcile(key)
            self.idle()

    def told(self, reason: str) -> list[str]:
        """Messages of the history with a reason."""
        return [e["message"] for e in self.reporter.history if e["reason"] == reason]

    def status(self, name: str = "gpu-a") -> dict[str, t.Any]:
        """CoHDI's fields of the status of a ComposableResource at the API server; conditions are ours."""
        found: dict[str, t.Any] = self.api.one(COMPOSABLE_RESOURCES, name).get("status") or {}
        return {key: value for key, value in found.items() if key != "conditions"}

    def wait(self, condition: Callable[[], object], what: str = "the condition",
             engine: ControllerManager | None = None) -> None:
        """Wait until something is true; fails after ten seconds, and tells what the bench, or the engine, was about."""
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come true; {self._about(engine)}"
            threading.Event().wait(0.002)

    def _about(self, engine: ControllerManager | None) -> str:
        of = engine or self
        counts = {name: len(store) for name, store in vars(of.state).items() if isinstance(store, Store)}
        problems = engine.problems() if engine else []
        return (f"history: {list(of.reporter.history)}; ready: {of.queue.ready()}; queue: {vars(of.queue)}; "
                f"stores: {counts}; problems: {problems}; threads: {[each.name for each in threading.enumerate()]}")

    def idle(self) -> None:
        """Wait until no operation is under way."""
        self.wait(lambda: not len(self.state.operations), "the end of all operations")

    def close(self) -> None:
        """End all threads."""
        if self.fabric.gate:
            self.fabric.gate.set()
        self.operations.stop()
        self.threads.stop(5.0)
