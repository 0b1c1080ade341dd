# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publishing: which pools there are, what a pool is read as, and when one is withdrawn."""

from __future__ import annotations

import threading
import time
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import read_intent
from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import PoolSnapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import PoolKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool import controller
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool.snapshot import pool_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, model_of
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.pool.controller_support import (
    snapshot,
    written,
)

FREE = (A100, 1)
KEY = PoolKey(*FREE)


def pool(bench: Bench, free: int = 4, taken: float | None = None) -> PoolSnapshot:
    """How the pool of the A100s is read."""
    found = pool_snapshot(bench.state, model_of(A100), 1, snapshot({FREE: free}, taken=taken))
    assert found is not None
    return found


def test_pools_of_the_manager_and_of_the_cluster(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 1, ("unheard of", 1): 5})
    bench.put(objects.pool_slice("h100-0", pool="h100-fabric7"), objects.local_slice("GPU-a"),
              objects.pool_slice("x", pool="strange-fabric1", name="strange"))
    assert controller.pool_keys(bench.state) == {KEY, PoolKey(H100, 7)}


def test_pool_of_our_name_and_another_driver_is_somebody_elses(bench: Bench) -> None:
    raw = objects.pool_slice("h100-0", pool="h100-fabric7")
    raw["spec"]["driver"] = "other.example"
    bench.put(raw)
    assert PoolKey(H100, 7) not in controller.pool_keys(bench.state)


def test_nothing_is_known_before_the_first_look(bench: Bench) -> None:
    bench.state.snapshot = None
    assert controller.pool_keys(bench.state) == set()
    assert controller.plan(bench.state, KEY) is None


def test_count_that_could_not_be_read_changes_nothing(bench: Bench) -> None:
    bench.state.snapshot = snapshot({})
    bench.put(objects.pool_slice("a100-0"))
    assert controller.plan(bench.state, KEY) is None


def test_model_without_a_row_has_no_pool(bench: Bench) -> None:
    assert controller.plan(bench.state, PoolKey("unheard of", 1)) is None


def test_pool_of_a_fabric_that_is_gone_is_withdrawn(bench: Bench) -> None:
    bench.state.snapshot = snapshot({}, fabrics=(2,))
    bench.put(objects.pool_slice("a100-0"))
    found = controller.publish(bench.state, bench.writer, KEY)
    assert found is not None
    assert found.reason == "fabric 1 is gone"
    assert bench.api.of(SLICES) == []


def test_pool_of_a_fabric_that_is_gone_stays_while_claims_hold_it(bench: Bench) -> None:
    bench.state.snapshot = snapshot({}, fabrics=(2,))
    bench.put(objects.pool_slice("a100-0"), objects.claim("c", objects.pool_result()))
    found = controller.publish(bench.state, bench.writer, KEY)
    assert found is not None
    assert found.empty


def test_pool_is_written_and_then_left_alone(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 2})
    controller.publish(bench.state, bench.writer, KEY)
    controller.publish(bench.state, bench.writer, KEY)
    assert written(bench) == [["a100-0", "a100-1"]]
    assert len(bench.api.writes(SLICES)) == 1


def test_pool_is_looked_at_and_written_by_one_at_a_time(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 1})
    other = threading.Thread(target=controller.publish, args=(bench.state, bench.writer, KEY))
    with bench.writer.pools.turn(KEY):
        other.start()
        other.join(0.05)
        assert (other.is_alive(), written(bench)) == (True, [])
        bench.state.snapshot = snapshot({FREE: 2})
    other.join(10)
    assert [len(devices) for devices in written(bench)] == [2]


def test_pool_without_devices_is_one_empty_slice(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 0})
    controller.publish(bench.state, bench.writer, KEY)
    assert written(bench) == [[]]


@pytest.mark.parametrize("change", ["attributes", "label_prefix"])
def test_changed_configuration_is_published(bench: Bench, change: str) -> None:
    bench.state.snapshot = snapshot({FREE: 2})
    controller.publish(bench.state, bench.writer, KEY)
    if change == "attributes":
        models = tuple(replace(m, attributes={"productName": "renamed"}) for m in bench.settings.models)
        bench.state.settings = replace(bench.settings, models=models)
    else:
        bench.state.settings = replace(bench.settings, label_prefix="gpu.example")
    found = controller.plan(bench.state, KEY)
    assert found is not None
    assert not found.empty


def test_devices_that_waiting_claims_hold_are_promised(bench: Bench) -> None:
    bench.put(objects.claim("c", objects.pool_result("a100-3"), objects.pool_result("h100-0", "h100-fabric1")),
              objects.claim("d", objects.pool_result("a100-1"), node="node-1"))
    assert pool(bench).promised == {"a100-1", "a100-3"}


@pytest.mark.parametrize("kind", [objects.RESCHEDULE, objects.FAILED])
def test_claim_that_was_told_to_move_on_holds_no_name(bench: Bench, kind: str) -> None:
    result = objects.pool_result("a100-3")
    bench.put(objects.claim("c", result, devices=[objects.told(result, kind)]))
    assert pool(bench).promised == frozenset()


def test_slices_of_another_driver_are_left_out(bench: Bench) -> None:
    raw = objects.pool_slice("a100-0", name="theirs")
    raw["spec"]["driver"] = "other.example"
    bench.put(raw, objects.pool_slice("a100-1", name="ours"))
    assert [s.name for s in pool(bench).slices] == ["ours"]


def test_device_asked_for_before_the_count_was_read_has_arrived(bench: Bench) -> None:
    bench.put(objects.claim("c", objects.pool_result()), objects.resource("gpu-a", asked=10))
    assert (pool(bench).arrived, pool(bench).free) == (1, 4)


@pytest.mark.parametrize("used", [False, True])
def test_device_asked_for_since_the_count_was_read_is_taken_off_it(bench: Bench, used: bool) -> None:
    bench.put(objects.local_slice("GPU-a"), objects.resource("gpu-a", device="a", serial="GPU-a", asked=10))
    bench.put(objects.claim("user", objects.local_result("gpu-0")) if used else objects.claim("none"))
    assert pool(bench, taken=time.time() - 60).free == 3
    assert pool(bench, taken=time.time()).free == 4


def test_what_was_asked_for_since_a_count_was_read_is_found_to_the_moment(bench: Bench) -> None:
    """Also what a clock noted that was set back since."""
    raws = [objects.resource(f"gpu-{age}", asked=age) for age in (-3600.0, 1.0, 2.0, 3.0, 61.0)]
    bench.put(*raws)
    for number, raw in enumerate(raws, start=1):
        asked = read_intent(raw)[1]
        assert [pool(bench, 9, taken=asked + more).free for more in (-0.01, 0.01)] == [9 - number, 9 - number + 1]


@pytest.mark.parametrize("part", [
    objects.resource("gpu-a"), objects.resource("gpu-a", asked=10, deleted=True),
    objects.resource("gpu-a", asked=10, model=H100), objects.resource("gpu-a", asked=10, node="node-1"),
], ids=["not asked for", "leaving", "another model", "another node"])
def test_other_resources_have_not_arrived_for_a_claim(bench: Bench, part: dict[str, t.Any]) -> None:
    bench.put(objects.claim("c", objects.pool_result()), part)
    assert pool(bench).arrived == 0


def test_device_in_use_did_not_arrive_for_a_waiting_claim(bench: Bench) -> None:
    bench.put(objects.claim("c", objects.pool_result()), objects.claim("user", objects.local_result("gpu-0")),
              objects.local_slice("GPU-a"), objects.resource("gpu-a", device="a", serial="GPU-a", asked=10))
    assert pool(bench).arrived == 0


def test_no_more_arrive_than_claims_wait(bench: Bench) -> None:
    bench.put(objects.claim("c", objects.pool_result()), *[objects.resource(f"gpu-{i}", asked=10) for i in range(3)])
    assert pool(bench).arrived == 1


def test_way_of_one_claim_changes_the_pool_once(bench: Bench) -> None:
    """Waiting; its device attached and out of the free count; moved on to the node's own slice."""
    bench.state.snapshot = snapshot({FREE: 2})
    controller.publish(bench.state, bench.writer, KEY)
    bench.put(objects.claim("c", objects.pool_result("a100-1")))
    controller.publish(bench.state, bench.writer, KEY)
    bench.put(objects.resource("gpu-a", device="a", serial="GPU-a", asked=10))
    bench.state.snapshot = snapshot({FREE: 1})
    controller.publish(bench.state, bench.writer, KEY)
    assert written(bench) == [["a100-0", "a100-1"]]
    bench.put(objects.claim("c", objects.local_result("gpu-0")), objects.local_slice("GPU-a"))
    controller.publish(bench.state, bench.writer, KEY)
    assert written(bench) == [["a100-0"]]
    assert len(bench.api.writes(SLICES)) == 2


CONDITIONS = ("bindsToNode", "bindingConditions", "bindingFailureConditions")


def test_server_is_asked_once_whether_it_keeps_binding_conditions(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 2})
    controller.publish(bench.state, bench.writer, KEY)
    bench.state.snapshot = snapshot({FREE: 1})
    controller.publish(bench.state, bench.writer, KEY)
    assert [c.verb for c in bench.api.calls] == ["dry_run", "create", "replace"]
    assert bench.state.pools_problem == ""


def test_pool_is_not_published_where_pods_would_get_what_is_not_there(bench: Bench) -> None:
    bench.api.dropped = CONDITIONS
    bench.state.snapshot = snapshot({FREE: 2})
    bench.reconcile(PoolKey(A100, 1))
    assert bench.api.writes() == []
    assert "DRADeviceBindingConditions" in bench.state.pools_problem
    bench.api.dropped = ()
    bench.reconcile(PoolKey(A100, 1))
    assert written(bench) == [["a100-0", "a100-1"]]
    assert bench.state.pools_problem == ""


@pytest.mark.parametrize("counts", [(2, 0), (0,)], ids=["after some", "from the start"])
def test_empty_pool_is_published_no_more_than_a_full_one(bench: Bench, counts: tuple[int, ...]) -> None:
    """All devices can be reserved before the pool is published for the first time."""
    bench.api.dropped = CONDITIONS
    for free in counts:
        bench.state.snapshot = snapshot({FREE: free})
        controller.publish(bench.state, bench.writer, KEY)
    assert bench.api.writes() == []
    assert bench.state.pools_problem


def test_pool_that_became_unsafe_is_withdrawn(bench: Bench) -> None:
    bench.put(objects.pool_slice("a100-0"))
    bench.api.dropped = CONDITIONS
    bench.state.snapshot = snapshot({FREE: 2})
    controller.publish(bench.state, bench.writer, KEY)
    assert written(bench) == []


VENDORS = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


def device_class(name: str, expression: str = VENDORS) -> dict[str, t.Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def test_row_that_the_clusters_class_fails_on_is_not_published_until_it_does_not(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 2})
    bench.put(device_class("gpu.nvidia.com"))
    bench.reconcile(KEY)
    assert written(bench) == []
    assert "no such key: type" in bench.state.refused_models[A100]
    bench.put(device_class("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'"))
    bench.reconcile(KEY)
    assert written(bench) == [["a100-0", "a100-1"]]
    assert bench.state.refused_models == {}


def test_pool_that_breaks_a_new_class_is_withdrawn_but_for_what_claims_hold(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 2})
    bench.reconcile(KEY)
    assert written(bench) == [["a100-0", "a100-1"]]
    bench.put(objects.claim("train", objects.pool_result("a100-1")), device_class("gpu.nvidia.com"))
    bench.state.slices.upsert(bench.api.of(SLICES)[0])
    bench.reconcile(KEY)
    assert written(bench) == [["a100-1"]]


def test_class_that_the_fabric_does_not_serve_stops_no_pool(bench: Bench) -> None:
    bench.state.snapshot = snapshot({FREE: 1})
    bench.put(device_class("somebody-elses"))
    bench.reconcile(KEY)
    assert written(bench) == [["a100-0"]]
