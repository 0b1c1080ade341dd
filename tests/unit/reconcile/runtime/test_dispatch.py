# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which passes a change calls for."""

from __future__ import annotations

import copy
import time
import typing as t
from dataclasses import replace
from functools import cache

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, Step, Trouble
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import Key, NodeKey, PoolKey, RequestKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.dispatch import (
    Dispatch,
    is_further_step,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool import controller
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

STORES = ClusterState(settings()).stores
NODE, POOL, REQUEST = NodeKey("node-0"), PoolKey(A100, 1), RequestKey("request")
Json = dict[str, t.Any]


@cache
def dispatch() -> Dispatch:
    """The dispatch of an engine that knows no object."""
    return Bench().engine.dispatch


def keys(kind: ApiResource, new: Json, old: Json | None = None) -> set[Key]:
    """Keys for a change."""
    return {*dispatch().concerned(change(kind, new, old))}


def change(kind: ApiResource, new: Json, old: Json | None = None) -> Change:
    """A change of an object, new if nothing was known of it."""
    kept, was = (STORES[kind].trimmed(copy.deepcopy(obj)) if obj and kind in STORES else obj for obj in (new, old))
    return Change("MODIFIED" if old else "ADDED", kind, kept, was)


@pytest.mark.parametrize(("kind", "obj", "expected"), [
    (CLAIMS, objects.claim("c"), set()),
    (CLAIMS, objects.claim("c", objects.pool_result()), {NODE, POOL}),
    (CLAIMS, objects.claim("c", objects.local_result()), {NODE}),
    (CLAIMS, objects.claim("c", objects.pool_result(pool="strange-fabric1")), {NODE}),
    (CLAIMS, objects.claim("c", objects.pool_result(), node=None), {POOL}),
    (SLICES, objects.local_slice("GPU-a"), {NODE}),
    (SLICES, objects.pool_slice("a100-0"), {POOL}),
    (SLICES, objects.pool_slice("x", pool="strange"), set()),
    (COMPOSABLE_RESOURCES, objects.resource(), {NODE, REQUEST}),
    (COMPOSABLE_RESOURCES, objects.resource(request=""), {NODE}),
    (COMPOSABILITY_REQUESTS, objects.request(), {NODE, REQUEST}),
    (PODS, objects.pod(), set()),
])
def test_new_object(kind: ApiResource, obj: Json, expected: set[Key]) -> None:
    assert keys(kind, obj) == expected


def test_claim_that_moved_concerns_where_it_was_too() -> None:
    before = objects.claim("c", objects.pool_result(pool="h100-fabric2"), node="node-1")
    after = objects.claim("c", objects.local_result())
    assert keys(CLAIMS, after, before) == {NODE, NodeKey("node-1"), PoolKey(H100, 2)}


def test_claim_that_was_deallocated_concerns_its_node() -> None:
    assert NODE in keys(CLAIMS, objects.claim("c"), objects.claim("c", objects.pool_result()))


@pytest.mark.parametrize(("meta", "concerned"), [
    ({"finalizers": ["resource.kubernetes.io/delete-protection"]}, set()),
    ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, set()), ({"uid": "another"}, {NODE})])
def test_a_claim_that_only_nears_its_end_concerns_no_node(meta: Json, concerned: set[Key]) -> None:
    """Its devices are in use until it is deallocated."""
    before = objects.claim("c", objects.local_result())
    after = {**before, "metadata": {**before["metadata"], "resourceVersion": "99", **meta}}
    assert keys(CLAIMS, after, before) == concerned


@pytest.mark.parametrize(("kind", "obj"), [
    (CLAIMS, objects.claim("c", objects.local_result())), (COMPOSABILITY_REQUESTS, objects.request())])
def test_object_that_is_gone_concerns_its_node(kind: ApiResource, obj: Json) -> None:
    known = STORES[kind].trimmed(copy.deepcopy(obj))
    assert NODE in dispatch().concerned(Change("DELETED", kind, known, known))


def test_resource_that_changed_its_request_concerns_both() -> None:
    assert keys(COMPOSABLE_RESOURCES, objects.resource(request="b"), objects.resource(request="a")) == {
        NODE, RequestKey("a"), RequestKey("b")}


def test_status_of_a_request_concerns_no_node() -> None:
    told = {**objects.request(), "status": {"state": "Running"}}
    told["metadata"] = {**told["metadata"], "resourceVersion": "99"}
    assert keys(COMPOSABILITY_REQUESTS, told, objects.request()) == {REQUEST}


@pytest.mark.parametrize("after", [objects.request(size=2), objects.request(force_detach=True), {
    **objects.request(), "metadata": {**objects.request()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}],
    ids=["size", "force", "deleted"])
def test_what_a_request_wants_concerns_its_node(after: Json) -> None:
    assert keys(COMPOSABILITY_REQUESTS, after, objects.request()) == {NODE, REQUEST}


def told_by_node(version: str = "2", **changes: t.Any) -> Json:
    """A device of which its node's hands noted something, the address at least."""
    seen = Evidence(**{"phase": evidence.READY, "device": "d", "uuid": "GPU-a", "address": "0000:10:00.0", **changes})
    raw = objects.resource(device="d", NODE=seen.to_json(), asked=10.0, created=10)
    raw["metadata"]["resourceVersion"] = version
    return raw


RESTARTED = (Step(evidence.PLUGIN_RESTARTED, evidence.moment(1000.0)),)
BOTH = told_by_node("1"), told_by_node(steps=RESTARTED)
BOTH[1]["metadata"].update({key: value for key, value in BOTH[0]["metadata"].items() if key == "creationTimestamp"})
BOTH[1]["metadata"]["annotations"][cohdi.ATTACH] = BOTH[0]["metadata"]["annotations"][cohdi.ATTACH]


def test_a_further_step_of_the_node_decides_nothing() -> None:
    assert is_further_step(change(COMPOSABLE_RESOURCES, BOTH[1], BOTH[0]))
    assert keys(COMPOSABLE_RESOURCES, BOTH[1], BOTH[0]) == {NODE, REQUEST}


@pytest.mark.parametrize("changes", [
    {"phase": evidence.PREPARING}, {"phase": evidence.REMOVED}, {"device": "other"}, {"uuid": "GPU-b"}, {"address": ""},
    {"trouble": Trouble(evidence.OPEN_ON_NODE, "held open", evidence.moment(1000.0))}, {"numa_node": 1}])
def test_what_the_node_found_does(changes: dict[str, t.Any]) -> None:
    after = copy.deepcopy(BOTH[1])
    after["metadata"]["annotations"][cohdi.NODE] = told_by_node(steps=RESTARTED, **changes)["metadata"][
        "annotations"][cohdi.NODE]
    assert not is_further_step(change(COMPOSABLE_RESOURCES, after, BOTH[0]))


@pytest.mark.parametrize(("part", "value"), [
    ("status", {"state": "Online", "cdi_device_id": "d"}), ("spec", {**BOTH[0]["spec"], "force_detach": True})])
def test_what_comes_with_a_step_does(part: str, value: Json) -> None:
    assert not is_further_step(change(COMPOSABLE_RESOURCES, {**BOTH[1], part: value}, BOTH[0]))


@pytest.mark.parametrize("meta", [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"labels": {}}, {"annotations": {
    **BOTH[1]["metadata"]["annotations"], cohdi.RELEASE: "now"}}], ids=["deleted", "labels", "release"])
def test_what_others_noted_with_a_step_does(meta: Json) -> None:
    after = {**BOTH[1], "metadata": {**BOTH[1]["metadata"], **meta}}
    assert not is_further_step(change(COMPOSABLE_RESOURCES, after, BOTH[0]))


def test_a_new_object_is_no_further_step() -> None:
    assert not is_further_step(change(COMPOSABLE_RESOURCES, BOTH[1], None))
    assert not is_further_step(change(COMPOSABLE_RESOURCES, BOTH[1], objects.resource(device="d")))
    assert not is_further_step(change(SLICES, objects.local_slice("GPU-a"), objects.local_slice("GPU-a")))


def test_node_matters_when_it_is_new() -> None:
    assert keys(NODES, objects.node()) == {NODE}


@pytest.mark.parametrize(("before", "after"), [
    (objects.node(), objects.node(machine="machine-1")), (objects.node(machine=None), objects.node()),
    (objects.node(), objects.node(fabric="1")),
], ids=["machine", "providerID came", "label"])
def test_node_matters_when_machine_or_labels_changed(before: Json, after: Json) -> None:
    assert keys(NODES, after, before) == {NODE}


def test_heartbeat_of_a_node_matters_to_nobody() -> None:
    beat = {**objects.node(), "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "now"}]}}
    assert keys(NODES, beat, objects.node()) == set()


def snapshot(free: dict[tuple[str, int], int], *devices: str) -> FabricSnapshot:
    """What the manager shows."""
    machine = Machine("machine-0", "node-0", 1, tuple(device(d) for d in devices))
    return FabricSnapshot({"machine-0": machine}, free, 0.0)


def looked(bench: Bench, old: FabricSnapshot | None, new: FabricSnapshot) -> set[Key]:
    """Keys for a look after another one."""
    bench.state.snapshot = new
    bench.engine.dispatch.polled(old, new)
    found, bench.keys[:] = {*bench.keys}, []
    return found


def published(bench: Bench, free: dict[tuple[str, int], int], *devices: str) -> FabricSnapshot:
    """A look whose counts all pools show."""
    bench.state.snapshot = found = snapshot(free, *devices)
    for key in controller.pool_keys(bench.state):
        controller.publish(bench.state, bench.writer, key)
    return found


def test_first_look_concerns_everything(bench: Bench) -> None:
    assert looked(bench, None, snapshot({(A100, 1): 2, (H100, 1): 0})) == {NODE, POOL, PoolKey(H100, 1)}


def test_look_that_shows_nothing_new_concerns_nobody(bench: Bench) -> None:
    before = published(bench, {(A100, 1): 2}, "d1")
    assert looked(bench, before, snapshot({(A100, 1): 2}, "d1")) == set()


def test_device_that_another_machine_has_too_concerns_its_node(bench: Bench) -> None:
    bench.put(objects.resource("r", device="d1"))
    before = published(bench, {(A100, 1): 2}, "d1")
    now = replace(snapshot({(A100, 1): 2}, "d1"), shared={"d1": ("machine-0", "machine-1")})
    assert looked(bench, before, now) == looked(bench, now, before) == {NODE}


def test_power_of_the_machine_of_a_node_that_is_gone_concerns_that_node(bench: Bench) -> None:
    """The device may return once the machine is off."""
    bench.put(objects.resource("r", device="d1", asked=900))
    bench.drop(objects.node())
    bench.state.note_uses(["node-0"])
    before = published(bench, {(A100, 1): 2}, "d1")
    off = replace(before, machines={uid: replace(each, power="Off") for uid, each in before.machines.items()})
    assert looked(bench, before, before) == set()
    assert looked(bench, before, off) == {NODE}
    assert NODE in looked(bench, None, off), "the first inventory concerns it too"


def test_other_count_concerns_its_pool(bench: Bench) -> None:
    before = published(bench, {(A100, 1): 2, (H100, 1): 1})
    assert looked(bench, before, snapshot({(A100, 1): 3, (H100, 1): 1})) == {POOL}


def test_count_that_could_not_be_read_concerns_nobody(bench: Bench) -> None:
    assert looked(bench, published(bench, {(A100, 1): 2}), snapshot({})) == set()


def test_pool_that_does_not_show_the_same_count_is_looked_at(bench: Bench) -> None:
    """It was written while a device was on its way that was returned before anybody looked."""
    before = published(bench, {(A100, 1): 2})
    bench.put(objects.resource("r", asked=0.0))
    controller.publish(bench.state, bench.writer, PoolKey(A100, 1))
    assert looked(bench, before, replace(before, taken=time.time() + 1)) == {POOL}
    bench.drop(objects.resource("r"))
    assert looked(bench, before, before) == {POOL}


def test_pools_that_must_not_be_written_concern_nobody(bench: Bench) -> None:
    bench.state.pools_problem = "this API server drops bindingConditions"
    assert looked(bench, None, snapshot({(A100, 1): 2})) == {NODE}


def test_machine_that_changed_concerns_its_node(bench: Bench) -> None:
    bench.put(objects.node("node-1", "machine-1"), objects.node("node-2", None))
    free = {(A100, 1): 2}
    assert looked(bench, published(bench, free, "d1"), snapshot(free, "d2")) == {NODE}


def test_machine_that_vanished_concerns_its_node(bench: Bench) -> None:
    gone = FabricSnapshot({}, {(A100, 1): 2}, 0.0)
    before = published(bench, {(A100, 1): 2})
    assert looked(bench, before, gone) == {NODE}
