# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices for a Job are attached by a ProvisioningRequest before its pods exist. There is no Kueue here."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, WORK, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUESTS,
    RESOURCE_CLAIM_TEMPLATES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods, provisioning_requests
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import lead
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, attached, wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"handover": "gated", "nodes": 2, "devices": {A100: 4}, "attach": 1.0,
               "extra": {"provisioning_requests": True}}
JOBS = ApiResource("batch/v1", "jobs", "Job", True)


def template(devices: int) -> Json:
    """The pod template of a Job whose pods claim devices by the ResourceClaimTemplate of that number."""
    container = {"name": WORK, "image": "example.invalid/work:1", "resources": {"claims": [{"name": "gpu"}]}}
    return {"spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{devices}"}]}}


def request(stage: Stage, name: str, count: int, devices: int) -> None:
    """Create a request for pods with devices each, with all that it names."""
    exactly = {"deviceClassName": stage.driver, "allocationMode": "ExactCount", "count": devices}
    meta = {"name": f"gpus-{devices}", "namespace": "default"}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    found = {each["metadata"]["name"] for each in stage.client.list(RESOURCE_CLAIM_TEMPLATES, "default").items}
    if meta["name"] not in found:
        stage.client.create(RESOURCE_CLAIM_TEMPLATES, {"apiVersion": "resource.k8s.io/v1",
                                                       "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec})
    stage.client.create(POD_TEMPLATES, {"apiVersion": "v1", "kind": "PodTemplate", "template": template(devices),
                                        "metadata": {"name": name, "namespace": "default"}})
    stage.client.create(PROVISIONING_REQUESTS, {
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"provisioningClassName": provisioning_requests.CLASS,
                 "podSets": [{"podTemplateRef": {"name": name}, "count": count}]}})


def job(stage: Stage, name: str, count: int, devices: int) -> None:
    """Create a Job whose pods use the devices of the request of its name."""
    made = template(devices)
    made["metadata"] = {"annotations": {provisioning_requests.CONSUMES: name}}
    stage.client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job",
                               "metadata": {"name": name, "namespace": "default"},
                               "spec": {"parallelism": count, "completions": count, "template": made}})


def condition(stage: Stage, name: str, kind: str) -> Json:
    """A condition of a request, empty if it is not there."""
    status = stage.client.get(PROVISIONING_REQUESTS, name, "default").get("status") or {}
    return next((each for each in status.get("conditions") or () if each["type"] == kind), {})


def provisioned(stage: Stage, name: str) -> bool:
    """Whether the devices of a request are attached."""
    return condition(stage, name, "Provisioned").get("status") == "True"


def placed(stage: Stage, name: str) -> list[str]:
    """The nodes of the pods of a Job that run, or have ended. The simulated nodes end them at once."""
    found = [each for each in stage.client.list(PODS, namespace="default").items
             if each["metadata"]["name"].startswith(f"{name}-")]
    return sorted(pods.bound(each) for each in found if pods.phase(each) in ("Running", "Succeeded"))


def asked(controller: front_doors.Process) -> int:
    """How many devices a controller has requested."""
    return controller.text().count(": requested 1 x ")


def end(stage: Stage, name: str) -> None:
    """Delete a Job, its pods, its request and its template."""
    for kind in (PROVISIONING_REQUESTS, POD_TEMPLATES):
        stage.client.delete(kind, name, "default")
    for each in stage.client.list(JOBS, namespace="default").items:
        if each["metadata"]["name"] == name:
            path = JOBS.path(name, "default")
            stage.client.raw("DELETE", path, {"propagationPolicy": "Background"})


def test_job_starts_on_devices_that_are_attached_and_the_next_request_waits(
    stage: Stage, open_process: OpenProcess
) -> None:
    controller = lead(stage, open_process)
    request(stage, "train", count=2, devices=2)
    wait_for("the devices are attached", lambda: provisioned(stage, "train"))
    assert len(attached(stage)) == 4
    assert condition(stage, "train", "Accepted")["status"] == "True"

    request(stage, "other", count=1, devices=2)
    wait_for("the reason why it waits", lambda: condition(stage, "other", "Provisioned"))
    assert condition(stage, "other", "Provisioned")["reason"] == "WaitingForDevices"
    assert A100 in condition(stage, "other", "Provisioned")["message"]
    assert asked(controller) == 4

    job(stage, "train", count=2, devices=2)
    wait_for("both pods run", lambda: len(placed(stage, "train")) == 2)
    nodes = placed(stage, "train")
    booked = wait_for("their node is in the log", lambda: controller.text().count("booked by ProvisioningRequest"))
    assert (len(set(nodes)), booked) == (1, 2)
    wait_for("nothing more is kept for it", lambda: not provisioning_requests.read(
        stage.client.get(PROVISIONING_REQUESTS, "train", "default")).seats)

    # The pods end, and the next request gets two of their devices.
    wait_for("the next request is served", lambda: provisioned(stage, "other"))
    assert asked(controller) == 4
    end(stage, "train")
    end(stage, "other")
    wait_for("all devices are free", lambda: all_free(stage))


def test_next_controller_goes_on_with_what_was_booked(stage: Stage, open_process: OpenProcess) -> None:
    first = lead(stage, open_process)
    request(stage, "train", count=2, devices=2)
    wait_for("the nodes are booked", lambda: provisioning_requests.read(
        stage.client.get(PROVISIONING_REQUESTS, "train", "default")).seats)
    first.kill()
    open_process(front_doors.controller, stage)
    wait_for("the devices are attached", lambda: provisioned(stage, "train"))
    assert len(attached(stage)) == 4
    job(stage, "train", count=2, devices=2)
    wait_for("both pods run", lambda: len(placed(stage, "train")) == 2)
    end(stage, "train")
    wait_for("all devices are free", lambda: all_free(stage))
