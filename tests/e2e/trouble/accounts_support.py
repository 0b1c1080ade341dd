# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_accounts.py` and others share."""

from __future__ import annotations

import os
import typing as t
from functools import partial

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    GATE_LEASES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.plugin_utils.stack import matrix

Json = dict[str, t.Any]
NAMESPACE, HERE = "composable-infra", "default"
CLASS = "gpu.nvidia.com"
SERIES = os.environ.get("LAB_KUBERNETES", DEFAULT_SERIES)
RULES = ApiResource(f"resource.k8s.io/{matrix.lookup('kubernetes.taint_rules')[SERIES]['version']}",
                    "devicetaintrules", "DeviceTaintRule", False)
Try = t.Callable[[Client], object]


def slice_body(name: str, pool: str, **spec: t.Any) -> Json:
    device = {"name": "a100-0", "bindsToNode": True, "bindingConditions": ["FabricDeviceReady"],
              "bindingFailureConditions": ["FabricDeviceReschedule"]}
    nodes = {} if "nodeName" in spec or "allNodes" in spec else {"nodeSelector": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "cohdi.io/fabric", "operator": "In", "values": ["1"]}]}]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": CLASS, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                     "devices": [device], **nodes, **spec}}


def lease(name: str) -> Json:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}}


def gate_lease(name: str) -> Json:
    spec = {**lease(name)["spec"], "renewTime": "2026-01-02T03:04:05.000000Z"}
    return {**lease(name), "apiVersion": GATE_LEASES.group_version, "kind": GATE_LEASES.kind, "spec": spec}


def resource(name: str) -> Json:
    return {"apiVersion": cohdi.GROUP_VERSION, "kind": "ComposableResource", "metadata": {
        "name": name, "finalizers": [cohdi.FINALIZER], "labels": {cohdi.TARGET_NODE: "node-0"}},
        "spec": {"type": "gpu", "model": "A100", "target_node": "node-0"}}


def rule(name: str, effect: str = "NoSchedule", key: str = "k8s.io/device-uuid", **selector: str) -> Json:
    chosen = selector or {"driver": CLASS, "pool": "node-0", "device": "gpu-0"}
    return {"apiVersion": RULES.group_version, "kind": RULES.kind, "metadata": {"name": name},
            "spec": {"deviceSelector": chosen, "taint": {"key": key, "value": "x", "effect": effect}}}


def merged(kind: ApiResource, name: str, body: Json, namespace: str | None = None, subresource: str | None = None
           ) -> Try:
    return lambda client: client.merge_patch(kind, name, body, namespace, subresource)


device = partial(merged, COMPOSABLE_RESOURCES, "gpu-1")
DEVICE = {"driver": CLASS, "pool": "a100-fabric1", "device": "a100-0"}
CONDITION = {"type": "FabricDeviceReady", "status": "True", "reason": "Tested", "message": "",
             "lastTransitionTime": "2026-01-01T00:00:00Z"}


def notes(*names: str) -> Json:
    return {"metadata": {"annotations": dict.fromkeys(names, "x")}}
