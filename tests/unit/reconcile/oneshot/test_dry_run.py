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
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Action
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.controller import Executor
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.dry_run import forecast
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import explain
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.random_nodes import NODES, fill

Quiet = tuple[ControllerManager, Bench]
RUNS = 25
# Some kinds of actions are rare: so many more nodes are drawn until all have come.
MOST_RUNS = 1000
EXPECTED = {"MarkClaim", "SetSize", "DeleteResource", "SetState", "Touch", "AskRelease", "WithdrawRelease", "Detach",
            "Finish", "CreateResource"}


@pytest.mark.parametrize("outage", [False, True], ids=["the manager answers", "the manager is away"])
def test_check_mode_plans_what_the_controllers_carry_out(
    quiet: Quiet, outage: bool, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, bench = quiet
    done: list[Action] = []
    monkeypatch.setattr(Executor, "carry_out", lambda _self, actions, *_notes: done.extend(actions))
    monkeypatch.setattr(engine.writer.resources, "hold", lambda *_unused: None)
    kinds: Counter[str] = Counter()
    expected = EXPECTED if outage else EXPECTED | {"Adopt"}
    for number in range(MOST_RUNS):
        if number >= RUNS and kinds.keys() >= expected:
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
    assert kinds.keys() >= expected, "the random nodes must call for all kinds of actions"
    assert not outage or "Adopt" not in kinds, "nothing is adopted of a machine that nobody could read"


def memory(state: ClusterState) -> dict[str, t.Any]:
    """What an engine remembers, by value."""
    parts = (state.holds, state.reservations, state.operations, state.blocks, state.last_uses)
    found = {type(part).__name__: {name: value for name, value in vars(part).items()
                                   if name not in ("_lock", "_resources")} for part in parts}
    found["rest"] = {"planned": state.gated_pods_planned, "fabric": state.fabric_problem, "pools": state.pools_problem,
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
    bench.put(gated_pods.node(), {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")},
              {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
               "metadata": objects.meta(DRIVER), "spec": {"selectors": []}})
    gated_pods.ask(bench, "first")
    bench.reconcile(GatesKey())
    gated_pods.ask(bench, "second")
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
    assert [name for name, _node in gated_pods.reserved(bench)] == ["first"]
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
    assert {name for name, _node in gated_pods.reserved(bench)} == {"first", "second"}
