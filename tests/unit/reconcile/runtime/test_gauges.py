# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is true of an engine at the moment of a scrape."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, PoolKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.gauges import gauges
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import GAUGES, READ_COUNTERS
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, T4, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Quiet = tuple[ControllerManager, Bench]
MODELS = dict.fromkeys((A100, H100, T4), 0)
QUEUES = dict.fromkeys(("node", "node-records", "pool", "request", "gates", "nominations", "minimums",
                        "provisioning"), 0)


def test_every_gauge_has_a_value(quiet: Quiet) -> None:
    engine, _bench = quiet
    assert set(gauges(engine)) == {*GAUGES, *READ_COUNTERS}
    for name, metric in {**GAUGES, **READ_COUNTERS}.items():
        assert isinstance(gauges(engine)[name], dict) == bool(metric.labels)


@pytest.mark.parametrize(("held", "led"), [(None, 0.0), (False, 0.0), (True, 1.0)])
def test_it_leads_while_its_leases_are_held(quiet: Quiet, held: bool | None, led: float) -> None:
    engine, _bench = quiet
    if held is not None:
        engine.fence.require(lambda: held)
    assert gauges(engine)["leader"] == dict.fromkeys(("publisher", "scaler", "operator"), led)


def test_who_stops_leads_no_more(quiet: Quiet) -> None:
    engine, _bench = quiet
    engine.fence.require(lambda: True)
    engine.quiesce()
    assert gauges(engine)["leader"] == dict.fromkeys(("publisher", "scaler", "operator"), 0.0)


def test_keys_that_wait_are_counted_by_their_controller(quiet: Quiet) -> None:
    engine, _bench = quiet
    for key in (NodeKey("a"), NodeKey("b"), NodeKey("a"), PoolKey(A100, 1)):
        engine.queue.add(key)
    assert gauges(engine)["queue_depth"] == {**QUEUES, "node": 2, "pool": 1}
    taken = engine.queue.get()
    assert taken is not None
    assert gauges(engine)["queue_depth"] == {**QUEUES, "node": 1, "pool": 1}
    engine.queue.done(taken)


def test_devices_that_belong_to_nobody(quiet: Quiet) -> None:
    engine, bench = quiet
    for uid, model in (("owned", A100), ("stray", A100), ("theirs", "A model of others")):
        bench.fabric.attached[uid] = device(uid, model)
    bench.put(objects.resource("gpu-a", device="owned"))
    bench.look()
    assert gauges(engine)["orphans"] == {"device": 1, "resource": 0}
    assert gauges(engine)["attached_devices"] == {**MODELS, A100: 1}
    bench.drop(objects.node())
    assert gauges(engine)["orphans"] == {"device": 0, "resource": 1}


def test_pools_and_the_manager(quiet: Quiet) -> None:
    engine, bench = quiet
    bench.put(objects.pool_slice("a100-0", "a100-1"))
    bench.look()
    now = gauges(engine)
    assert now["pool_devices"] == {**MODELS, A100: 2}
    assert now["fabric_up"] == 1.0
    engine.state.fabric_problem = "the manager does not answer"
    assert gauges(engine)["fabric_up"] == 0.0


def test_watches_that_began_anew(quiet: Quiet) -> None:
    engine, _bench = quiet
    engine.watches.reflectors[0].restarts = 3
    plural = engine.watches.reflectors[0].resource.plural
    restarts = gauges(engine)["watch_restarts_total"]
    assert isinstance(restarts, dict)
    assert (restarts[plural], sum(restarts.values())) == (3, 3)
    assert set(restarts) <= set(READ_COUNTERS["watch_restarts_total"].labels["resource"])


def test_all_of_it_is_what_prometheus_is_shown(quiet: Quiet) -> None:
    engine, _bench = quiet
    metrics = PrometheusMetrics("fm", [A100])
    metrics.ask(lambda: gauges(engine))
    assert metrics.registry.get_sample_value("composable_fabric_up") == 1.0
    assert metrics.registry.get_sample_value("composable_leader", {"component": "scaler"}) == 0.0


def test_a_component_that_another_process_plays_has_no_number(config: EngineConfig) -> None:
    """A zero would be an alert: nobody leads, and the manager does not answer."""
    bench = Bench()
    plain = replace(config, settings=replace(config.settings, handover="reschedule"))
    engine = ControllerManager(bench.api.client, bench.fabric, plain, roles=["scaler"], events=False)
    metrics = PrometheusMetrics("fm", [A100])
    metrics.ask(lambda: gauges(engine))
    assert metrics.registry.get_sample_value("composable_leader", {"component": "scaler"}) == 0.0
    assert metrics.registry.get_sample_value("composable_leader", {"component": "publisher"}) is None
    up = metrics.registry.get_sample_value("composable_fabric_up")
    assert up is not None
    assert math.isnan(up)
    engine.stop()


def test_what_is_kept_for_claims_to_come_and_what_it_costs(quiet: Quiet) -> None:
    engine, _bench = quiet
    assert gauges(engine)["prewarm_devices"] == gauges(engine)["prewarm_device_hours_per_week"] == MODELS
    always = {"from": "00:00", "to": "24:00", "idle": 3}
    rows = [{"model": A100, "idle": 1}, {"model": A100, "idle": 0, "schedule": [always]}, {"model": T4, "idle": 2}]
    engine.state.settings = settings(prewarm=rows)
    assert gauges(engine)["prewarm_devices"] == {**MODELS, A100: 4, T4: 2}
    assert gauges(engine)["prewarm_device_hours_per_week"] == {**MODELS, A100: 4 * 168, T4: 2 * 168}


def recounted(engine: ControllerManager) -> tuple[dict[str, float], int]:
    """Attached devices by model and ComposableResources without a node, by a look at every object."""
    found, nodes = dict.fromkeys(MODELS, 0.0), engine.state.nodes.names()
    raws = engine.state.resources.list()
    for raw in raws:
        if (raw.get("status") or {}).get("cdi_device_id"):
            found[raw["spec"]["model"]] = found.get(raw["spec"]["model"], 0.0) + 1
    return found, sum(raw["spec"]["target_node"] not in nodes for raw in raws)


def test_devices_are_counted_as_a_look_at_each_would(quiet: Quiet, rng: random.Random) -> None:
    engine, bench = quiet
    for _unused in range(60):
        number = rng.randrange(8)
        raw = objects.resource(f"gpu-{number}", device=rng.choice(["", f"d{number}"]),
                               node=rng.choice(["node-0", "gone"]), model=rng.choice([A100, H100, "Another"]))
        if engine.state.resources.value(f"gpu-{number}") and rng.random() < 0.3:
            bench.drop(raw)
        else:
            bench.put(raw)
        now = gauges(engine)
        orphans = now["orphans"]
        assert isinstance(orphans, dict)
        assert (now["attached_devices"], orphans["resource"]) == recounted(engine)


def test_device_that_a_resource_was_only_made_for_belongs_to_nobody_yet(quiet: Quiet) -> None:
    engine, bench = quiet
    bench.fabric.attached["stray"] = device("stray", A100)
    made = objects.resource("gpu-a")
    made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}), cohdi.RECLAIMED: "stray"}
    bench.put(made)
    bench.look()
    assert gauges(engine)["orphans"] == {"device": 1, "resource": 0}
    bench.put({**made, "status": {"cdi_device_id": "stray"}})
    assert gauges(engine)["orphans"] == {"device": 0, "resource": 0}


def test_no_attached_device_is_read_for_a_scrape(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = quiet
    bench.put(*(objects.resource(f"gpu-{number}", device=f"d{number}") for number in range(5)))
    reads: list[object] = []
    for name in ("stored", "at", "list", "each", "value", "values", "first_value", "checked", "each_value"):
        one = getattr(engine.state.resources, name)
        monkeypatch.setattr(engine.state.resources, name, lambda *args, one=one: note(reads, one(*args)))
    assert gauges(engine)["attached_devices"] == {**MODELS, A100: 5}
    assert reads == []


def note(reads: list[object], found: object) -> object:
    """What a store gives, taken down."""
    given = [*found] if isinstance(found, Iterable) else [found]
    reads += given
    return given
