# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of ProvisioningRequests share: requests, templates, pods, and what the API server shows."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    RESOURCE_CLAIM_TEMPLATES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import provisioning_requests
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, ProvisioningKey
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Json = dict[str, t.Any]
KEY = ProvisioningKey("default", "train")


def serve_requests(bench: Bench) -> None:
    """Let the bench serve ProvisioningRequests."""
    bench.engine.provisioning.enabled = True


def claim_template(count: int = 1, name: str = "gpu") -> Json:
    """A ResourceClaimTemplate for A100s."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": objects.meta(name, "default"), "spec": {"spec": gated_pods.claim("any", count)["spec"]}}


def pod_template(name: str = "worker", **spec: t.Any) -> Json:
    """A PodTemplate whose pods claim devices by the ResourceClaimTemplate ``gpu``."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    made = {"containers": [{"name": "c"}], "schedulerName": "default-scheduler", "resourceClaims": claims, **spec}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": objects.meta(name, "default"),
            "template": {"metadata": {"labels": {"app": "train"}}, "spec": made}}


def request(count: int = 1, name: str = "train", created: float | None = None, **spec: t.Any) -> Json:
    """A ProvisioningRequest for pods of the PodTemplate ``worker``."""
    made = {"provisioningClassName": provisioning_requests.CLASS,
            "podSets": [{"podTemplateRef": {"name": "worker"}, "count": count}], **spec}
    meta = {**objects.meta(name, "default"), "uid": f"uid-of-{name}",
            "creationTimestamp": format_time(time.time() if created is None else created)}
    return {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": meta, "spec": made}


def ask(bench: Bench, count: int = 1, devices: int = 1, **more: t.Any) -> None:
    """Create the templates and the request, and let it be accepted and planned."""
    bench.api.put(RESOURCE_CLAIM_TEMPLATES, claim_template(devices))
    bench.api.put(POD_TEMPLATES, pod_template())
    bench.put(request(count, **more))
    go_on(bench)


def go_on(bench: Bench, name: str = "train", rounds: int = 2) -> None:
    """Work on the request and on the plan of gated pods, as their keys are queued."""
    for _unused in range(rounds):
        bench.reconcile(ProvisioningKey("default", name))
        bench.reconcile(GatesKey())
    bench.reconcile(ProvisioningKey("default", name))


def attach(bench: Bench, name: str = "train") -> None:
    """Let the devices be attached and shown, and the request go on."""
    bench.run(1)
    gated_pods.announce(bench)
    bench.run(1)
    go_on(bench, name)


def conditions(bench: Bench, name: str = "train") -> dict[str, tuple[str, str, str]]:
    """Return (status, reason, message) of each condition at the API server."""
    status = bench.api.one(PROVISIONING_REQUESTS, name, "default").get("status") or {}
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status.get("conditions") or ()}


def true(bench: Bench, name: str = "train") -> set[str]:
    """Return the conditions that are True."""
    return {name for name, (status, *_more) in conditions(bench, name).items() if status == "True"}


def booked(bench: Bench, name: str = "train") -> list[str]:
    """Return the node of each pod in the booking at the API server."""
    seats = provisioning_requests.read(bench.api.one(PROVISIONING_REQUESTS, name, "default")).seats
    return [each.node for each in seats]


def age(bench: Bench, seconds: float, condition: str = "Provisioned", name: str = "train") -> None:
    """Let a condition be older."""
    raw = bench.api.one(PROVISIONING_REQUESTS, name, "default")
    for each in raw["status"]["conditions"]:
        if each["type"] == condition:
            each["lastTransitionTime"] = format_time(time.time() - seconds)
    bench.put(raw)


def consumer(name: str = "pod-a", of: str = "train") -> Json:
    """A gated pod that uses the devices of a request, with its claim ``<name>``."""
    raw = gated_pods.pod(name)
    raw["metadata"]["annotations"] = {provisioning_requests.CONSUMES: of}
    raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    raw["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
    return raw
