# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every write beside conditions: sizes, labels, journal, statuses, nominations and pools, as CoHDI's readers expect."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    LabelNode,
    SetSize,
    Touch,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import PoolPlan
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import unreachable

RESULT = objects.pool_result()


def sized(size: int, before: int | None = None, name: str = "composability-1") -> SetSize:
    """An action for the request of the A100s of the node."""
    return SetSize("node-0", "wanted", A100, size, before, name)


def test_request_is_created(bench: Bench) -> None:
    bench.writer.requests.set_size(sized(2))
    raw = bench.api.one(COMPOSABILITY_REQUESTS, "composability-1")
    assert raw["spec"]["resource"] == {"type": "gpu", "model": A100, "size": 2, "target_node": "node-0",
                                       "allocation_policy": "samenode"}
    assert raw["metadata"]["finalizers"] == [cohdi.FINALIZER]
    assert node_snapshot(bench.state, "node-0").requests[0].size == 2


def test_request_is_patched(bench: Bench) -> None:
    bench.put(objects.request("composability-1", 1))
    bench.writer.requests.set_size(sized(3, before=1))
    assert bench.api.one(COMPOSABILITY_REQUESTS, "composability-1")["spec"]["resource"]["size"] == 3
    (call,) = bench.api.writes(COMPOSABILITY_REQUESTS)
    assert call.body == {"spec": {"resource": {"size": 3}}}


def noted(bench: Bench) -> tuple[str, ...]:
    """The claims that the request says it is for."""
    return node_snapshot(bench.state, "node-0").requests[0].claims


def test_request_says_for_which_claims_it_is(bench: Bench) -> None:
    bench.writer.requests.set_size(replace(sized(2), claims=("uid-a", "uid-b")))
    assert noted(bench) == ("uid-a", "uid-b")
    bench.writer.requests.set_size(replace(sized(3, before=2), claims=("uid-c",)))
    assert noted(bench) == ("uid-c",)
    bench.writer.requests.set_size(sized(0, before=3))
    assert noted(bench) == ()
    assert cohdi.CLAIMS not in bench.api.one(COMPOSABILITY_REQUESTS, "composability-1")["metadata"]["annotations"]


def test_what_a_request_says_of_claims_is_bounded(bench: Bench) -> None:
    many = tuple(f"uid-{number}" for number in range(cohdi.MOST_CLAIMS + 9))
    bench.writer.requests.set_size(replace(sized(2), claims=many))
    assert len(noted(bench)) == cohdi.MOST_CLAIMS
    assert noted(bench)[-1] == f"uid-{cohdi.MOST_CLAIMS + 8}"


def test_request_that_somebody_else_created_is_taken_over(bench: Bench) -> None:
    bench.api.put(COMPOSABILITY_REQUESTS, objects.request("composability-1", 1, other_spec={"memory": 5}))
    bench.writer.requests.set_size(sized(2))
    spec = bench.api.one(COMPOSABILITY_REQUESTS, "composability-1")["spec"]["resource"]
    assert (spec["size"], spec["other_spec"]) == (2, {"memory": 5})


def test_refused_write_is_no_change(bench: Bench) -> None:
    bench.api.fail("create", COMPOSABILITY_REQUESTS, Forbidden(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        bench.writer.requests.set_size(sized(2))
    assert bench.writer.changes == 0


def test_labels_are_set_and_removed(bench: Bench) -> None:
    bench.put(objects.node("node-0", old="x", kept="y"))
    bench.writer.nodes.label(LabelNode("node-0", "why", {"old": None, "new": "true"}))
    assert bench.api.one(NODES, "node-0")["metadata"]["labels"] == {"kept": "y", "new": "true"}


def test_hold_names_claim_and_time_and_stamps_the_use(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    began = time.time()
    bench.writer.resources.hold("gpu-a", "uid-c")
    (found,) = node_snapshot(bench.state, "node-0").resources
    assert found.held_for == "uid-c"
    assert began - 0.001 <= found.held_since <= time.time()
    assert found.last_used >= int(began)


@pytest.mark.parametrize("in_use", [True, False])
def test_touch_notes_and_stamps_the_use(bench: Bench, in_use: bool) -> None:
    bench.put(objects.resource("gpu-a", IN_USE="" if in_use else "true"))
    bench.writer.resources.touch(Touch("node-0", "why", "gpu-a", in_use))
    (found,) = node_snapshot(bench.state, "node-0").resources
    assert found.in_use is in_use
    assert found.last_used > 0


def test_annotations_of_others_stay(bench: Bench) -> None:
    raw = objects.resource("gpu-a")
    raw["metadata"]["annotations"]["theirs"] = "x"
    bench.put(raw)
    bench.writer.resources.intent("gpu-a", "machine-0", ["d"])
    bench.writer.resources.forget_intent("gpu-a")
    assert bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["annotations"] == {
        "theirs": "x", cohdi.ATTACH: cohdi.NOT_ASKED}
    assert not cohdi.read_intent(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))[1]


def test_deleted_resource_is_seen_as_leaving_at_once(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.writer.resources.delete("gpu-a")
    assert node_snapshot(bench.state, "node-0").resources[0].deleting
    assert [call.verb for call in bench.api.calls] == ["delete"], "the answer has the object"


def test_resource_that_is_gone_already_is_forgotten(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.api.objects.clear()
    bench.writer.resources.delete("gpu-a")
    assert node_snapshot(bench.state, "node-0").resources == ()


def test_finished_resource_is_gone(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", deleted=True))
    bench.writer.resources.finish("gpu-a")
    assert bench.api.of(COMPOSABLE_RESOURCES) == []
    assert node_snapshot(bench.state, "node-0").resources == ()


def test_finalizers_of_others_stay(bench: Bench) -> None:
    raw = objects.resource("gpu-a", deleted=True)
    raw["metadata"]["finalizers"].append("theirs/finalizer")
    bench.put(raw)
    bench.writer.resources.finish("gpu-a")
    assert bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["finalizers"] == ["theirs/finalizer"]


def test_resource_that_its_agent_changes_at_this_moment_is_finished(bench: Bench) -> None:
    """Seen on a lab: the agent's last evidence came between the detach and its end, which was told as a trouble."""
    raw = objects.resource("gpu-a", deleted=True)
    bench.put(raw)
    both = [*raw["metadata"]["finalizers"], "theirs/one"]
    theirs = {"metadata": {"annotations": {cohdi.NODE: "{}"}, "finalizers": both}}
    bench.api.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", theirs)
    bench.writer.resources.finish("gpu-a")
    found = bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]
    assert (found["finalizers"], found["annotations"][cohdi.NODE]) == (["theirs/one"], "{}")


def test_another_resource_of_the_same_name_is_not_finished(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", deleted=True))
    other = objects.resource("gpu-a")
    other["metadata"]["uid"] = "uid-of-another"
    bench.api.put(COMPOSABLE_RESOURCES, other)
    with pytest.raises(Conflict):
        bench.writer.resources.finish("gpu-a")
    assert bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["finalizers"] == [cohdi.FINALIZER]


def test_finishing_what_is_gone_is_fine(bench: Bench) -> None:
    bench.put(objects.request(), objects.resource("gpu-a"))
    bench.api.objects.clear()
    bench.writer.resources.finish("gpu-a")
    bench.writer.requests.finish("request")
    assert len(bench.state.requests) == len(bench.state.resources) == 0


def test_request_status_is_replaced_and_left_alone_when_equal(bench: Bench) -> None:
    raw = objects.request()
    raw["status"] = {"state": "Updating", "error": "old", "resources": {"gone": {"state": "Online"}}}
    bench.put(raw)
    wanted = {"state": "Running", "scalarResource": {}, "resources": {"gpu-a": {"state": "Online"}}}
    bench.writer.requests.set_status("request", wanted)
    status = bench.api.one(COMPOSABILITY_REQUESTS, "request")["status"]
    assert {key: value for key, value in status.items() if key != "conditions"} == wanted
    bench.writer.requests.set_status("request", wanted)
    assert len(bench.api.writes(COMPOSABILITY_REQUESTS)) == 1


@pytest.mark.parametrize(("seen", "anyway", "written"), [
    ("node-0", False, False), ("node-0", True, True), ("node-1", False, True), (None, False, True)])
def test_pod_is_nominated_when_it_is_not(bench: Bench, seen: str | None, anyway: bool, written: bool) -> None:
    bench.put(objects.pod("train", **({"nominatedNodeName": seen} if seen else {})))
    assert bench.writer.pods.nominate("default", "train", "pod-train", "node-0", anyway)
    assert bool(bench.api.writes(PODS)) is written
    assert bench.api.one(PODS, "train", "default")["status"]["nominatedNodeName"] == "node-0"


def test_pod_that_is_gone_bound_or_another_is_not_alive(bench: Bench) -> None:
    assert not bench.writer.pods.nominate("default", "train", "pod-train", "node-0")
    raw = objects.pod("train")
    bench.put({**raw, "spec": {"nodeName": "node-0"}})
    assert not bench.writer.pods.nominate("default", "train", "pod-train", "node-0")
    bench.put(raw)
    assert not bench.writer.pods.nominate("default", "train", "pod-of-another-life", "node-0")


def test_given_up_allocation_is_dropped_unless_the_claim_changed(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT, pods=()))
    seen = bench.state.claims.value("train", "default")
    assert seen
    bench.api.put(CLAIMS, objects.claim("train", RESULT))
    bench.writer.claims.deallocate(seen)
    assert bench.api.one(CLAIMS, "train", "default")["status"]["allocation"]
    bench.writer.claims.deallocate(read_claim(bench.api.put(CLAIMS, seen.as_object())))
    assert "allocation" not in bench.api.one(CLAIMS, "train", "default")["status"]
    bench.api.objects.clear()
    bench.writer.claims.deallocate(seen)


def test_pool_is_written_in_the_order_replace_create_delete(bench: Bench) -> None:
    bench.put(objects.pool_slice("a100-0", name="kept"), objects.pool_slice("a100-1", name="old"))
    spec = {**objects.pool_slice("a100-0")["spec"], "driver": "gpu.nvidia.com"}
    bench.writer.pools.write(PoolPlan("a100-fabric1", "why", replace={"kept": spec}, create=(spec,), delete=("old",)))
    assert [c.verb for c in bench.api.writes(SLICES)] == ["replace", "create", "delete"]
    body = next(c.body for c in bench.api.calls if c.verb == "create")
    assert body["metadata"] == {"generateName": "gpu.nvidia.com-",
                                "labels": {"app.kubernetes.io/managed-by": "composable.infra"}}


def test_slice_that_somebody_else_changed_is_not_overwritten(bench: Bench) -> None:
    raw = objects.pool_slice("a100-0", name="kept")
    bench.put(raw)
    bench.api.put(SLICES, raw)
    with pytest.raises(Conflict):
        bench.writer.pools.write(PoolPlan("a100-fabric1", "why", replace={"kept": raw["spec"]}))


def test_resource_status_is_merged(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", device="d1"))
    bench.writer.resources.set_status("gpu-a", state="Online", error="")
    assert bench.status() == {"state": "Online", "error": "", "cdi_device_id": "d1"}
    bench.api.fail("merge_patch", COMPOSABLE_RESOURCES, unreachable())
    with pytest.raises(ApiError, match="does not answer"):
        bench.writer.resources.set_status("gpu-a", state="Online")


def test_device_that_is_written_down_is_not_replaced(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", device="first"))
    assert bench.writer.resources.record_device("gpu-a", "second", "GPU-2") == "first"
    assert bench.status()["cdi_device_id"] == "first"


def test_device_of_a_resource_that_cannot_be_read_is_recorded(bench: Bench) -> None:
    raw = objects.resource("gpu-a", state="")
    del raw["spec"]["model"]
    bench.put(raw)
    assert bench.writer.resources.record_device("gpu-a", "d1", "GPU-d1") == "d1"
    assert bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["status"]["cdi_device_id"] == "d1"
    assert bench.state.resources.has("device", "d1")
    assert bench.writer.resources.record_device("gpu-a", "d2", "GPU-d2") == "d1"
