# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passes on a fake cluster and a fake manager: the way of one claim, and what goes wrong on it."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused, Unavailable, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    NodeKey,
    NodeRecordsKey,
    PoolKey,
    RequestKey,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import controller
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.recorder import TimelineRecorder
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import of_resource
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

DENIED = Forbidden(403, "Forbidden", "denied")


def told(bench: Bench, name: str = "train") -> list[str]:
    """Conditions of a claim."""
    devices = bench.api.one(CLAIMS, name, "default")["status"].get("devices") or []
    return [c["type"] for d in devices for c in d["conditions"]]


def waiting(name: str = "train", *devices: str) -> dict[str, t.Any]:
    """A claim that waits for pool devices."""
    return objects.claim(name, *[objects.pool_result(d) for d in devices or ("a100-0",)])


def online(bench: Bench, name: str = "gpu-a", number: int = 1, **more: t.Any) -> None:
    """A device that is attached, visible and idle."""
    bench.fabric.attached[f"d{number}"] = device(f"d{number}")
    bench.put(objects.resource(name, device=f"d{number}", serial=f"GPU-d{number}", asked=900, state="Online", **more))


def test_way_of_one_claim(bench: Bench) -> None:
    bench.put(waiting(), objects.pod())
    bench.run()
    (request,) = bench.api.of(COMPOSABILITY_REQUESTS)
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert request["spec"]["resource"]["size"] == 1
    assert resource["metadata"]["labels"][cohdi.MANAGED_BY] == request["metadata"]["name"]
    assert len(bench.fabric.attaches) == 1
    assert told(bench) == []
    bench.put(objects.local_slice("GPU-d1"))
    bench.run()
    assert told(bench) == [objects.RESCHEDULE]
    assert bench.api.one(PODS, "train", "default")["status"]["nominatedNodeName"] == "node-0"
    assert bench.status(resource["metadata"]["name"])["state"] == "Online"
    assert bench.api.one(COMPOSABILITY_REQUESTS, request["metadata"]["name"])["status"]["state"] == "Running"
    assert len(bench.fabric.attaches) == 1


def test_pod_is_nominated_before_the_scheduler_is_told(bench: Bench) -> None:
    bench.put(waiting(), objects.pod(), objects.request(), objects.local_slice("GPU-d1"))
    online(bench)
    bench.run()
    kinds = [c.plural for c in bench.api.writes() if c.plural in ("pods", "resourceclaims")]
    assert kinds == ["pods", "resourceclaims"]


def test_device_on_its_way_to_a_claim_is_held_for_it(bench: Bench) -> None:
    bench.put(waiting(), objects.request(), objects.local_slice("GPU-d1"))
    online(bench)
    bench.run()
    bench.put(waiting("second"))
    bench.run(1)
    assert told(bench, "second") == []
    (first,) = [r for r in node_snapshot(bench.state, "node-0").resources if r.name == "gpu-a"]
    assert (first.held_for, first.hold_alive) == ("uid-train", True)
    assert cohdi.read_hold(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))[0] == "uid-train"


def test_device_released_a_moment_ago_is_held_for_the_next_claim(bench: Bench) -> None:
    bench.put(waiting(), objects.request(), objects.local_slice("GPU-d1"))
    online(bench, IN_USE="true")
    bench.reconcile(NodeKey("node-0"))
    assert told(bench) == [objects.RESCHEDULE]
    assert node_snapshot(bench.state, "node-0").resources[0].hold_alive
    bench.reconcile(NodeRecordsKey("node-0"))
    (seen,) = node_snapshot(bench.state, "node-0").resources
    assert (seen.hold_alive, seen.in_use) == (True, False)
    assert cohdi.read_hold(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))[0] == "uid-train"


def test_two_devices_of_one_claim_are_asked_for_together(bench: Bench) -> None:
    bench.put(waiting("train", "a100-0", "a100-1"))
    bench.run()
    assert len(bench.fabric.attaches) == 2
    assert {r["status"]["cdi_device_id"] for r in bench.api.of(COMPOSABLE_RESOURCES)} == {"d1", "d2"}


def test_second_run_changes_nothing(bench: Bench) -> None:
    bench.put(waiting())
    bench.run()
    before, asked = len(bench.api.writes()), len(bench.fabric.attaches)
    bench.run()
    assert len(bench.api.writes()) == before
    assert len(bench.fabric.attaches) == asked


def test_reply_lost_device_found(bench: Bench) -> None:
    bench.put(waiting())
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.run(1)
    bench.fabric.attached["d7"] = device("d7")
    bench.run()
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert resource["status"]["cdi_device_id"] == "d7"
    assert len(bench.fabric.attaches) == 1


def test_reply_lost_and_nothing_there_is_not_asked_again_yet(bench: Bench) -> None:
    bench.put(waiting())
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.run()
    assert len(bench.fabric.attaches) == 1
    assert any(key == NodeKey("node-0") for key, _unused in bench.later)


def test_device_that_left_since_the_last_look_may_come_back_for_a_lost_reply(bench: Bench) -> None:
    """``d1`` was detached a moment ago; the manager attaches it again and the reply is lost."""
    bench.fabric.attached["d1"] = device("d1")
    bench.look()
    bench.fabric.attached.clear()
    bench.put(waiting())
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.reconcile(NodeKey("node-0"))
    bench.idle()
    bench.fabric.attached["d1"] = device("d1")
    bench.run()
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert resource["status"].get("cdi_device_id") == "d1"


def test_device_of_a_stranger_since_the_last_look_is_not_adopted(bench: Bench) -> None:
    bench.look()
    bench.fabric.attached["stranger"] = device("stranger")
    bench.put(waiting())
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.reconcile(NodeKey("node-0"))
    bench.idle()
    bench.run()
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert "cdi_device_id" not in resource["status"]


def test_model_that_has_run_out_fails_the_claim_with_the_reason(bench: Bench) -> None:
    bench.put(waiting(), objects.node("node-0", **{"cohdi.io/a100": "true"}))
    bench.fabric.answers = [Refused("E02: no free device", exhausted=True)]
    bench.run()
    devices = bench.api.one(CLAIMS, "train", "default")["status"]["devices"]
    assert devices[0]["conditions"][0]["type"] == objects.FAILED
    assert "E02: no free device" in devices[0]["conditions"][0]["message"]
    assert "cohdi.io/a100" not in bench.api.one(NODES, "node-0")["metadata"]["labels"]


def test_labels_open_the_node(bench: Bench) -> None:
    bench.run()
    assert bench.api.one(NODES, "node-0")["metadata"]["labels"] == {
        "cohdi.io/fabric": "1", "cohdi.io/a100": "true", "cohdi.io/h100": "true", "cohdi.io/t4": "true"}


def test_force_detach_of_a_request_goes_to_its_resources(bench: Bench) -> None:
    bench.put(waiting(), objects.request(size=1, force_detach=True))
    bench.run()
    (resource,) = bench.api.of(COMPOSABLE_RESOURCES)
    assert resource["spec"].get("force_detach") is True


def test_resource_of_a_request_without_a_node_is_no_orphan(bench: Bench) -> None:
    raw = objects.request("theirs")
    del raw["spec"]["resource"]["target_node"]
    bench.put(raw, objects.local_slice("GPU-d1"))
    online(bench, request="theirs", created=5)
    bench.run()
    assert "deletionTimestamp" not in bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]


def test_idle_device_past_its_hold_is_returned(bench: Bench) -> None:
    bench.put(objects.request(), objects.local_slice("GPU-d1"))
    online(bench, created=1000)
    bench.run(4)
    assert bench.fabric.detaches == [("machine-0", "d1")]
    bench.put(objects.local_slice())
    bench.run()
    assert bench.api.of(COMPOSABLE_RESOURCES) == []
    assert bench.api.one(COMPOSABILITY_REQUESTS, "request")["spec"]["resource"]["size"] == 0


def test_refused_detach_is_not_tried_again_at_once(bench: Bench) -> None:
    bench.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    bench.put(objects.request(size=0), objects.local_slice("GPU-d1"))
    online(bench, deleted=True)
    bench.run(4)
    assert len(bench.told("DetachRefused")) == 1
    assert next_turn(bench) > time.time() + 2


def next_turn(bench: Bench) -> float:
    """The latest moment at which the node is looked at again."""
    return max((when for key, when in bench.later if key == NodeKey("node-0")), default=0.0)


def test_turn_of_a_refused_detach_is_kept_by_each_pass(bench: Bench) -> None:
    """A queue keeps the earlier of two appointments: a pass that does not name its turn would lose it."""
    bench.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    bench.put(objects.request(size=0), objects.local_slice("GPU-d1"))
    online(bench, deleted=True)
    bench.run(2)
    turn = next_turn(bench)
    bench.later.clear()
    bench.run(1)
    assert next_turn(bench) == turn


def test_label_that_cannot_be_written_stops_no_claim(bench: Bench) -> None:
    bench.api.fail("merge_patch", NODES, DENIED)
    bench.put(waiting())
    bench.run()
    assert len(bench.fabric.attaches) == 1


def test_claim_that_cannot_be_marked_stops_no_other(bench: Bench) -> None:
    bench.put(objects.node("node-0", **{"cohdi.io/fabric": "1", "cohdi.io/a100": "true", "cohdi.io/h100": "true",
                                        "cohdi.io/t4": "true"}))
    bench.put(waiting("bad"), waiting("good", "a100-1"), objects.request(), objects.local_slice("GPU-d1"))
    bench.api.fail("apply", CLAIMS, DENIED, name="bad")
    online(bench)
    bench.run()
    assert len(bench.fabric.attaches) == 1
    assert bench.told("Trouble") == ["denied"]
    assert NodeKey("node-0") in [key for key, _unused in bench.later]


def test_manager_that_does_not_answer_stops_no_claim_whose_device_is_there(bench: Bench) -> None:
    bench.put(waiting(), objects.request(size=2), objects.local_slice("GPU-d1"))
    online(bench)
    bench.put(objects.resource("gpu-unanswered", asked=3))
    bench.fabric.machine_error = Unavailable("the CDI Manager does not answer")
    bench.run()
    assert told(bench) == [objects.RESCHEDULE]


def test_trouble_is_told_once_and_its_end_too(bench: Bench) -> None:
    bench.put(waiting())
    bench.api.fail("create", COMPOSABLE_RESOURCES, DENIED)
    bench.reconcile(NodeKey("node-0"))
    bench.reconcile(NodeKey("node-0"))
    assert bench.told("Trouble") == ["denied"]
    bench.api.heal()
    bench.reconcile(NodeKey("node-0"))
    assert bench.told("Recovered") == ["the problem is over: denied"]


def test_request_and_node_that_are_gone_are_nothing(bench: Bench) -> None:
    for key in (RequestKey("gone"), NodeKey("gone")):
        bench.reconcile(key)
    assert bench.api.writes() == []


def test_pool_pass_publishes(bench: Bench) -> None:
    bench.reconcile(PoolKey(A100, 1))
    (slice_,) = bench.api.of(SLICES)
    assert [d["name"] for d in slice_["spec"]["devices"]] == ["a100-0", "a100-1", "a100-2", "a100-3"]
    assert bench.told("PoolPublished") == ["4 devices, generation 1 (4 free, 0 allocated, 0 of them attached)"]
    bench.reconcile(PoolKey(A100, 1))
    assert len(bench.api.writes(SLICES)) == 1


def test_request_pass_says_why_nothing_comes(bench: Bench) -> None:
    bench.put(objects.request())
    bench.state.blocks.block("node-0", A100, 60, "no free device")
    bench.reconcile(RequestKey("request"))
    status = bench.api.one(COMPOSABILITY_REQUESTS, "request")["status"]
    assert (status["state"], status["error"]) == ("Updating", "no free device")


def test_status_of_a_request_is_written_once_when_its_last_device_has_gone(bench: Bench) -> None:
    bench.put(objects.request(), objects.resource("gpu-a", device="d"))
    bench.reconcile(RequestKey("request"))
    bench.drop(objects.resource("gpu-a", device="d"))
    before = len(bench.api.writes(COMPOSABILITY_REQUESTS))
    for _twice in range(2):
        bench.reconcile(RequestKey("request"))
    assert len(bench.api.writes(COMPOSABILITY_REQUESTS)) == before + 1
    assert "resources" not in bench.api.one(COMPOSABILITY_REQUESTS, "request")["status"]


def timelines_with_train(bench: Bench) -> TimelineRecorder:
    """The claim train was served on node-0, and its pod runs: its timeline is due."""
    claim_steps, claim = bench.claim_steps, bench.api.one(CLAIMS, "train", "default")
    claim_steps.took("attach", [ClaimRef.of(claim)], 90.0, 95.0)
    claim_steps.over([read_claim(claim)], node="node-0")
    claim_steps.timelines.running([ClaimRef.of(claim)])
    return claim_steps.timelines


def test_timeline_waits_for_the_device_of_a_claim_whose_allocation_is_not_seen_yet(bench: Bench) -> None:
    """The watch of the pods told first that it runs."""
    bench.put(objects.claim("train"), objects.local_slice("GPU-d1"))
    online(bench)
    timelines = timelines_with_train(bench)
    bench.later.clear()
    bench.reconcile(NodeRecordsKey("node-0"))
    assert [key for key, _when in bench.later] == [NodeRecordsKey("node-0")], "it looks again"
    bench.put(objects.claim("train", objects.local_result()))
    bench.reconcile(NodeRecordsKey("node-0"))
    (timeline,) = of_resource(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))
    assert timeline.claim == "default/train"
    assert timelines.to_write("node-0") == []


def test_timeline_of_a_claim_that_never_shows_a_device_is_counted_without_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "START_SECONDS", 0.0)
    bench.put(objects.claim("train"), objects.local_slice("GPU-d1"))
    online(bench)
    timelines = timelines_with_train(bench)
    bench.later.clear()
    bench.reconcile(NodeRecordsKey("node-0"))
    assert (timelines.to_write("node-0"), bench.later) == ([], [])


def test_use_and_timeline_of_a_device_are_one_write(bench: Bench) -> None:
    bench.put(objects.claim("train", objects.local_result()), objects.local_slice("GPU-d1"))
    online(bench)
    timelines = timelines_with_train(bench)
    before = len(bench.api.calls)
    bench.reconcile(NodeRecordsKey("node-0"))
    written = [call.body["metadata"]["annotations"] for call in bench.api.calls[before:]
               if (call.verb, call.plural) == ("merge_patch", "composableresources") and not call.subresource]
    assert len(written) == 1
    assert written[0][cohdi.IN_USE] == "true"
    (timeline,) = of_resource(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))
    assert (timeline.claim, timeline.spans[0].step) == ("default/train", "attach")
    assert timelines.to_write("node-0") == []
    bench.reconcile(NodeRecordsKey("node-0"))
    assert len(of_resource(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))) == 1
