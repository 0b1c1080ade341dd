# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ComposabilityRequests that name no node, from the request to the status: nodes are chosen, devices come and go."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, RequestKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Json = dict[str, t.Any]


def ready(name: str, ok: bool = True, **spec: t.Any) -> Json:
    """A node of the fabric."""
    raw = objects.node(name, name.replace("node", "machine"))
    status = {"conditions": [{"type": "Ready", "status": str(ok)}], "capacity": {"cpu": "8"}}
    return {**raw, "spec": {**raw["spec"], **spec}, "status": status}


@pytest.fixture
def three(bench: Bench) -> Bench:
    """Three nodes."""
    bench.fabric.others = ("machine-1", "machine-2")
    bench.put(*(ready(f"node-{n}") for n in range(3)))
    bench.look()
    return bench


def nodeless(size: int, policy: str = "differentnode", name: str = "request", **more: t.Any) -> Json:
    """A request that names no node."""
    raw = objects.request(name, size, allocation_policy=policy, **more)
    del raw["spec"]["resource"]["target_node"]
    return raw


def serve(bench: Bench, rounds: int = 3, leaving: bool = False) -> None:
    """Choose, attach, and show the devices on their nodes; those that leave are not shown again."""
    for _unused in range(rounds):
        for raw in bench.state.requests.list():
            bench.reconcile(RequestKey(raw["metadata"]["name"]))
        bench.run(1)
        for node in () if leaving else bench.state.nodes.list():
            name = node["metadata"]["name"]
            serials = [str(d.serial) for d in bench.fabric.attached.values() if d.machine == f"machine-{name[-1]}"]
            bench.put(objects.local_slice(*serials, node=name))


def where(bench: Bench) -> Counter[str]:
    """Devices by machine, as the manager has them."""
    return Counter(str(d.machine) for d in bench.fabric.attached.values())


def status(bench: Bench, name: str = "request") -> Json:
    bench.reconcile(RequestKey(name))
    found: Json = bench.api.one(COMPOSABILITY_REQUESTS, name)["status"]
    return found


def test_differentnode_has_a_device_on_each_node_and_is_running(three: Bench) -> None:
    three.put(nodeless(2))
    serve(three)
    assert where(three) == {"machine-0": 1, "machine-1": 1}
    found = status(three)
    assert (found["state"], len(found["resources"])) == ("Running", 2)
    assert {entry["node_name"] for entry in found["resources"].values()} == {"node-0", "node-1"}
    assert len(three.fabric.attaches) == 2


def test_samenode_has_all_on_one(three: Bench) -> None:
    three.put(nodeless(3, "samenode"))
    serve(three)
    assert where(three) == {"machine-0": 3}
    assert status(three)["state"] == "Running"


def test_nodes_that_cannot_take_it_are_passed_over(three: Bench) -> None:
    three.put(ready("node-0", ok=False), ready("node-1", unschedulable=True), nodeless(1))
    serve(three)
    assert where(three) == {"machine-2": 1}


def test_node_of_another_request_is_passed_over(three: Bench) -> None:
    three.put(objects.request("a", 1, node="node-0"), nodeless(1, "samenode", "b"), nodeless(1, "samenode", "c"))
    three.put(objects.claim("train", objects.pool_result()))
    serve(three)
    assert where(three) == {"machine-0": 1, "machine-1": 1, "machine-2": 1}


def test_too_few_nodes_wait_with_the_error_until_there_are_enough(three: Bench) -> None:
    three.put(nodeless(4))
    serve(three)
    assert three.fabric.attaches == []
    found = status(three)
    assert found["state"] == "NodeAllocating"
    assert found["error"].startswith(f"insufficient number of available nodes for 4 x {A100} (differentnode)")
    assert any(key == RequestKey("request") for key, _when in three.later)
    three.fabric.others = ("machine-1", "machine-2", "machine-3")
    three.put(ready("node-3"))
    serve(three)
    assert len(where(three)) == 4
    assert "error" not in status(three)


def test_node_without_the_capacity_is_named_in_the_error(three: Bench) -> None:
    three.put(nodeless(1, other_spec={"milli_cpu": 9000}))
    assert "3 nodes were checked: has 8 cpu, but other_spec.milli_cpu requests 9000 (3)" in status(three)["error"]


@pytest.mark.parametrize("node", ["node-0", "node-1", "node-2"])
def test_smaller_size_leaves_the_device_that_a_claim_uses(three: Bench, node: str) -> None:
    three.put(nodeless(3))
    serve(three)
    three.put(objects.claim("train", objects.local_result("gpu-0", node), node=node))
    raw = three.api.one(COMPOSABILITY_REQUESTS, "request")
    raw["spec"]["resource"]["size"] = 1
    three.put(raw)
    serve(three, 4, leaving=True)
    assert {name: share for name, share in (three.state.shares.of("request") or {}).items() if share} == {node: 1}


def test_smaller_size_gives_some_back_and_a_deleted_request_all(three: Bench) -> None:
    three.put(nodeless(3))
    serve(three)
    raw = three.api.one(COMPOSABILITY_REQUESTS, "request")
    raw["spec"]["resource"]["size"] = 1
    three.put(raw)
    serve(three, 4, leaving=True)
    assert sum(where(three).values()) == 1
    raw = three.api.one(COMPOSABILITY_REQUESTS, "request")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    three.put(raw)
    assert status(three)["state"] == "Cleaning"
    serve(three, 4, leaving=True)
    assert (where(three), three.api.of(COMPOSABLE_RESOURCES)) == ({}, [])
    three.reconcile(RequestKey("request"))
    assert three.api.of(COMPOSABILITY_REQUESTS) == []
    three.reconcile(RequestKey("request"))
    assert three.state.shares.of("request") is None


def test_after_a_crash_the_devices_stay_and_no_more_come(three: Bench) -> None:
    three.put(nodeless(2))
    serve(three)
    three.state.shares.forget("request")
    three.run(1)
    assert len(three.api.of(COMPOSABLE_RESOURCES)) == 2, "nothing is known of it, so it is left alone"
    serve(three)
    assert (len(three.fabric.attaches), three.fabric.detaches) == (2, [])


def test_nothing_is_chosen_before_the_manager_was_seen(three: Bench) -> None:
    three.state.snapshot = None
    three.put(nodeless(1))
    three.reconcile(RequestKey("request"))
    assert three.state.shares.of("request") is None


def test_chosen_nodes_are_planned(three: Bench) -> None:
    three.put(nodeless(2))
    three.reconcile(RequestKey("request"))
    assert {NodeKey("node-0"), NodeKey("node-1")} <= set(three.keys)


def test_its_devices_are_in_no_other_requests_size(three: Bench) -> None:
    three.put(nodeless(1))
    serve(three, 5)
    assert [r["metadata"]["name"] for r in three.api.of(COMPOSABILITY_REQUESTS)] == ["request"]
    assert len(three.fabric.attaches) == 1
