# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of a ResourceClaim: what it says, what equal ones share, and what cannot be read."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.value_store import ValueStore
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import PREPARING, READY
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import indexers
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import (
    claim_phase,
    read_claim,
)
from ansible_collections.composable.infra.tests.bench.large import objects as large
from ansible_collections.composable.infra.tests.unit.planning.builders import settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]


def present(part: t.Any) -> t.Any:
    """A part without its empty fields."""
    if isinstance(part, dict):
        return {name: kept for name, value in part.items() if (kept := present(value)) not in ("", None, {}, [])}
    return [present(each) for each in part] if isinstance(part, (list, tuple)) else part


def kept(raw: Json) -> Json:
    """Return the parts of a claim that a reader may use. Kind and version are left out."""
    found = present(claims.trimmed(copy.deepcopy(raw)))
    return {name: value for name, value in found.items() if name not in ("apiVersion", "kind")}


def given_back(raw: Json) -> Json:
    """The same of what the value gives back."""
    return kept(read_claim(copy.deepcopy(raw)).as_object())


def some_result(rng: random.Random) -> Json:
    """A device of an allocation, with any fields that the API knows."""
    result: Json = {"driver": "gpu.nvidia.com", "pool": rng.choice(["node-0", "a100-fabric1"]),
                    "device": f"gpu-{rng.randrange(3)}"}
    may: Json = {"request": "gpu/large", "adminAccess": True, "shareID": "a-share",
                 "bindingConditions": [objects.READY],
                 "bindingFailureConditions": [objects.FAILED, objects.RESCHEDULE],
                 "tolerations": [{"key": "k", "operator": "Exists"}], "consumedCapacity": {"memory": "10Gi"}}
    return result | {name: value for name, value in may.items() if rng.random() < 0.5}


def some_claim(rng: random.Random) -> Json:
    """A claim as API server, scheduler, drivers and users may have left it."""
    raw = objects.claim("train", *(some_result(rng) for _each in range(rng.randrange(4))),
                        node=rng.choice([None, "node-0"]))
    meta, status = raw["metadata"], raw["status"]
    meta |= {"resourceVersion": str(rng.randrange(9)), "creationTimestamp": format_time(rng.randrange(2_000_000_000)),
             "labels": {"team": "a"}, "annotations": rng.choice([{}, {"note": "x"}, {claims.SPECIAL: "true"}]),
             "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}]}
    if rng.random() < 0.3:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [claims.FINALIZER, "example.com/mine"]}
    raw["spec"] = rng.choice([{}, {"devices": {}}, {"devices": {"requests": [large.claim_request()]}}])
    status["reservedFor"] = rng.choice([[], [{"resource": "pods", "name": "p", "uid": "u"}],
                                        [{"resource": "pods", "name": "p"}],
                                        [{"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g"}]])
    if (allocation := status.get("allocation")) and rng.random() < 0.5:
        allocation |= {"allocationTimestamp": format_time(rng.randrange(2_000_000_000))}
        allocation["devices"] |= {"config": [{"opaque": {"driver": "d", "parameters": {}}}]}
        allocation["nodeSelector"] = rng.choice([
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In",
                                                     "values": ["node-1", "node-2"]}]}]}])
    status["devices"] = [{**{name: result[name] for name in ("driver", "pool", "device")}, "data": {"large": "x"},
                          "conditions": [{"type": objects.READY, "status": rng.choice(["True", "False"]),
                                          "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}
                         for result in claims.results(raw) if rng.random() < 0.5]
    return raw


@pytest.mark.parametrize("raw", [large.claim(3, 2), large.held_pod("train", 4)[0]], ids=["allocated", "waiting"])
def test_claims_of_a_large_cluster_are_given_back(raw: Json) -> None:
    assert given_back(raw) == kept(raw)


@pytest.mark.parametrize("seed", range(200))
def test_any_claim_is_given_back_and_found_where_its_object_says(seed: int) -> None:
    raw = some_claim(random.Random(seed))
    assert given_back(raw) == kept(raw)
    found = read_claim(copy.deepcopy(raw))
    assert read_claim(copy.deepcopy(found.as_object())) == found
    assert all({*indexers.CLAIMS[name](found)} == {*places(raw)} for name, places in indexers.UNREAD_CLAIMS.items())


@pytest.mark.parametrize("seed", range(20))
def test_fields_say_what_the_object_says(seed: int) -> None:
    raw = some_claim(random.Random(seed))
    found = read_claim(copy.deepcopy(raw))
    assert [result.key for result in found.pool_results] == [
        (result["driver"], result["pool"], result["device"]) for result in claims.binding_results(raw)]
    assert [*found.device_keys] == [*claims.device_keys(raw)]
    assert (found.node, found.allocated_at) == (claims.node(raw) or "", claims.allocated_at(raw))
    assert (found.identity, found.special) == (claims.identity(raw), claims.is_special(raw))
    assert [name for name, _uid in found.pods] == [pod["name"] for pod in claims.consumers(raw)]
    assert found.reserved == bool(claims.consumers(raw) or claims.for_a_group(raw))
    assert found.phase == claim_phase(raw)
    assert found.requests == (raw["spec"].get("devices") or {}).get("requests", [])


def test_another_version_of_the_same_says_nothing_new() -> None:
    raw = large.claim(0, 0)
    first = read_claim(copy.deepcopy(raw))
    raw["metadata"]["resourceVersion"] = "1001"
    second = read_claim(copy.deepcopy(raw))
    assert first == second
    assert (first.version, second.version) == ("1000", "1001")
    raw["status"]["reservedFor"] = []
    assert read_claim(raw) != second


def test_a_condition_is_news() -> None:
    result = objects.pool_result()
    before, after = (read_claim(objects.claim("train", result, devices=devices))
                     for devices in ([], [objects.told(result, objects.READY)]))
    assert (before.phase, after.phase) == (PREPARING, READY)
    assert before != after


def test_equal_parts_are_in_memory_once() -> None:
    first, second = (read_claim(large.claim(number, 0)) for number in (1, 2))
    assert first.spec is second.spec
    assert first.finalizers is second.finalizers
    assert first.results[0].more is second.results[0].more


def test_only_a_claim_without_devices_keeps_its_object() -> None:
    """Its planner remembers what it has read by the object."""
    state = ClusterState(settings())
    state.claims.upsert(objects.claim("train"))
    pod = pods.read(objects.pod("train"))
    (first,), (second,) = (state.planned_claims(pod).values() for _twice in range(2))
    assert first is not None
    assert first is second
    state.claims.upsert(objects.claim("train", objects.local_result()) | {
        "metadata": {**objects.claim("train")["metadata"], "resourceVersion": "99"}})
    found = state.claims.value("train", "default")
    assert found is not None
    assert found.whole is None
    (planned,) = state.planned_claims(pod).values()
    assert planned == found.as_object()


def unreadable() -> Json:
    """An allocated claim of which the API server would not let a pod be without a name."""
    raw = large.claim(0, 0)
    del raw["status"]["reservedFor"][0]["name"]
    return raw


def test_one_that_cannot_be_read_is_where_its_object_says() -> None:
    store = ValueStore(indexers.CLAIMS, read_claim, indexers.UNREAD_CLAIMS)
    raw = unreadable()
    name, node, uid = raw["metadata"]["name"], large.name_of(0), raw["metadata"]["uid"]
    store.upsert(copy.deepcopy(raw))
    places = {"node": node, "uid": uid, "device": (large.DRIVER, node, "gpu-0"), "allocated from": (large.DRIVER, node)}
    assert all(store.has(index, place) for index, place in places.items())
    assert not store.has("unallocated", uid)
    assert (store.value(name, "jobs"), store.values("node", node), store.unreadable()) == (None, [], [name])
    with pytest.raises(KeyError):
        store.checked("node", node)
    found = store.stored(name, "jobs")
    assert (store.places("node", found), store.places("uid", found)) == ([node], [uid])
    assert store.places("node", read_claim(large.claim(0, 0))) == [node]
    assert [each["spec"] for each in store.each()] == [raw["spec"]]


def test_planner_reads_of_a_claim_without_a_value_what_it_can() -> None:
    state, raw = ClusterState(settings()), unreadable()
    state.claims.upsert(copy.deepcopy(raw))
    pod = pods.read({"metadata": {"namespace": "jobs", "name": "p", "uid": "u"}, "spec": {"resourceClaims": [
        {"name": "gpu", "resourceClaimName": raw["metadata"]["name"]}]}})
    assert state.claims_by_entry(pod) == {"gpu": None}
    (planned,) = state.planned_claims(pod).values()
    assert planned is not None
    assert planned["status"] == raw["status"]


def test_a_usual_claim_has_no_fields_of_odd_ones() -> None:
    found = read_claim(large.claim(0, 0))
    assert (found.devices, found.users, found.made_for, found.selector, found.whole) == ((), (), {}, None, None)
