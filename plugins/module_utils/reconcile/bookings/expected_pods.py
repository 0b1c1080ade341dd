# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the pods that a ProvisioningRequest expects, so that the planner of gated pods places them.

Such a pod is planned like a gated pod. It is not in the API server, and it has no priority, because
everyone who creates PodTemplates could write one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...kube.api_resources import POD_TEMPLATES, RESOURCE_CLAIM_TEMPLATES
from ...kube.client.verbs import Client
from ...kube.objects import pods
from ...kube.objects import provisioning_requests as requests_of
from ...kube.objects.provisioning_requests import ProvisioningRequest
from ...model.value import Json
from ...planning.scheduling.snapshot import GatedPod, PodGroup


class NotSupported(Exception):
    """The pods of a request cannot be planned. The message says why."""


@dataclass(frozen=True, slots=True)
class ExpectedPod:
    """A pod of a request: number ``number`` of the set ``pod_set``, both from 0."""

    pod: GatedPod
    pod_set: int
    number: int

    @property
    def uid(self) -> str:
        """Return its UID."""
        return self.pod.uid

    @property
    def entries(self) -> dict[str, str]:
        """Return the keys of its claims by entry. The entry of extended resources is empty."""
        named = {entry: str(claim["metadata"]["uid"]) for entry, claim in self.pod.claims.items() if claim}
        return {**named, "": self.pod.ref.special_claim}


def group_key(namespace: str, name: str) -> str:
    """Return the key of the group of a request's pods. No group of pods has such a key."""
    return f"ProvisioningRequest {namespace}/{name}"


def expected_pods(client: Client, request: ProvisioningRequest, now: float) -> tuple[ExpectedPod, ...]:
    """Read the PodTemplates of a request and return its pods with devices.

    Pods that request no device are left out, because no device is attached for them. ``now``: epoch
    seconds from which the pods wait. Raise NotSupported, NotFound for a missing template, or
    another ApiError.
    """
    found: list[tuple[int, int, Json, dict[str, Json]]] = []
    for number, pod_set in enumerate(request.pod_sets):
        template = client.get(POD_TEMPLATES, pod_set.template, request.namespace)["template"]
        specs = _claim_specs(client, request.namespace, template)
        if pods.wants_devices(template):
            found += [(number, each, template, specs) for each in range(pod_set.count)]
    group = PodGroup(group_key(request.namespace, request.name), len(found), 0, False)
    return tuple(_expected(request, which, template, specs, group, now) for *which, template, specs in found)


def _claim_specs(client: Client, namespace: str, template: Json) -> dict[str, Json]:
    """Return the spec of each claim of a PodTemplate by its entry."""
    return dict(_each_claim_spec(client, namespace, template))


def _each_claim_spec(client: Client, namespace: str, template: Json) -> Iterator[tuple[str, Json]]:
    for entry in (template.get("spec") or {}).get("resourceClaims") or ():
        of_template = entry.get("resourceClaimTemplateName")
        if not of_template:
            raise NotSupported(f"resourceClaims entry {entry['name']} names no ResourceClaimTemplate, so its devices "
                               "cannot be attached before the pods exist")
        yield entry["name"], client.get(RESOURCE_CLAIM_TEMPLATES, of_template, namespace)["spec"]["spec"]


def _expected(request: ProvisioningRequest, which: list[int], template: Json, specs: Mapping[str, Json],
              group: PodGroup, now: float) -> ExpectedPod:
    pod_set, number = which
    uid, name = requests_of.pod_uid(request.uid, pod_set, number), f"{request.name}-{pod_set}-{number}"
    spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
    meta = {"name": name, "namespace": request.namespace, "uid": uid,
            "labels": (template.get("metadata") or {}).get("labels") or {}}
    raw = pods.trimmed({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {},
                        "spec": {**spec, "priority": 0, "schedulingGates": [{"name": pods.GATE}]}})
    claims: dict[str, Json | None] = {entry: _claim(request, uid, name, entry, each) for entry, each in specs.items()}
    return ExpectedPod(GatedPod(raw, claims, request.created, group, now), pod_set, number)


def _claim(request: ProvisioningRequest, pod: str, name: str, entry: str, spec: Json) -> Json:
    key = requests_of.claim_uid(request.namespace, pod, entry)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec, "status": {},
            "metadata": {"name": f"{name}-{entry}", "namespace": request.namespace, "uid": key}}
