# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine with its threads and watches, on a fake API server and a fake manager."""

from __future__ import annotations

import itertools
import threading
import typing as t
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PLUGIN_RESTARTED,
    READY,
    Evidence,
    Step,
    moment,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import FinishRequest, WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    GatesKey,
    NodeKey,
    PoolKey,
    RequestKey,
    Result,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import controller_manager as module
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import (
    inventory_polls,
    read_ahead,
    workers,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import controller
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.controller import Executor
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.plugins.module_utils.runtime.threads import Stopped
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench, kind_of
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call, unreachable


@pytest.fixture
def live(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ControllerManager, Bench]]:
    """An engine that watches and is ready, and its bench; what is put there comes by the watches."""
    monkeypatch.setattr(inventory_polls, "SHORTEST_LOOK", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(workers, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(read_ahead, "READY_SECONDS", 0.01)
    monkeypatch.setattr(controller, "RETRY_SECONDS", 0.01)
    made = Bench()
    made.api.put(NODES, objects.node())
    engine = ControllerManager(made.api.client, made.fabric, config, events=False, metrics=made.metrics)
    made.use(engine)
    engine.watch()
    made.wait(engine.ready, "readiness")
    yield engine, made
    engine.stop()


Live = tuple[ControllerManager, Bench]
RESULT = objects.pool_result()


def happen(bench: Bench, *raws: dict[str, object]) -> None:
    """The API server has these; the watches tell."""
    for raw in raws:
        bench.api.put(kind_of(raw), raw)


def told(bench: Bench) -> list[str]:
    """Conditions of the claim ``train``."""
    devices = bench.api.one(CLAIMS, "train", "default")["status"].get("devices") or []
    return [c["type"] for d in devices for c in d["conditions"]]


def attached(bench: Bench) -> bool:
    """Whether some resource has its device written down."""
    return any((r.get("status") or {}).get("cdi_device_id") for r in bench.api.of(COMPOSABLE_RESOURCES))


def test_claim_is_served_by_events_alone(live: Live) -> None:
    engine, bench = live
    engine.work()
    happen(bench, objects.pod(), objects.claim("train", RESULT))
    bench.wait(lambda: attached(bench), "the attach")
    happen(bench, objects.local_slice("GPU-d1"))
    bench.wait(lambda: told(bench) == [objects.RESCHEDULE], "the condition")
    assert len(bench.fabric.attaches) == 1
    for name in ("queue_duration_seconds", "reconcile_duration_seconds"):
        assert bench.metrics.observed(name, controller="node")


def test_what_was_there_before_the_start_is_served(live: Live) -> None:
    engine, bench = live
    happen(bench, objects.claim("train", RESULT))
    bench.wait(lambda: engine.state.claims.value("train", "default"), "the watch")
    assert bench.fabric.attaches == []
    engine.work()
    bench.wait(lambda: attached(bench), "the attach")


def test_pools_are_published(live: Live) -> None:
    engine, bench = live
    engine.work()
    bench.wait(lambda: len(bench.api.of(SLICES)) == 3, "three pools")


def test_watching_writes_nothing(live: Live) -> None:
    _unused, bench = live
    happen(bench, objects.claim("train", RESULT))
    bench.wait(lambda: bench.state.claims.value("train", "default"), "the watch")
    assert bench.api.writes() == []


def test_engine_that_only_watches_queues_nothing(live: Live) -> None:
    engine, bench = live
    claim = objects.claim("train", RESULT)
    happen(bench, claim)
    bench.wait(lambda: bench.state.claims.value("train", "default"), "the watch")
    engine.dispatch.watched("ADDED", CLAIMS, read_claim(claim), None)
    assert engine.state.snapshot is not None
    engine.dispatch.polled(None, engine.state.snapshot)
    assert engine.queue.ready() == []
    engine.work()
    bench.wait(lambda: attached(bench), "the attach")


def test_manager_that_is_away_and_comes_back(live: Live) -> None:
    engine, bench = live
    engine.work()
    bench.fabric.snapshot_error = Unavailable("the CDI Manager does not answer")
    bench.wait(lambda: engine.problems() == ["the CDI Manager does not answer"], "the problem")
    assert engine.ready()
    bench.fabric.snapshot_error = None
    bench.wait(lambda: engine.problems() == [], "the end of the problem")
    assert bench.told("Recovered") == ["the problem is over: the CDI Manager does not answer"]


def test_worker_survives_a_reconcile_that_fails(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = live
    reconcile, failed = engine.workers.reconcilers[NodeKey], threading.Event()

    def fail_once(key: NodeKey) -> Result:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError("surprise")
        return reconcile(key)

    monkeypatch.setitem(engine.workers.reconcilers, NodeKey, fail_once)
    engine.work()
    engine.queue.add(NodeKey("elsewhere"))
    bench.wait(lambda: any("surprise" in m for m in bench.told("Trouble")), "the trouble")
    happen(bench, objects.claim("train", RESULT))
    bench.wait(lambda: attached(bench), "the attach")


def test_quiet_engine_begins_nothing_new(live: Live) -> None:
    engine, bench = live
    engine.work()
    engine.quiesce()
    happen(bench, objects.claim("train", RESULT))
    bench.wait(lambda: engine.state.claims.value("train", "default"), "the watch")
    engine.stop()
    assert bench.fabric.attaches == []


def test_stop_ends_all_threads(config: EngineConfig) -> None:
    before = set(threading.enumerate())
    bench = Bench()
    bench.api.put(NODES, objects.node())
    engine = ControllerManager(bench.api.client, bench.fabric, config, events=False)
    engine.watch()
    engine.work()
    bench.wait(engine.ready, "readiness")
    happen(bench, objects.claim("train", RESULT))
    bench.wait(lambda: attached(bench), "the attach")
    engine.stop()
    bench.wait(lambda: not {t for t in set(threading.enumerate()) - before if t.is_alive()}, "the end of all threads")


def test_stop_does_not_wait_for_the_manager_and_the_next_engine_adopts(live: Live, config: EngineConfig) -> None:
    engine, bench = live
    bench.fabric.gate = threading.Event()
    engine.work()
    happen(bench, objects.claim("train", RESULT))
    assert bench.fabric.asked.wait(10)
    engine.stop()
    assert not attached(bench)
    bench.fabric.gate.set()
    bench.wait(lambda: bench.fabric.attached or attached(bench), "the attach")
    second = ControllerManager(bench.api.client, bench.fabric, config, events=False)
    try:
        second.watch()
        bench.wait(second.ready, "readiness")
        second.work()
        bench.wait(lambda: attached(bench), "the adoption")
        assert len(bench.fabric.attaches) == 1
    finally:
        second.stop()


def test_reply_that_comes_while_the_engine_ends_is_written_down(live: Live) -> None:
    """The next one may be CoHDI's, which looks for nothing that it has not asked for itself."""
    engine, bench = live
    bench.fabric.gate = threading.Event()
    engine.work()
    happen(bench, objects.claim("train", RESULT))
    assert bench.fabric.asked.wait(10)
    threading.Timer(0.1, bench.fabric.gate.set).start()
    engine.await_replies(10.0)
    assert attached(bench)
    (request,) = bench.api.of(COMPOSABILITY_REQUESTS)
    assert request["spec"]["resource"]["size"] == 1
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert resource["metadata"]["labels"][cohdi.MANAGED_BY] == request["metadata"]["name"]


def test_reply_that_does_not_come_is_told(live: Live) -> None:
    engine, bench = live
    bench.fabric.gate = threading.Event()
    engine.work()
    happen(bench, objects.claim("train", RESULT))
    assert bench.fabric.asked.wait(10)
    engine.await_replies(0.01)
    (name,) = [raw["metadata"]["name"] for raw in bench.api.of(COMPOSABLE_RESOURCES)]
    bench.fabric.gate.set()
    assert [said for said in bench.told("Trouble")
            if said.startswith(f"the CDI Manager has not answered within 0.01 s about {name}. The next controller of")]


@pytest.mark.parametrize(("roles", "handover", "needs_look"), [
    (["scaler"], "reschedule", False), (["scaler"], "gated", True), (["publisher"], "gated", True),
    (["operator"], "gated", True)])
def test_role_that_needs_no_manager_is_ready_without_it(config: EngineConfig, roles: list[str], handover: str,
                                                        needs_look: bool) -> None:
    config = replace(config, settings=replace(config.settings, handover=handover, _by_pool={}, _by_cdi={}))
    bench = Bench()
    bench.fabric.snapshot_error = Unavailable("the CDI Manager does not answer")
    engine = ControllerManager(bench.api.client, bench.fabric, config, roles=roles, events=False)
    engine.watch()
    try:
        bench.wait(engine.watches.synced, "the lists")
        assert engine.ready() is not needs_look
    finally:
        engine.stop()


def test_scaler_alone_asks_no_manager(config: EngineConfig) -> None:
    bench = Bench()
    bench.api.put(NODES, objects.node())
    bench.api.put(CLAIMS, objects.claim("train", RESULT))
    engine = ControllerManager(bench.api.client, bench.fabric, config, roles=["scaler"], events=False)
    engine.watch()
    bench.wait(engine.watches.synced, "the lists")
    engine.work()
    try:
        bench.wait(lambda: [c for c in bench.api.writes() if c.plural == "composabilityrequests"],
                   "the request", engine)
    finally:
        engine.stop()
    assert (bench.fabric.attaches, bench.fabric.reads) == ([], 0)
    assert bench.api.of(COMPOSABLE_RESOURCES) == []


def test_operator_alone_marks_no_claim(config: EngineConfig) -> None:
    bench = Bench()
    for raw in (objects.node(), objects.claim("train", RESULT), objects.request(), objects.local_slice("GPU-d1")):
        bench.api.put(kind_of(raw), raw)
    engine = ControllerManager(bench.api.client, bench.fabric, config, roles=["operator"], events=False)
    engine.watch()
    bench.wait(engine.watches.synced, "the lists")
    engine.work()
    try:
        bench.wait(lambda: attached(bench), "the attach")
    finally:
        engine.stop()
    assert told(bench) == []
    assert "cohdi.io/fabric" not in bench.api.one(NODES, "node-0")["metadata"]["labels"]


def test_everything_is_looked_at_once_more(quiet: Live) -> None:
    engine, bench = quiet
    bench.put(objects.node("node-1"), objects.request("train"))
    engine.dispatch.everything()
    found = set()
    while not engine.queue.idle():
        key = engine.queue.get()
        assert key is not None
        found.add(key)
        engine.queue.done(key)
    assert {NodeKey("node-0"), NodeKey("node-1"), PoolKey(A100, 1), RequestKey("train")} <= found


def test_claim_that_goes_elsewhere_frees_what_was_held_for_it(quiet: Live) -> None:
    engine, bench = quiet
    bench.put(objects.resource("r"))
    engine.state.holds.keep("r", "uid-train")
    claim = objects.claim("train", objects.local_result("gpu-7", "node-1"), node="node-1")
    engine.dispatch.watched("MODIFIED", CLAIMS, read_claim(claim), read_claim(objects.claim("train")))
    keys = {engine.queue.get(), engine.queue.get()}
    assert keys == {NodeKey("node-0"), NodeKey("node-1")}


@pytest.mark.parametrize("watched", ["all pods", "pods without a node"])
def test_direct_claim_waits_for_the_scheduler_until_its_pod_is_bound(quiet: Live, watched: str) -> None:
    """Where only pods without a node are watched, a pod that leaves the watch is bound."""
    engine, bench = quiet
    ready = objects.claim("train", objects.pool_result(), devices=[objects.told(objects.pool_result(), objects.READY)])
    bench.put(ready, objects.pod())
    engine.claim_steps.begin("bind", "uid-train", engine.state.clock() - 2.0)
    engine.claim_steps.took("attach", [ClaimRef("default/train", "uid-train")], 90.0, 95.0)
    engine.claim_steps.over([read_claim(ready)], node="node-0")
    bound = {**objects.pod(), "spec": {**objects.pod()["spec"], "nodeName": "node-0"}}
    for _twice in range(2):
        if watched == "all pods":
            engine.dispatch.watched("MODIFIED", PODS, pods.read(bound), pods.read(objects.pod()))
        else:
            engine.dispatch.watched("DELETED", PODS, pods.read(objects.pod()), pods.read(objects.pod()))
    found = engine.claim_steps.timelines.of("uid-train")
    assert found
    assert [span.step for span in found.spans] == ["attach", "bind"]
    assert found.spans[1].seconds >= 2.0
    assert len(bench.metrics.observed("step_duration_seconds", step="bind", handover="direct")) == 1


def test_an_event_asks_for_each_node_once(quiet: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is idle begins at once, so a second asking would be a second pass."""
    engine, bench = quiet
    bench.put(objects.resource("r"))
    engine.state.holds.keep("r", "uid-train")
    asked: list[object] = []
    monkeypatch.setattr(engine.queue, "add_change", asked.append)
    monkeypatch.setattr(engine.queue, "add", asked.append)
    after, before = (read_claim(objects.claim("train", *results)) for results in ([objects.local_result()], []))
    engine.dispatch.watched("MODIFIED", CLAIMS, after, before)
    assert asked == [NodeKey("node-0")]


def test_a_further_step_on_the_node_waits_a_moment(quiet: Live) -> None:
    engine, bench = quiet
    raws = [objects.resource("r", device="d", created=9, NODE=Evidence(READY, "d", steps=steps).to_json())
            for steps in ((), (Step(PLUGIN_RESTARTED, moment(1000.0)),))]
    raws[1]["metadata"]["creationTimestamp"] = raws[0]["metadata"]["creationTimestamp"]
    before, after = map(bench.seen, raws)
    engine.dispatch.watched("MODIFIED", COMPOSABLE_RESOURCES, after, before)
    assert NodeKey("node-0") not in engine.queue.ready()
    assert not engine.queue.idle()
    engine.dispatch.watched("DELETED", COMPOSABLE_RESOURCES, after, after)
    assert engine.queue.get() == NodeKey("node-0")
    engine.queue.done(NodeKey("node-0"))
    online = bench.seen({**raws[1], "status": {"state": "Online"}})
    engine.dispatch.watched("MODIFIED", COMPOSABLE_RESOURCES, online, after)
    assert NodeKey("node-0") in engine.queue.ready()


def test_nothing_is_remembered_of_a_resource_that_is_gone(quiet: Live) -> None:
    engine, bench = quiet
    raw = objects.resource("r")
    bench.put(raw)
    engine.state.holds.keep("r", "uid-train")
    bench.state.resources.remove(raw)
    engine.dispatch.watched("DELETED", COMPOSABLE_RESOURCES, bench.seen(raw), bench.seen(raw))
    assert engine.state.holds.kept_for("uid-train") == []


def test_what_came_back_of_our_own_writes_waits_a_moment(quiet: Live) -> None:
    engine, bench = quiet
    raw = objects.resource("r")
    bench.put(raw)
    assert engine.queue.idle()
    told: list[str] = []
    engine.dispatch.listeners.append(lambda kind, resource, obj, old: told.append(kind))
    seen = bench.seen(raw)
    engine.dispatch.echoed("MODIFIED", COMPOSABLE_RESOURCES, seen, seen)
    assert told == ["MODIFIED"]
    assert engine.queue.ready() == []
    assert not engine.queue.idle()
    engine.dispatch.watched("MODIFIED", COMPOSABLE_RESOURCES, seen, seen)
    assert NodeKey("node-0") in engine.queue.ready(), "what others wrote is looked at soon"


def test_connections_are_kept_warm_also_after_an_outage(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = live
    monkeypatch.setattr(module, "WARM_SECONDS", 0.01)
    outage = threading.Event()
    outage.set()

    def before(call: Call) -> None:
        if call.verb == "warm" and outage.is_set():
            raise unreachable()

    def tries() -> int:
        return sum(call.verb == "warm" for call in bench.api.calls)

    bench.api.before = before
    engine.work()
    bench.wait(lambda: tries() >= 2, "another try")
    outage.clear()
    seen = tries()
    bench.wait(lambda: tries() > seen + 1, "warm connections")
    told = {each["reason"] for each in engine.reporter.history}
    assert told <= {"PoolPublished"}, "the thread that keeps connections open reports no problem"


def test_problems_are_said_once(quiet: Live) -> None:
    engine, _bench = quiet
    engine.state.fabric_problem = "the CDI Manager does not answer"
    for reflector in engine.watches.reflectors[:3]:
        reflector.last_error = "the API server does not answer"
    assert engine.problems() == ["the API server does not answer", "the CDI Manager does not answer"]


def test_claims_of_nodes_and_of_held_pods_have_wait_reasons(quiet: Live) -> None:
    engine, _bench = quiet
    at_node, held = WaitReason("ns/a", "1 x A100", 5.0, {}), WaitReason("ns/c", "a node", 7.0, {"position": 2})
    engine.nodes.wait_reasons, engine.gating.wait_reasons = {"node-0": (at_node,)}, (held,)
    assert engine.wait_reasons() == [at_node, held]


def test_a_pass_that_the_end_cut_short_is_no_trouble(quiet: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has planned, and the engine ends before anything is carried out: the next one will."""
    engine, bench = quiet
    carry_out = Executor.carry_out

    def ended(self: Executor, *args: t.Any) -> None:
        engine.threads.cancel()
        return carry_out(self, [FinishRequest("node-0", "it is over", name) for name in ("a", "b")])

    monkeypatch.setattr(Executor, "carry_out", ended)
    engine.workers.reconcile(NodeKey("node-0"))
    assert bench.told("Trouble") == []


def test_a_key_that_the_end_cut_short_is_no_trouble(quiet: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = quiet

    def ended(key: GatesKey) -> Result:
        raise Stopped("the rest was not begun")

    monkeypatch.setitem(engine.workers.reconcilers, GatesKey, ended)
    engine.workers.reconcile(GatesKey())
    assert bench.told("Trouble") == []
    assert engine.queue.idle(), "nor is it tried again"


def test_key_at_which_the_lease_is_lost_is_no_trouble(quiet: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends within seconds. Until then each key fails, and would fill the log."""
    engine, bench = quiet
    leads = [True]

    def lost(key: GatesKey) -> Result:
        leads.clear()
        engine.fence.check_write()
        return Result()

    monkeypatch.setitem(engine.workers.reconcilers, GatesKey, lost)
    engine.fence.require(lambda: bool(leads))
    engine.workers.reconcile(GatesKey())
    assert bench.told("Trouble") == []
    leads.append(True)
    monkeypatch.setitem(engine.workers.reconcilers, GatesKey, lambda key: _refused())
    engine.workers.reconcile(GatesKey())
    assert bench.told("Trouble") == ["the API server is busy"]


def _refused() -> Result:
    raise ApiError(429, "TooManyRequests", "the API server is busy")


class TestReadingAhead:
    """What the first plan needs is read before somebody waits for it."""

    def test_one_who_waits_to_lead_reads_and_writes_nothing(self, live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
        engine, bench = live
        rounds = self.rounds(monkeypatch)
        engine.fence.require(lambda: False)
        engine.read_ahead()
        bench.wait(lambda: rounds, "a round")
        assert "node-0" in engine.gating._known_nodes._known
        assert bench.api.writes() == []

    def test_trouble_is_told_and_the_next_round_comes(self, live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
        engine, bench = live
        rounds = self.rounds(monkeypatch)
        troubles = iter(["no such node"])

        def read() -> Iterator[None]:
            for said in troubles:
                raise ValueError(said)
            yield

        monkeypatch.setattr(engine.gating, "read_ahead", read)
        engine.read_ahead()
        bench.wait(lambda: rounds, "the round after it")
        assert any("no such node" in said for said in bench.told("Trouble"))

    def test_other_work_goes_on_between_the_steps(self, live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
        """A plan is made, and the gate lease may be renewed, though the round never ends."""
        engine, bench = live
        monkeypatch.setattr(read_ahead, "SLICE_SECONDS", 0.0)
        steps = engine.gating.read_ahead()
        next(steps)
        monkeypatch.setattr(engine.gating, "read_ahead", lambda: itertools.repeat(None))
        engine.read_ahead()
        assert engine.gates_problem()
        engine.work()
        bench.wait(lambda: not engine.gates_problem(), "a pass over held pods")

    def test_what_the_first_round_read_is_spared_from_collections(self, live: Live,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
        engine, bench = live
        calls: list[str] = []
        monkeypatch.setattr(read_ahead, "spare_collections", lambda: calls.append("spared"))
        ended = self.rounds(monkeypatch)
        engine.read_ahead()
        bench.wait(lambda: len(ended) > 2, "three rounds")
        assert calls == ["spared"]

    def test_nobody_reads_where_no_pod_is_held(self, config: EngineConfig) -> None:
        bench = Bench()
        engine = ControllerManager(bench.api.client, bench.fabric, config, roles=["operator"], events=False)
        engine.read_ahead()
        assert "read-ahead" not in {thread.name for thread in engine.threads._threads}
        engine.stop()

    def rounds(self, monkeypatch: pytest.MonkeyPatch) -> list[None]:
        """Grows with each round that was ended."""
        found: list[None] = []
        one = read_ahead.ReadAhead._round

        def counted(ahead: read_ahead.ReadAhead) -> None:
            one(ahead)
            found.append(None)

        monkeypatch.setattr(read_ahead, "ROUND_SECONDS", 0.01)
        monkeypatch.setattr(read_ahead.ReadAhead, "_round", counted)
        return found
