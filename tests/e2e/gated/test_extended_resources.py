# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that ask for a GPU by an extended resource (KEP-5004), with the real scheduler: served by both handovers, or let
go at once. Kubernetes serves this from 1.36 on.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    changes_asked,
    delete_all,
    mark,
    returned,
    wait_for,
)

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"handover": "gated", "nodes": 2, "devices": {A100: 3}}
GPU, IMPLICIT = "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


@pytest.fixture(autouse=True)
def served(stage: Stage, open_process: OpenProcess) -> Iterator[None]:
    """A controller that gates new pods; the vendor's class serves the resource of the vendor's device plugin."""
    if not stage.policed:
        pytest.skip("the scheduler serves extended resources by devices from 1.36 on")
    stage.client.merge_patch(DEVICE_CLASSES, "gpu.nvidia.com", {"spec": {"extendedResourceName": GPU}})
    open_process(front_doors.controller, stage)
    wait_for("new pods are held", lambda: _holds_new_pods(stage))
    wait_for("all devices are free", lambda: all_free(stage))
    yield
    for node in ("node-0", "node-1"):
        stage.client.merge_patch(NODES, node, _offers(None), subresource="status")
    delete_all(stage)


def _holds_new_pods(stage: Stage) -> bool:
    """By the API server's own answer to a pod that is not stored."""
    return pods.held(stage.client.create(PODS, body("probe"), dry_run=True))


def _offers(count: str | None) -> Json:
    return {"status": {"capacity": {GPU: count}, "allocatable": {GPU: count}}}


def body(name: str, count: int = 1, resource: str = GPU, gated: bool = True) -> Json:
    amount = {resource: str(count)}
    labels = {} if gated else {pods.OPT: "false"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [
                {"name": "work", "image": "example.invalid/work:1", "resources": {"limits": amount}}]}}


def running(stage: Stage, name: str) -> Json:
    """The pod once it runs, empty before."""
    raw = stage.client.get(PODS, name, "default")
    return raw if pods.phase(raw) == "Running" else {}


def special(stage: Stage, pod: Json) -> Json:
    """The claim that the scheduler made for a pod."""
    (found,) = [claim for claim in stage.client.list(CLAIMS, namespace="default").items
                if claims.identity(claim) == f"default/{pod['metadata']['uid']}"]
    return found


def events(stage: Stage, pod: Json) -> list[str]:
    path = "/api/v1/namespaces/default/events"
    return [event["reason"] for event in stage.lab.api.get(path)["items"]
            if event["involvedObject"].get("uid") == pod["metadata"]["uid"]]


@pytest.mark.parametrize("resource", [GPU, IMPLICIT], ids=["explicit", "implicit"])
def test_gated_pod_is_served(stage: Stage, resource: str) -> None:
    since = mark(stage)
    stage.client.create(PODS, body("one", 2, resource))
    pod = wait_for("the pod runs", lambda: running(stage, "one"))
    claim = special(stage, pod)
    assert {result["pool"] for result in claims.results(claim)} == {pods.bound(pod)}, "devices of the node"
    assert len(changes_asked(stage, since)) == 2
    assert "NodeMisjudged" not in events(stage, pod)
    assert "BindingConditionsPending" not in events(stage, pod)
    stage.client.delete(PODS, "one", "default")
    wait_for("the devices are back", lambda: returned(stage))


def test_pods_of_a_burst_get_a_device_each(stage: Stage) -> None:
    since = mark(stage)
    for number in range(3):
        stage.client.create(PODS, body(f"burst-{number}"))
    for number in range(3):
        pod = wait_for(f"pod {number} runs", partial(running, stage, f"burst-{number}"))
        assert "NodeMisjudged" not in events(stage, pod)
    assert len(changes_asked(stage, since)) == 3


def test_pod_that_opts_out_is_served_through_the_pool(stage: Stage) -> None:
    """The scheduler deletes its claim when the binding fails, and makes another; the device stays kept for the pod."""
    since = mark(stage)
    stage.client.create(PODS, body("pooled", gated=False))
    pod = wait_for("the pod runs", lambda: running(stage, "pooled"))
    assert {result["pool"] for result in claims.results(special(stage, pod))} == {pods.bound(pod)}
    assert "BindingConditionsPending" in events(stage, pod)
    assert len(changes_asked(stage, since)) == 1
    assert len(stage.client.list(COMPOSABLE_RESOURCES).items) == 1


def test_node_with_a_device_plugin_is_left_to_the_scheduler(stage: Stage) -> None:
    """Where a device plugin offers the resource the scheduler counts, and nothing is attached for it."""
    for node in ("node-0", "node-1"):
        stage.client.merge_patch(NODES, node, _offers("1"), subresource="status")
    since = mark(stage)
    stage.client.create(PODS, body("plugged"))
    pod = wait_for("the pod runs", lambda: running(stage, "plugged"))
    wait_for("it is said that the pod was let go", lambda: "GateReleased" in events(stage, pod))
    assert changes_asked(stage, since) == []
    assert stage.client.list(CLAIMS, namespace="default").items == []


def test_resource_that_no_class_serves_holds_no_pod(stage: Stage) -> None:
    stage.client.create(PODS, body("other", resource="example.com/fpga"))
    said = wait_for("the scheduler has looked", lambda: pods.unschedulable(stage.client.get(PODS, "other", "default")))
    assert "Insufficient example.com/fpga" in said
    assert not pods.held(stage.client.get(PODS, "other", "default"))


def test_pod_that_asks_for_nothing_of_the_kind_is_never_held(stage: Stage) -> None:
    plain = body("plain")
    plain["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "10m"}}
    assert not pods.held(stage.client.create(PODS, plain, dry_run=True))
