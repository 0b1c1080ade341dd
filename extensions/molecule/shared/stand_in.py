# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scenarios do to an API server in place of others, and what is stored in it.

stand_in.py KUBECONFIG ready|claim|unclaim|attach|detach|publish|split
stand_in.py KUBECONFIG keep|same|left FILE
"""

from __future__ import annotations

import contextlib
import json
import sys
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
    ApiResource,
    Object,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound

POLICIES = ApiResource("nvidia.com/v1", "clusterpolicies", "ClusterPolicy", False)
# what a control plane rewrites by itself
RESTLESS = {"events", "leases", "endpoints", "endpointslices", "flowschemas", "prioritylevelconfigurations"}
Versions = dict[str, t.Any]


def ready(client: Client) -> None:
    """The GPU Operator says that all is ready."""
    client.merge_patch(POLICIES, "cluster-policy", {"status": {"state": "ready"}}, subresource="status")


def claim(client: Client) -> None:
    """The scheduler has allocated a device to a claim."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = _object(CLAIMS, "alive", {"devices": {"requests": [request]}})
    body["metadata"]["namespace"] = "default"
    client.create(CLAIMS, body)
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    client.merge_patch(CLAIMS, "alive", status, "default", "status")


def unclaim(client: Client) -> None:
    """It ends."""
    client.delete(CLAIMS, "alive", "default")


def attach(client: Client) -> None:
    """An operator has a device in hand."""
    spec = {"type": "gpu", "model": "A100 40G", "target_node": "node-0"}
    client.create(COMPOSABLE_RESOURCES, _object(COMPOSABLE_RESOURCES, "gpu-1", spec))


def detach(client: Client) -> None:
    """The device is back in the pool."""
    client.delete(COMPOSABLE_RESOURCES, "gpu-1")


def publish(client: Client) -> None:
    """The publisher promises a device to a node."""
    pool = {"name": "nvidia-a100-40g-fabric", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "pool": pool, "nodeName": "node-0", "devices": [{"name": "gpu-0"}]}
    body = _object(SLICES, "promised", spec)
    body["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "composable.infra"}
    client.create(SLICES, body)
    client.merge_patch(NODES, "node-0", {"metadata": {"labels": {"cohdi.io/nvidia-a100-40g": "true"}}})


def split(client: Client) -> None:
    """The role gpu_sharing has split a node's GPUs."""
    labels = {"nvidia.com/device-plugin.config": "shared", "nvidia.com/mig.config": "all-disabled"}
    client.merge_patch(NODES, "node-0", {"metadata": {"labels": labels}})


def _object(kind: ApiResource, name: str, spec: Object) -> Object:
    return {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def keep(client: Client, path: str) -> None:
    """Write down the versions of all that is stored."""
    Path(path).write_text(json.dumps(stored_versions(client)), encoding="utf-8")


def same(client: Client, path: str) -> None:
    """Nothing was written since the versions were written down."""
    _compare(json.loads(Path(path).read_text(encoding="utf-8")), stored_versions(client))


def left(client: Client, path: str) -> None:
    """The same objects are there as then, and nodes have the same labels; what they hold besides may have changed."""
    before = json.loads(Path(path).read_text(encoding="utf-8"))
    _compare(_names(before), _names(stored_versions(client)))


def _names(versions: Versions) -> Versions:
    return {name: mark if isinstance(mark, dict) else "" for name, mark in versions.items()}


def _compare(before: Versions, now: Versions) -> None:
    changed = [(name, before.get(name), now.get(name)) for name in sorted(before.keys() | now.keys())]
    told = [f"{name}: {old} became {new}" for name, old, new in changed if old != new]
    if told:
        sys.exit("\n".join(told))


def stored_versions(client: Client) -> Versions:
    """By resource, namespace and name: the version of each object; of nodes, which report all the time, the labels."""
    found: Versions = {}
    for path, plural in _listable(client):
        with contextlib.suppress(NotFound):
            for item in client.raw("GET", f"{path}/{plural}").get("items") or ():
                meta = item["metadata"]
                mark = meta.get("labels") or {} if plural == "nodes" else meta.get("resourceVersion", "")
                found[f"{plural} {meta.get('namespace', '')}/{meta['name']}"] = mark
    return found


def _listable(client: Client) -> Iterator[tuple[str, str]]:
    """Path of the group and version, and plural, of everything that the API server can list."""
    groups = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in client.raw("GET", "/apis")["groups"]]
    for path in ("/api/v1", *groups):
        with contextlib.suppress(NotFound):
            for resource in client.raw("GET", path)["resources"]:
                if "list" in resource["verbs"] and resource["name"] not in RESTLESS:
                    yield path, resource["name"]


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb for verb in (ready, claim, unclaim, attach, detach, publish, split, keep, same, left)
}

if __name__ == "__main__":
    VERBS[sys.argv[2]](Client(Connection.load(sys.argv[1])), *sys.argv[3:])
