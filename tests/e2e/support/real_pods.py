# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods on real nodes: created, watched, read, and what the kubelet says about them."""

from __future__ import annotations

import functools
from typing import Any

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.names import DRIVER
from ansible_collections.composable.infra.lab.real_nodes.images import WORKLOAD
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


def real_pod(name: str, node: str, **container: Any) -> dict[str, Any]:
    """A pod for one real node; `container`: further fields of its container."""
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": WORKLOAD, **container}],
        },
    }


def run(lab: Lab, *pods: dict[str, Any]) -> list[dict[str, Any]]:
    """Create pods and wait until all are ready; as the API server has them then."""
    for pod in pods:
        lab.api.request("POST", PODS, pod)
    names = [pod["metadata"]["name"] for pod in pods]
    for name in names:
        wait_for(f"the pod {name} is ready", functools.partial(ready, lab, name), 60)
    return [lab.api.get(f"{PODS}/{name}") for name in names]


def ready(lab: Lab, name: str) -> bool:
    """Whether the pod is ready."""
    conditions = lab.api.get(f"{PODS}/{name}")["status"].get("conditions", [])
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def printed(lab: Lab, name: str, container: str = "main") -> str:
    """What the container has printed, through API server and kubelet; waits for both of its lines."""

    def text() -> str:
        found = str(lab.api.get(f"{PODS}/{name}/log?container={container}"))
        return found if found.count("\n") >= 2 else ""

    return str(wait_for(f"output of {name}", text))


def delete(lab: Lab, *names: str) -> None:
    """Delete pods and wait until the kubelet has ended them."""
    for name in names:
        lab.api.remove(f"{PODS}/{name}")
    for name in names:
        wait_for(f"the pod {name} is gone", functools.partial(_absent, lab, f"{PODS}/{name}"), 60)


def claiming_pod(lab: Lab, name: str, node: str) -> dict[str, Any]:
    """A claim for one GPU, created, and a pod for it with a second container beside that has no claim."""
    claim = {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    }
    lab.api.request("POST", CLAIMS, claim)
    pod = real_pod(name, node, resources={"claims": [{"name": "gpu"}]})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    pod["spec"]["containers"].append({"name": "beside", "image": WORKLOAD})
    return pod


def allocate(lab: Lab, claim: str, node: str, device: str) -> None:
    """Write into a claim that it has a device, though the node's slice has none of that name."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    protected = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    lab.api.request("PATCH", f"{CLAIMS}/{claim}", protected, "application/merge-patch+json")
    body = {"status": {"allocation": allocation}}
    lab.api.request("PATCH", f"{CLAIMS}/{claim}/status", body, "application/merge-patch+json")


def delete_with_claims(lab: Lab, *names: str) -> None:
    """Delete pods, and then their claims of the same names."""
    delete(lab, *names)
    for name in names:
        lab.api.request("DELETE", f"{CLAIMS}/{name}")
        wait_for(f"the claim {name} is gone", functools.partial(_absent, lab, f"{CLAIMS}/{name}"))


def _absent(lab: Lab, path: str) -> bool:
    return not lab.api.exists(path)
