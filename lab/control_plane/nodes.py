# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the lab's Node objects like a kubelet would, with the fabric's machine in the providerID."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.errors import NotYet
from ansible_collections.composable.infra.lab.names import provider_id
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import nodes

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}


def node_object(name: str, kubelet_version: str) -> dict[str, Any]:
    """Return a Node that is ready from the start. kwok keeps it ready."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "lab.composable.infra/simulated": "true",
    }
    info = {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "kwok",
        "kernelVersion": "kwok",
        "kubeProxyVersion": kubelet_version,
        "kubeletVersion": kubelet_version,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "simulated",
        "systemUUID": "",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider_id(name)},
        "status": {
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "127.0.0.1"},
            ],
            "nodeInfo": info,
            "conditions": [_ready_since(datetime.datetime.now(datetime.UTC))],
        },
    }


def create_nodes(api: Api, names: list[str], version: str) -> None:
    """Create all nodes, several at a time."""

    def create(name: str) -> None:
        api.request("POST", "/api/v1/nodes", node_object(name, f"v{version}"))

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(create, names))


def all_ready(api: Api, count: int) -> bool:
    """Return True if `count` nodes are ready and kwok acts as their kubelets. Raise NotYet
    before."""
    listed = api.get("/api/v1/nodes?resourceVersion=0")["items"]
    found = sum(is_ready(node) for node in listed)
    if found < count:
        raise NotYet(f"{found} of {count} nodes are ready")
    if count and not api.get(f"{_LEASES}?limit=1")["items"]:
        raise NotYet("kwok has written no Lease of a node")
    return True


def is_ready(node: dict[str, Any]) -> bool:
    """Return whether a node is Ready and no taint keeps pods away."""
    return nodes.ready(node) and not node.get("spec", {}).get("taints")


def _ready_since(now: datetime.datetime) -> dict[str, str]:
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated",
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
