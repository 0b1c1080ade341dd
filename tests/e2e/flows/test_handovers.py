# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three handovers at once in one cluster, with the node agents' own driver, and a model that moves between them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support.flow import waits_for
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    attached,
    delete_all,
    holds_new_pods,
    returned,
)

L40S = "NVIDIA-L40S"
GATED, DIRECT, RESCHEDULE = "gated", "direct", "reschedule"


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Each of three models has its own handover; pods of the namespace are gated, unless their model is not."""
    models = {H100: DIRECT, L40S: RESCHEDULE}
    return stage_factory(nodes=2, devices={A100: 2, H100: 2, L40S: 2}, handover=GATED, driver=OWN_DRIVER, hold=1.0,
                         extra={"handover_models": models})


@pytest.fixture
def empty(stage: Stage, open_process: OpenProcess) -> Iterator[Stage]:
    """Nothing is attached before and after; the controller that a test opened still runs at its end."""
    wait_for("nothing is attached", lambda: returned(stage), 60)
    yield stage
    delete_all(stage)
    wait_for("all devices are free again", lambda: all_free(stage), 60)


def way(timeline: Timeline, name: str) -> str:
    """By which handover a claim got its device."""
    it = timeline.claims[name]
    if it.allocated is None:
        return GATED if it.opened else "idle"
    return DIRECT if it.ready else RESCHEDULE


def kept(stage: Stage) -> list[str]:
    """Models whose devices are pool devices of claims."""
    return [raw["spec"]["model"] for raw in stage.client.list(COMPOSABLE_RESOURCES).items
            if cohdi.annotation(raw, cohdi.POOL_DEVICE)]


def controller(stage: Stage, open_process: OpenProcess, **models: str) -> front_doors.Process:
    """A controller with these handovers; who ran before has ended."""
    named = {"a100": A100, "h100": H100, "l40s": L40S}
    stage.options = replace(stage.options, extra={"handover_models": {named[k]: v for k, v in models.items()}})
    stage.use("fm")
    process = open_process(front_doors.controller, stage)
    wait_for("new pods are held", lambda: holds_new_pods(stage))
    return process


def test_each_model_goes_its_own_way(empty: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    controller(empty, open_process, h100=DIRECT, l40s=RESCHEDULE)
    wait_for("the pools are published", lambda: all_free(empty), 60)
    for name, model in (("a", A100), ("h", H100), ("l", L40S)):
        empty.pod(name, model)
    assert timeline.wait(lambda: timeline.running("a", "h", "l"), 60)
    assert {name: way(timeline, name) for name in "ahl"} == {"a": GATED, "h": DIRECT, "l": RESCHEDULE}
    assert kept(empty) == [H100]
    used = {key for it in timeline.claims.values() for key in it.devices}
    assert len(used) == 3


def test_same_claim_is_served_by_each_handover(empty: Stage, open_process: OpenProcess) -> None:
    specs = []
    for handover in (GATED, DIRECT, RESCHEDULE):
        process = controller(empty, open_process, **({} if handover == GATED else {"a100": handover}))
        wait_for("the pools are published", lambda: all_free(empty), 60)
        timeline = Timeline(empty)
        empty.pod("same", A100)
        assert timeline.wait(partial(timeline.running, "same"), 60), handover
        assert way(timeline, "same") == handover
        timeline.stop()
        specs.append(empty.client.get(CLAIMS, "same", "default")["spec"])
        (device,) = attached(empty).values()
        assert device["model"] == A100
        empty.delete_pod("same")
        wait_for("the device is free again", lambda: all_free(empty), 60)
        process.stop()
    assert specs == [specs[0]] * 3


def test_model_moves_while_its_claims_run(empty: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    first = controller(empty, open_process, h100=DIRECT, l40s=RESCHEDULE)
    empty.pod("before", H100)
    assert timeline.wait(lambda: timeline.running("before"), 60)
    results = claims.results(empty.client.get(CLAIMS, "before", "default"))
    first.stop()
    second = controller(empty, open_process, l40s=DIRECT)
    empty.pod("after", H100)
    empty.pod("late", L40S)
    assert timeline.wait(lambda: timeline.running("after", "late"), 60)
    assert [way(timeline, name) for name in ("before", "after", "late")] == [DIRECT, GATED, DIRECT]
    assert claims.results(empty.client.get(CLAIMS, "before", "default")) == results
    assert sorted(kept(empty)) == sorted([H100, L40S])
    second.stop()
    controller(empty, open_process, h100=DIRECT, l40s=RESCHEDULE)
    empty.delete_pod("before")
    wait_for("its device is free", lambda: kept(empty) == [L40S])
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in empty.client.list(PODS, "default").items}
    assert phases == {"after": "Running", "late": "Running"}


def test_claim_for_two_models_of_two_handovers_is_served(
        empty: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    """As a whole it moves by reschedule: a claim is allocated once, or anew."""
    controller(empty, open_process, h100=DIRECT, l40s=RESCHEDULE)
    cel = [f'device.attributes["{empty.driver}"].productName == "{empty.product(model)}"' for model in (H100, L40S)]
    requests: list[t.Any] = [
        {"name": name, "exactly": {"deviceClassName": empty.driver, "selectors": [{"cel": {"expression": text}}]}}
        for name, text in zip(("first", "second"), cel, strict=True)]
    empty.client.create(CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                                 "metadata": {"name": "both", "namespace": "default"},
                                 "spec": {"devices": {"requests": requests}}})
    empty.pod_only("both")
    assert timeline.wait(lambda: timeline.running("both"), 90)
    assert way(timeline, "both") == RESCHEDULE
    assert kept(empty) == []


def test_group_gets_devices_of_a_direct_model_all_or_none(
        empty: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    controller(empty, open_process, h100=DIRECT, l40s=RESCHEDULE)
    wait_for("the pools are published", lambda: all_free(empty), 60)
    member(empty, "first")
    assert waits_for(empty, "first") == "group default/g has 1 of 2 pods"
    assert returned(empty), "nothing is attached for half a group"
    member(empty, "second")
    assert timeline.wait(lambda: timeline.running("first", "second"), 60)
    assert [way(timeline, name) for name in ("first", "second")] == [GATED, GATED]
    assert kept(empty) == []


def member(stage: Stage, name: str) -> None:
    """A pod of the group ``g`` of two, with a claim for one device of a direct model."""
    stage.claim(name, H100)
    body = pod_body(name, None)
    body["metadata"] |= {"labels": {pods.GROUPS[0]: "g"}, "annotations": {pods.GROUP_SIZE: "2"}}
    stage.client.create(PODS, body)
