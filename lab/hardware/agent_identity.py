# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identity of a node agent of the lab: a ServiceAccount token that is bound to a pod of the agent's
node.

So the API server knows the node's name in each request, as if a kubelet had fetched the token. The
pods belong to a DaemonSet, like those of the agents that the role deploys, so a drain leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.control_plane.kubeconfig import token_user, write_kubeconfig

NAMESPACE = "composable-infra"
ACCOUNT = "composable-infra-agent"
_SECONDS = 86400
_NAME = "lab-node-agent"
_LABELS = {"app.kubernetes.io/name": "composable-infra", "app.kubernetes.io/component": _NAME}
_POD = {
    "serviceAccountName": ACCOUNT,
    "automountServiceAccountToken": False,
    "tolerations": [{"operator": "Exists"}],
    "terminationGracePeriodSeconds": 0,
    "containers": [{"name": "agent", "image": "lab.example.com/node-agent:stand-in"}],
}
DAEMON_SET = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{_NAME}"


def agent_pod(node: str) -> dict[str, Any]:
    """Return the pod that an agent's token is bound to. The lab's agents run in a separate
    process."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{_NAME}-{node}",
            "namespace": NAMESPACE,
            "labels": _LABELS,
            # Cluster Autoscaler keeps no node for such a pod, even before a DaemonSet owns it.
            "annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"},
        },
        "spec": {"nodeName": node, **_POD},
    }


def agents_daemon_set(nodes: Sequence[str]) -> dict[str, Any]:
    """Return the DaemonSet that adopts the pods of these nodes. Apply it after the pods exist, so
    that it creates none."""
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": _LABELS}, "spec": {**_POD, "affinity": affinity}},
        },
    }


def agent_token(api: Api, node: str) -> str:
    """Return a token as the node's kubelet would fetch it. Raise ApiRefusal without the
    ServiceAccount."""
    pod = api.apply(agent_pod(node))["metadata"]
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": _SECONDS,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]},
        },
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    return str(api.request("POST", path, body)["status"]["token"])


def agent_kubeconfig(api: Api, state_dir: Path, ca: Path, node: str) -> Path:
    """Write and return the kubeconfig of a node's agent."""
    target = state_dir / "kubeconfigs" / f"agent-{node}.yaml"
    return write_kubeconfig(target, api.server, ca, ACCOUNT, token_user(agent_token(api, node)), "lab", NAMESPACE)
