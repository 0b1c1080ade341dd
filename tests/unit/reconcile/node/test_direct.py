# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handover direct, from the allocation to the condition and on: whose device is whose at each moment."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Conflict
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, device_users
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import SetPoolDevice
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool.snapshot import pool_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import STEPS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import pool_devices
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.usage import usage
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, model_of
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]
NAME = "a100-fabric1/a100-0"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A node without devices; all models are direct."""
    made = Bench(handover="direct")
    made.build()
    made.put(objects.node())
    yield made
    made.close()


def resources(bench: Bench) -> list[Json]:
    return bench.api.of(COMPOSABLE_RESOURCES)


def conditions(bench: Bench, name: str = "train") -> list[str]:
    found = bench.api.one(CLAIMS, name, "default")["status"].get("devices") or []
    return [condition["type"] for entry in found for condition in entry["conditions"]]


def served(bench: Bench, *results: Json) -> Json:
    """The claim train, told that its devices are there."""
    bench.put(objects.claim("train", *(results or [objects.pool_result()])))
    bench.run()
    bench.run()
    return bench.api.one(CLAIMS, "train", "default")


def test_claim_is_told_that_its_device_is_ready(bench: Bench) -> None:
    before = claims.results(served(bench))
    (raw,) = resources(bench)
    assert cohdi.annotation(raw, cohdi.POOL_DEVICE) == NAME
    assert conditions(bench) == ["FabricDeviceReady"]
    assert claims.results(bench.api.one(CLAIMS, "train", "default")) == before
    assert len(bench.fabric.attaches) == 1


def test_hops_of_the_way_are_measured_as_direct(bench: Bench) -> None:
    served(bench)
    assert {step for step in STEPS
            if bench.metrics.observed("step_duration_seconds", step=step, handover="direct")} == {
        "attach", "slice"}
    assert not any(bench.metrics.observed("step_duration_seconds", step=step, handover=other)
                   for step in STEPS for other in ("gated", "reschedule", "none"))
    assert bench.claim_steps.began("bind", "uid-train"), "the scheduler has to see the condition and to bind the pod"


def test_nothing_is_told_while_a_slice_of_the_node_shows_the_device(bench: Bench) -> None:
    bench.put(objects.claim("train", objects.pool_result()), objects.local_slice("GPU-d1"))
    bench.run()
    assert conditions(bench) == []
    bench.put(objects.local_slice())
    bench.run()
    assert conditions(bench) == ["FabricDeviceReady"]


def user_of(bench: Bench) -> ResourceClaim | None:
    """The claim that has the device of the one ComposableResource."""
    (resource,) = bench.state.resources.values("node", "node-0")
    return bench.state.user(resource)


def test_device_is_the_claims_from_the_intent_to_the_end_of_the_allocation(bench: Bench) -> None:
    claim = served(bench)
    user = user_of(bench)
    assert user is not None
    assert user.name == "train"
    (seen,) = node_snapshot(bench.state, "node-0").resources
    assert (seen.used_by, seen.pool_device, seen.usable, seen.visible) == ("default/train", NAME, True, False)
    bench.put({**claim, "status": {}})
    bench.run()
    (raw,) = resources(bench)
    assert cohdi.annotation(raw, cohdi.POOL_DEVICE) == ""
    assert user_of(bench) is None


def test_same_name_on_another_node_is_another_device(bench: Bench) -> None:
    served(bench)
    (raw,) = resources(bench)
    bench.put(objects.claim("train", objects.pool_result(), node="node-1"))
    assert user_of(bench) is None
    bench.run()
    assert cohdi.annotation(bench.api.one(COMPOSABLE_RESOURCES, raw["metadata"]["name"]), cohdi.POOL_DEVICE) == ""


def test_refusal_of_one_fails_all_and_the_other_goes_back(bench: Bench) -> None:
    bench.fabric.answers = [None, Refused("the machine is full")]
    bench.put(objects.claim("train", objects.pool_result(), objects.pool_result("a100-1")))
    bench.run()
    assert conditions(bench) == ["FabricDeviceFailed", "FabricDeviceFailed"]
    bench.put(objects.claim("train"))
    bench.run()
    assert [cohdi.annotation(raw, cohdi.POOL_DEVICE) for raw in resources(bench)
            if not raw["metadata"].get("deletionTimestamp")] == [""]


def test_pool_keeps_the_name_and_shows_one_less(bench: Bench) -> None:
    def shown() -> tuple[set[str], int, set[str]]:
        found = pool_snapshot(bench.state, model_of(A100), 1, bench.state.snapshot or bench.fabric.snapshot([A100]))
        assert found is not None
        return set(found.promised), found.arrived, set(found.kept)

    bench.put(objects.claim("train", objects.pool_result()))
    bench.look()
    assert shown() == ({"a100-0"}, 0, set())
    bench.run(1)
    assert shown() == ({"a100-0"}, 1, set())
    bench.run()
    assert shown() == (set(), 0, {"a100-0"})


def test_device_counts_once_for_its_namespace(bench: Bench) -> None:
    bench.put(objects.claim("train", objects.pool_result()))
    assert usage(bench.state) == {("default", A100): 1}
    bench.run()
    assert usage(bench.state) == {("default", A100): 1}
    bench.run()
    assert usage(bench.state) == {("default", A100): 1}


def test_model_that_is_direct_no_more_lets_claims_keep_what_they_were_given() -> None:
    bench = Bench(handover="reschedule")
    bench.build()
    try:
        bench.fabric.attached["d1"] = device("d1")
        raw = objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, POOL_DEVICE=NAME)
        bench.put(objects.node(), objects.request(size=1), raw, objects.claim("train", objects.pool_result()))
        bench.run()
        assert conditions(bench) == ["FabricDeviceReady"]
        assert not bench.fabric.attaches
    finally:
        bench.close()


def test_claim_without_devices_of_ours_is_none(bench: Bench) -> None:
    assert pool_devices.read_claim(bench.state, read_claim(objects.claim("train", objects.local_result()))) is None


def test_object_that_changed_meanwhile_gets_no_pool_device(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", asked=1))
    bench.api.fail("merge_patch", COMPOSABLE_RESOURCES, Conflict(409, "Conflict", "changed"))
    bench.writer.resources.set_pool_device(SetPoolDevice("node-0", "why", "gpu-a", NAME))
    assert cohdi.annotation(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"), cohdi.POOL_DEVICE) == ""


def test_watch_that_is_behind_takes_no_device_from_its_claim(bench: Bench) -> None:
    claim = served(bench)
    bench.state.claims.remove(claim)
    bench.run()
    (raw,) = resources(bench)
    assert cohdi.annotation(raw, cohdi.POOL_DEVICE) == NAME


def test_pool_device_of_another_claim_says_so(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", asked=1), objects.claim("train", objects.pool_result()))
    bench.writer.resources.set_pool_device(SetPoolDevice("node-0", "why", "gpu-a", NAME, "uid-train"))
    notes = bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["annotations"]
    assert notes["composable.infra/claim"] == "default/train uid-train"


def test_claim_that_keeps_a_device_is_found_by_a_fresh_look() -> None:
    claim = objects.claim("train", objects.pool_result())
    assert device_users.keeper([claim], "node-0", NAME) == "claim default/train uses the device"
    assert device_users.keeper([claim], "node-1", NAME) == ""
    assert device_users.keeper([claim], "node-0", "a100-fabric1/a100-1") == ""
    assert device_users.keeper([claim], "node-0", "") == ""
