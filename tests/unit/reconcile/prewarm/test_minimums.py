# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle devices ahead of claims, as they come and go with what else happens in the cluster."""

from __future__ import annotations

import json
import time
import typing as t
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.planning.bar_room import BAR_ROOM
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import IdleMinimumsKey, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.controller import FloorsController
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.minimums import idle_minimums
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import PLACES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.usage import idle_shares
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, row
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def ready(name: str = "node-0", machine: str = "machine-0", **labels: str) -> dict[str, t.Any]:
    return {**objects.node(name, machine, **labels), "status": READY}


@pytest.fixture
def bench() -> Iterator[Bench]:
    """One device is kept idle on nodes with a label."""
    made = Bench(prewarm=[{"model": A100, "idle": 1, "node_selector": {"gpu": "yes"}}], device_no_removal_duration=0)
    made.fabric.others = ("machine-1",)
    made.build()
    yield made
    made.close()


def test_device_is_attached_before_anybody_asks(bench: Bench) -> None:
    bench.put(ready(gpu="yes"), ready("node-1", "machine-1"))
    bench.run()
    assert [raw["spec"]["target_node"] for raw in bench.api.of(COMPOSABLE_RESOURCES)] == ["node-0"]
    bench.put(objects.local_slice("GPU-d1"))
    bench.run(5)
    assert len(bench.fabric.attaches) == 1
    assert not bench.fabric.detaches
    assert len(bench.metrics.observed("step_duration_seconds", step="attach", handover="none")) == 1


def test_one_that_is_taken_is_followed_by_another(bench: Bench) -> None:
    bench.put(ready(gpu="yes"))
    bench.run()
    bench.put(objects.local_slice("GPU-d1"), objects.claim("train", objects.local_result()))
    bench.run()
    assert len(bench.fabric.attaches) == 2


def test_node_keeps_no_more_than_there_is_room_for() -> None:
    """Room for the memory windows of two, as the node's agent tells it."""
    sized = row(0, A100, "a100", **{"bar-size": "64Gi"})
    bench = Bench(device_info=[sized], prewarm=[{"model": A100, "idle": 3}])
    bench.build()
    bench.put(ready())
    told = json.dumps({BAR_ROOM: 130 << 30})
    bench.state.agents.lease_changed("node-0", {"metadata": {"annotations": {PLACES: told}},
                                                "spec": {"holderIdentity": "node-0"}})
    bench.run()
    assert len(bench.fabric.attaches) == 2
    bench.close()


@pytest.mark.parametrize("node", [
    {**ready(gpu="yes"), "status": {}},
    {**ready(gpu="yes"), "spec": {"providerID": "fsas-cdi://machine-0", "unschedulable": True}},
    ready(gpu="no"), ready(),
], ids=["not ready", "cordoned", "another label", "no label"])
def test_node_that_no_pod_would_use_gets_none(bench: Bench, node: dict[str, t.Any]) -> None:
    bench.put(node)
    bench.run()
    assert not bench.fabric.attaches


def kept(bench: Bench, now: float = 0.0) -> dict[str, int]:
    """By node, what a pass over the floors says."""
    found = idle_minimums(bench.state, now or time.time())
    return {node: share.kept for node, models in found.items() for share in models.values()}


def short(bench: Bench, now: float) -> set[str]:
    """Nodes that are to have more."""
    found = idle_minimums(bench.state, now)
    return {node for node, models in found.items() for share in models.values() if share.kept > share.idle}


def device_class(driver: str) -> dict[str, t.Any]:
    """A DeviceClass that selects the devices of a driver, and has its name."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(driver),
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}}


def waiting(model: str | None, device_class: str = "gpu.nvidia.com", **more: t.Any) -> dict[str, t.Any]:
    """A claim that nobody has served; ``more`` of what it asks for."""
    raw = objects.claim("other", pods=[])
    selectors = [{"cel": {"expression": f'device.attributes["gpu.nvidia.com"].productName == "{model}"'}}]
    exactly = {"deviceClassName": device_class, **({"selectors": selectors} if model else {}), **more}
    return {**raw, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}, "status": {}}


@pytest.mark.parametrize(("claim", "left"), [
    (waiting(None), 0), (waiting(f"NVIDIA {A100}"), 0), (waiting("NVIDIA T4"), 1),
    (waiting(None, "nic.example.com"), 1), (waiting(None, "gone"), 1),
], ids=["any model", "this model", "another model", "a device of others", "a class that is not there"])
def test_nothing_is_kept_from_a_pod_that_finds_no_device(bench: Bench, claim: dict[str, t.Any], left: int) -> None:
    bench.put(ready(gpu="yes"), device_class(DRIVER), device_class("nic.example.com"))
    bench.run()
    bench.put(objects.local_slice("GPU-d1"))
    bench.look()
    assert kept(bench) == {"node-0": 1}
    bench.fabric.free_count = 0
    bench.look()
    assert kept(bench) == {"node-0": 1}
    bench.put(objects.pod("other"), claim)
    assert kept(bench) == {"node-0": left}


def test_what_a_floor_gave_back_for_a_pod_is_not_attached_anew_while_the_pod_waits(bench: Bench) -> None:
    """Else the device would go and come in turns."""
    bench.put(ready(gpu="yes"), device_class(DRIVER), objects.pod("other"), waiting(None))
    bench.fabric.free_count = 1
    bench.look()
    assert kept(bench) == {"node-0": 0}
    bench.fabric.free_count = 2
    bench.look()
    assert kept(bench) == {"node-0": 1}, "one is left for the pod"


@pytest.mark.parametrize(("asks", "left"), [
    ({"count": 2}, 1), ({"count": 3}, 0), ({"allocationMode": "All"}, 0),
], ids=["as many as are left beside it", "more", "all"])
def test_nothing_is_kept_from_a_pod_that_needs_more_than_is_left_beside_the_floor(
    bench: Bench, asks: dict[str, t.Any], left: int
) -> None:
    """Two are free and one is idle, on a node that the pod may not fit."""
    bench.put(ready(gpu="yes"), device_class(DRIVER))
    bench.run()
    bench.put(objects.local_slice("GPU-d1"))
    bench.fabric.free_count = 2
    bench.look()
    assert kept(bench) == {"node-0": 1}
    bench.put(objects.pod("other"), waiting(None, **asks))
    assert kept(bench) == {"node-0": left}


def test_two_floors_of_a_model_count_as_one_against_a_pod_that_waits() -> None:
    """On node-0 and, with other labels, on node-1; both devices are there."""
    made = Bench(prewarm=[{"model": A100, "idle": 1, "node_selector": {"team": team}} for team in ("a", "b")])
    made.fabric.others = ("machine-1",)
    made.build()
    made.put(ready(team="a"), ready("node-1", "machine-1", team="b"), device_class(DRIVER))
    made.run()
    made.fabric.free_count = 1
    made.look()
    assert kept(made) == {"node-0": 1, "node-1": 1}
    made.put(objects.pod("other"), waiting(None, count=2))
    assert kept(made) == {"node-0": 0, "node-1": 0}
    made.put(waiting(None))
    assert kept(made) == {"node-0": 1, "node-1": 1}
    made.close()


def test_a_pod_without_a_claim_takes_nothing_from_the_floor(bench: Bench) -> None:
    pod = objects.pod("web")
    bench.put(ready(gpu="yes"), {**pod, "spec": {}})
    bench.run()
    bench.fabric.free_count = 0
    bench.look()
    assert kept(bench) == {"node-0": 1}


def test_nodes_that_lack_some_are_planned(bench: Bench) -> None:
    bench.put(ready(gpu="yes"), ready("node-1", "machine-1"))
    bench.reconcile(IdleMinimumsKey())
    assert idle_shares(bench.state, "node-0") == {}
    bench.look()
    bench.reconcile(IdleMinimumsKey())
    assert bench.keys == [NodeKey("node-0")]
    bench.reconcile(IdleMinimumsKey())
    assert bench.keys == [NodeKey("node-0")], "nothing is another than a moment ago"
    assert idle_shares(bench.state, "node-0") == {A100: 1}


def test_what_was_taken_since_the_last_pass_is_made_good_by_the_next_one_only(bench: Bench) -> None:
    """Else the node would attach one, and the next pass another elsewhere."""
    bench.put(ready(gpu="yes"))
    bench.run()
    bench.put(objects.local_slice("GPU-d1"))
    bench.reconcile(IdleMinimumsKey())
    bench.put(objects.claim("train", objects.local_result()))
    assert idle_shares(bench.state, "node-0") == {A100: 0}
    bench.reconcile(IdleMinimumsKey())
    assert idle_shares(bench.state, "node-0") == {A100: 1}


def test_long_passes_take_a_tenth_of_the_time_at_most(bench: Bench) -> None:
    bench.put(ready(gpu="yes"))
    clock = iter([0.0, 0.2, 1.9, 2.1, 2.11, 2.2, 2.21])
    passes = FloorsController(bench.state, bench.queue, lambda: next(clock))
    bench.look()
    assert passes.reconcile(IdleMinimumsKey()).requeue_at is None
    bench.put(objects.resource(device="d1", serial="GPU-d1", state="Online"))
    put_off = passes.reconcile(IdleMinimumsKey()).requeue_at
    assert put_off is not None
    assert put_off - time.time() == pytest.approx(0.1, abs=0.09)
    assert bench.state.idle_minimums.of("node-0")[A100].idle == 0, "nothing was looked at"
    assert passes.reconcile(IdleMinimumsKey()).requeue_at is None
    assert bench.state.idle_minimums.of("node-0")[A100].idle == 1
    assert passes.reconcile(IdleMinimumsKey()).requeue_at is None, "after a short pass the next one may follow"


def at(hour: int) -> float:
    """On a Monday, UTC."""
    return datetime(2026, 1, 5, hour, tzinfo=UTC).timestamp()


def test_floor_follows_its_schedule() -> None:
    window = {"from": "08:00", "to": "18:00", "idle": 3, "days": ["mon"]}
    made = Bench(prewarm=[{"model": A100, "idle": 1, "schedule": [window]}])
    made.build()
    made.put(ready())
    made.look()
    assert [kept(made, at(hour)) for hour in (7, 8, 18)] == [{"node-0": n} for n in (1, 3, 1)]
    made.put(*[objects.resource(f"gpu-{n}", device=f"d{n}", serial=f"GPU-d{n}", state="Online") for n in (1, 2)])
    assert (short(made, at(7)), short(made, at(8))) == (set(), {"node-0"})
    made.close()
