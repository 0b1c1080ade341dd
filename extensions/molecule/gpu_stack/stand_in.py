# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenario does to the API server in place of others: an operator's status, a scheduler's allocation."""

from __future__ import annotations

import sys

from ansible_collections.composable.infra.plugins.module_utils.kube.client import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import CLAIMS, Resource

POLICIES = Resource("nvidia.com/v1", "clusterpolicies", "ClusterPolicy", False)


def ready(client: Client) -> None:
    """The operator says that all is ready."""
    client.merge_patch(POLICIES, "cluster-policy", {"status": {"state": "ready"}}, subresource="status")


def claim(client: Client) -> None:
    """A claim with a device allocated."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {
        "apiVersion": CLAIMS.group_version,
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [request]}},
        "metadata": {"name": "alive", "namespace": "default"},
    }
    client.create(CLAIMS, body)
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}
    client.merge_patch(
        CLAIMS, "alive", {"status": {"allocation": {"devices": {"results": [result]}}}}, "default", "status"
    )


def unclaim(client: Client) -> None:
    """It ends."""
    client.delete(CLAIMS, "alive", "default")


if __name__ == "__main__":
    {"ready": ready, "claim": claim, "unclaim": unclaim}[sys.argv[2]](Client(Connection.load(sys.argv[1])))
