# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of the plugin's stand-in for real nodes, with the names and labels of NVIDIA's chart
0.4.

Its image has no Python. The pod uses interpreter and sources of the machine through read-only
volumes.
"""

from __future__ import annotations

import sys
from typing import Any

from ansible_collections.composable.infra.lab.control_plane.components import REAL_NODE_LABEL
from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.real_nodes.images import WORKLOAD
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE
from ansible_collections.composable.infra.lab.real_nodes.python_image import (
    interpreter_environment,
    interpreter_folders,
)

NAMESPACE = "dra-driver-nvidia-gpu"
NAME = "dra-driver-nvidia-gpu-kubelet-plugin-real"
LABELS = {
    "app.kubernetes.io/name": "dra-driver-nvidia-gpu",
    "dra-driver-nvidia-gpu-component": "kubelet-plugin",
}
_ACCOUNT = "dra-driver-nvidia-gpu-service-account-kubeletplugin-real"
_ROLE = "lab:real-plugin"
_WRITTEN = ("/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi")


def documents(server: str, start_seconds: float) -> list[dict[str, Any]]:
    """Return all objects in the order to apply them. `server` is the URL of the API server."""
    account = {"name": _ACCOUNT, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        _role(),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _ROLE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        _daemon_set(server, start_seconds),
    ]


def _role() -> dict[str, Any]:
    slices = ["get", "list", "watch", "create", "update", "delete"]
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": slices},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _ROLE},
        "rules": rules,
    }


def _daemon_set(server: str, start_seconds: float) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": _pod(server, start_seconds)},
        },
    }


def _pod(server: str, start_seconds: float) -> dict[str, Any]:
    read, written = [*interpreter_folders(), HARDWARE], list(_WRITTEN)
    paths = [*read, *written]
    mounts = [{"name": f"v{n}", "mountPath": path, "readOnly": path in read} for n, path in enumerate(paths)]
    command = [sys.executable, "-m", __package__, f"--server={server}", f"--hardware={HARDWARE}"]
    command += ["--node=$(NODE_NAME)", f"--start-seconds={start_seconds:g}"]
    name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    told = {"PYTHONPATH": import_path(), **interpreter_environment()}
    return {
        "serviceAccountName": _ACCOUNT,
        "nodeSelector": {REAL_NODE_LABEL: "true"},
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 5,
        "volumes": [{"name": f"v{n}", "hostPath": {"path": path}} for n, path in enumerate(paths)],
        "containers": [
            {
                "name": "gpus",
                "image": WORKLOAD,
                "command": command,
                "env": [name, *({"name": key, "value": value} for key, value in told.items())],
                "securityContext": {"privileged": True},
                "volumeMounts": mounts,
            }
        ],
    }
