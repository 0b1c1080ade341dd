# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of an engine on a fake API server and a fake manager, without its threads and watches."""

from __future__ import annotations

import copy
import threading
import time
import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import BaseStore
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    IdleMinimumsKey,
    Key,
    NodeKey,
    NodeRecordsKey,
    RequestKey,
    Result,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.engine import Engine
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import NodeAgents
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


class BenchEngine(Engine):
    """The parts of an engine, and which nodes had an operation that ended."""

    def __init__(self, *args: t.Any, **options: t.Any) -> None:
        self.finished: list[str] = []
        super().__init__(*args, **options)

    def _operation_finished(self, node: str) -> None:
        self.finished.append(node)
        super()._operation_finished(node)


def begun(engine: Engine) -> None:
    """Let changes queue keys, as after ``work``, and forget the keys of the first pass."""
    engine.dispatch.begin()
    for _unused in engine.queue.ready():
        key = engine.queue.get()
        assert key is not None
        engine.queue.done(key)


class Bench:
    """Everything that a pass needs. ``put`` is what the API server has and the watches have seen.

    ``hands``: as the setting ``node_operations``; with ssh a stand-in does at once what the nodes are asked for.
    """

    PARALLEL: t.Final = 8

    def __init__(self, hands: str = "ssh", **options: t.Any) -> None:
        self.api, self.fabric = FakeApi(), FakeFabric()
        self.settings = settings(**options)
        self.state = ClusterState(self.settings, NodeAgents(hands))
        self.queue, self.metrics = RecordingQueue(), RecordedMetrics()
        self.later, self.keys = self.queue.later, self.queue.keys
        self.hands = FakeHands(self.api, self._see)
        self.api.after = self.hands if hands == "ssh" else None
        self.engine: Engine
        self.build()

    def _see(self, raw: dict[str, t.Any]) -> None:
        self.store(kind_of(raw)).upsert(raw)

    def seen(self, raw: dict[str, t.Any]) -> t.Any:
        """Return the object as the watch of its kind reports it."""
        return self.store(kind_of(raw)).trimmed(copy.deepcopy(raw))

    def build(self, roles: frozenset[str] = ROLES) -> None:
        """Put together what acts; ``roles``: for whom nodes are planned."""
        config = EngineConfig(self.settings, FabricConfig(endpoint="", attach_timeout=180.0),
                              parallel_attaches=self.PARALLEL)
        engine = BenchEngine(self.api.client, self.fabric, config, roles=roles, events=False, metrics=self.metrics,
                             queue=self.queue, state=self.state)
        self.finished = engine.finished
        begun(engine)
        self.use(engine)

    def reconcile(self, key: Key) -> None:
        """Work on one key as a worker does. Report errors of the API server, and note the next turn.

        Any other error is a fault, and raised.
        """
        try:
            result = self.engine.workers.reconcilers[type(key)](key)
            self.reporter.once(str(key), "")
        except ApiError as error:
            self.reporter.once(str(key), str(error))
            result = Result(time.time() + 1.0)
        if result.requeue_at is not None:
            self.later.append((key, result.requeue_at))

    def use(self, engine: Engine) -> None:
        """Let this be the bench of an engine, whose watches may run or not."""
        self.engine = engine
        self.state, self.settings, self.reporter = engine.state, engine.config.settings, engine.reporter
        self.operations, self.rescheduler, self.threads = engine.operations, engine.rescheduler, engine.threads
        self.gating, self.nodes, self.detaches = engine.gating, engine.nodes, engine.detaches
        self.writer, self.fence, self.pools = engine.writer, engine.fence, engine.pools
        self.claim_steps = engine.claim_steps

    def store(self, resource: ApiResource) -> BaseStore:
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
            self.reconcile(IdleMinimumsKey())
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
        counts = {name: len(store) for name, store in vars(of.state).items() if isinstance(store, BaseStore)}
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
