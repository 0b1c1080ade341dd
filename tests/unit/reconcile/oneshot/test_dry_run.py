# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode plans what the controllers carry out, and leaves an engine as it was, also one that is at work."""

from __future__ import annotations

import copy
import random
import threading
import typing as t
from collections import Counter
from collections.abc import Iterable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PHASES,
    PREPARING,
    REMOVED,
    Evidence,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Action
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.controller import Executor
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.dry_run import forecast
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import explain
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import held_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Quiet = tuple[ControllerManager, Bench]
NODES = ("node-0", "node-1")
RUNS = 60
# Some kinds of actions are rare: so many more nodes are drawn until all have come.
MOST_RUNS = 1000
EXPECTED = {"MarkClaim", "SetSize", "DeleteResource", "SetState", "Touch", "AskRelease", "WithdrawRelease", "Detach",
            "Finish"}


def chance(rng: random.Random, one_in: int) -> bool:
    """True once in so many times."""
    return rng.randrange(one_in) == 0


def fill(bench: Bench, rng: random.Random) -> None:
    """Two nodes with claims, requests and devices in any state of their lives."""
    bench.put(objects.node("node-1", "machine-1"))
    for number, node in enumerate(NODES):
        shown = []
        bench.put(objects.request(f"request-{number}", size=rng.randrange(4), node=node))
        for index in range(rng.randrange(4)):
            name = f"gpu-{number}-{index}"
            there, deleted = not chance(rng, 3), chance(rng, 3)
            if there:
                bench.fabric.attached[f"d-{name}"] = device(f"d-{name}")
                shown += [f"GPU-{name}"] if not chance(rng, 3) else []
            owner = f"uid-claim-{number}-{rng.randrange(3)}"
            notes = {"HELD_FOR": cohdi.hold(owner, 1000.0)} if chance(rng, 3) else {}
            if there and not chance(rng, 3):
                trouble = Evidence(PREPARING, f"d-{name}").with_trouble("NotOnBus", "not on the bus", 1.0)
                known = [trouble, *(Evidence(phase, f"d-{name}") for phase in PHASES)]
                # Of those that leave, most were asked to and half are let go already.
                known += [Evidence(REMOVED, f"d-{name}")] * (3 if deleted else 0)
                notes |= {"NODE": rng.choice(known).to_json()}
            notes |= {"RELEASE": "now"} if deleted and not chance(rng, 4) else {}
            bench.put(objects.resource(
                name, node=node, request=f"request-{number}" if not chance(rng, 4) else "gone",
                device=f"d-{name}" if there else "", serial=f"GPU-{name}" if there else "",
                asked=rng.choice((None, 2.0, 500.0)) if not there else 500.0, deleted=deleted,
                created=rng.choice((1.0, 5000.0)),
                state=rng.choice(("Detaching", "Deleting") if deleted else ("Attaching", "Online")), **notes))
        bench.put(objects.local_slice(*shown, node=node))
        for index in range(rng.randrange(4)):
            result = rng.choice((objects.pool_result(f"a100-{index}"), objects.pool_result("x", pool="strange-fabric1"),
                                 objects.local_result(f"gpu-{index}", node)))
            told = [objects.told(result, objects.RESCHEDULE)] if result.get("pool") != node and chance(rng, 3) else []
            bench.put(objects.claim(f"claim-{number}-{index}", result, node=node, devices=told))
    if chance(rng, 3):
        bench.fabric.attached["stranger"] = device("stranger")
    bench.look()


@pytest.mark.parametrize("outage", [False, True], ids=["the manager answers", "the manager is away"])
def test_check_mode_plans_what_the_controllers_carry_out(
    quiet: Quiet, outage: bool, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, bench = quiet
    done: list[Action] = []
    monkeypatch.setattr(Executor, "carry_out", lambda _self, actions: done.extend(actions))
    monkeypatch.setattr(engine.writer, "hold", lambda *_unused: None)
    kinds: Counter[str] = Counter()
    for number in range(MOST_RUNS):
        if number >= RUNS and kinds.keys() >= EXPECTED:
            break
        for store in (bench.state.claims, bench.state.resources, bench.state.requests, bench.state.slices):
            for raw in list(store.list()):
                bench.drop(raw)
        bench.fabric.attached.clear()
        bench.fabric.machine_error = None
        fill(bench, rng)
        bench.fabric.machine_error = Unavailable("the CDI Manager does not answer") if outage else None
        planned = [action for action in forecast(engine).actions if action.node in NODES]
        done.clear()
        for node in NODES:
            engine.nodes.reconcile(NodeKey(node))
            engine.nodes.write_records(NodeRecordsKey(node))
        assert sorted(map(repr, planned)) == sorted(map(repr, done))
        kinds.update(type(action).__name__ for action in done)
        engine.nodes._turns.clear()
    assert kinds.keys() >= EXPECTED, "the random nodes must call for all kinds of actions"
    assert ("CreateResource" in kinds, "Adopt" in kinds) == (True, not outage)


def memory(state: ClusterState) -> dict[str, t.Any]:
    """What an engine remembers, by value."""
    parts = (state.holds, state.reservations, state.operations, state.blocks, state.last_uses)
    found = {type(part).__name__: {name: value for name, value in vars(part).items()
                                   if name not in ("_lock", "_resources")} for part in parts}
    found["rest"] = {"planned": state.held_pods_planned, "fabric": state.fabric_problem, "pools": state.pools_problem,
                     "snapshot": state.snapshot}
    return copy.deepcopy(found)


def objects_of(state: ClusterState) -> list[t.Any]:
    """All that the watches have seen, by value."""
    stores = (state.claims, state.slices, state.nodes, state.requests, state.resources, state.pods, state.namespaces,
              state.classes)
    return copy.deepcopy([store.list() for store in stores])


@pytest.fixture
def gated(quiet: Quiet) -> Quiet:
    """Held pods: one with a reservation, one that is not planned yet; a hold that its claim has left; a used device."""
    bench = quiet[1]
    bench.put(held_pods.node(), {"apiVersion": "v1", "kind": "Namespace", "metadata": held_pods.opted_in("default")},
              {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
               "metadata": objects.meta(DRIVER), "spec": {"selectors": []}})
    held_pods.ask(bench, "first")
    bench.reconcile(GatesKey())
    held_pods.ask(bench, "second")
    shown = objects.local_slice("GPU-a", "GPU-b")
    for entry in shown["spec"]["devices"]:
        entry["attributes"]["productName"] = {"string": f"NVIDIA {A100}"}
    bench.put(shown, objects.claim("one", objects.local_result("gpu-1")), objects.claim("two"))
    for name in ("a", "b"):
        bench.fabric.attached[name] = device(name)
        bench.put(objects.resource(name, device=name, serial=f"GPU-{name}", asked=500.0, state="Online"))
    bench.state.holds.keep("a", "uid-one")
    bench.state.holds.keep("b", "uid-two")
    bench.look()
    assert [name for name, _node in held_pods.reserved(bench)] == ["first"]
    return quiet


def test_check_mode_and_explanation_leave_the_state_as_it_was(gated: Quiet) -> None:
    engine, bench = gated
    before, seen = memory(engine.state), objects_of(engine.state)
    writes, queued = len(bench.api.writes()), engine.queue.idle()
    plan = [action["action"] for action in forecast(engine).as_dicts()]
    explain(engine)
    assert "Reserve" in plan, "the second pod is planned in the forecast"
    assert memory(engine.state) == before
    assert objects_of(engine.state) == seen
    assert (len(bench.api.writes()), engine.queue.idle(), bench.fabric.attaches) == (writes, queued, [])


def test_forecasts_beside_an_engine_at_work_change_nothing_of_it(gated: Quiet) -> None:
    """The engine does nothing of its own here; threads forecast while its state is read."""
    engine, _bench = gated
    before, failures = memory(engine.state), list[BaseException]()

    def ask(times: Iterable[int]) -> None:
        try:
            for _unused in times:
                forecast(engine)
                explain(engine)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(range(10),)) for _unused in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert memory(engine.state) == before
    for thread in threads:
        thread.join()
    assert failures == []
    assert memory(engine.state) == before


def test_pods_are_served_as_without_it_while_forecasts_are_made(gated: Quiet) -> None:
    """Workers run; forecasts beside them reserve nothing, so each pod is attached one device and no more."""
    engine, bench = gated
    engine.work()
    engine.enqueue_all()
    for _unused in range(20):
        forecast(engine)
        explain(engine)
    bench.wait(lambda: len(bench.fabric.attaches) == 2, "an attach for each pod: no device there is idle")
    bench.idle()
    for _unused in range(5):
        forecast(engine)
    bench.wait(engine.queue.idle, "the end of all work")
    bench.idle()
    assert len(bench.fabric.attaches) == 2
    assert {name for name, _node in held_pods.reserved(bench)} == {"first", "second"}
