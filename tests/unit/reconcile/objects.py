# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raw Kubernetes objects as the API server returns them, with only what a test is about left to say."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time, format_time
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER

Json = dict[str, t.Any]
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"


def meta(name: str, namespace: str = "", **more: t.Any) -> Json:
    """Metadata with a uid and a time of creation five minutes ago."""
    found = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1",
             "creationTimestamp": format_time(time.time() - 300), **more}
    return {**found, "namespace": namespace} if namespace else found


def node(name: str = "node-0", machine: str | None = "machine-0", **labels: str) -> Json:
    """A node; the machine's uid is in its providerID."""
    spec = {"providerID": f"fsas-cdi://{machine}"} if machine else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta(name, labels=dict(labels)), "spec": spec}


def pool_result(device: str = "a100-0", pool: str = "a100-fabric1", driver: str = DRIVER, **more: t.Any) -> Json:
    """An allocation result that waits for binding conditions."""
    return {"request": "r", "driver": driver, "pool": pool, "device": device, "bindingConditions": [READY],
            "bindingFailureConditions": [RESCHEDULE, FAILED], **more}


def local_result(device: str = "gpu-0", pool: str = "node-0") -> Json:
    """An allocation result for a node's own device."""
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": device}


def claim(name: str = "train", *results: Json, node: str | None = "node-0", pods: t.Sequence[str] | None = None,
          age: float = 5.0, **status: t.Any) -> Json:
    """An allocated claim, reserved for a pod of its name; no ``results``: not allocated."""
    found: Json = {"reservedFor": [{"resource": "pods", "name": p, "uid": f"pod-{p}"}
                                   for p in ([name] if pods is None else pods)], **status}
    if results:
        found["allocation"] = {"devices": {"results": list(results)},
                               "allocationTimestamp": format_micro_time(time.time() - age)}
        if node:
            found["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta(name, "default"),
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            "status": found}


POD_GROUP: Json = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"}
"""A PodGroup of the scheduler that a claim is reserved for (KEP-5729)."""


def told(result: Json, kind: str, message: str = "", status: str = "True") -> Json:
    """An entry of ``status.devices`` with one condition."""
    return {**{k: result[k] for k in ("driver", "pool", "device")},
            "conditions": [{"type": kind, "status": status, "reason": "R", "message": message,
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


def local_slice(*uuids: str, node: str = "node-0") -> Json:
    """The node's own slice; devices ``gpu-0``, ``gpu-1``, … with these UUIDs."""
    devices = [{"name": f"gpu-{i}", "attributes": {"uuid": {"string": u}}} for i, u in enumerate(uuids)]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta(f"slice-{node}"),
            "spec": {"driver": DRIVER, "nodeName": node, "devices": devices,
                     "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}}


def pool_slice(*devices: str, pool: str = "a100-fabric1", name: str = "pool-slice", generation: int = 1) -> Json:
    """A slice of a pool with these device names."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta(name),
            "spec": {"driver": DRIVER, "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
                     "nodeSelector": {"nodeSelectorTerms": []}, "devices": [{"name": d} for d in devices]}}


def request(name: str = "request", size: int = 1, model: str = A100, node: str = "node-0", **more: t.Any) -> Json:
    """A ComposabilityRequest; ``more`` goes into its spec."""
    body = cohdi.request_body(name, node, model, size)
    body["spec"]["resource"].update(more)
    return {**body, "metadata": {**meta(name), **body["metadata"]}}


def resource(name: str = "gpu-a", *, device: str = "", serial: str = "", asked: float | None = None,
             machine: str = "machine-0", present: t.Iterable[str] = (), state: str = "Attaching", node: str = "node-0",
             model: str = A100, request: str = "request", deleted: bool = False, created: float = 300,
             **annotations: str) -> Json:
    """A ComposableResource. ``asked``, ``created``: seconds ago. Annotations by their constant's name in ``cro``."""
    intent = "" if asked is None else cohdi.attach_intent(machine, time.time() - asked, present)
    body = cohdi.resource_body(name, request, node, model, intent)
    notes = {cohdi.ATTACH: intent} if intent else {}
    notes.update({getattr(cohdi, k): v for k, v in annotations.items()})
    deletion = {"deletionTimestamp": format_time(time.time())} if deleted else {}
    status = {k: v for k, v in (("state", state), ("cdi_device_id", device), ("device_id", serial)) if v}
    born = {"creationTimestamp": format_time(time.time() - created)}
    return {**body, "metadata": {**meta(name), **body["metadata"], "annotations": notes, **deletion, **born},
            "status": status}


def pod(name: str = "train", **status: t.Any) -> Json:
    """A pod without a node that refers to the claim of its name."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name, "default", uid=f"pod-{name}"),
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}, "status": status}
