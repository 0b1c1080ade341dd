# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of the vendor's DRA plugin, as in its chart 0.4. kwok simulates the pods."""

from __future__ import annotations

from typing import Any

NAMESPACE = "dra-driver-nvidia-gpu"
NAME = "dra-driver-nvidia-gpu-kubelet-plugin"
# Source: the chart's templates/_helpers.tpl, templateLabels and selectorLabels.
LABELS = {"app.kubernetes.io/name": "dra-driver-nvidia-gpu", "dra-driver-nvidia-gpu-component": "kubelet-plugin"}
_ACCOUNT = "dra-driver-nvidia-gpu-service-account-kubeletplugin"
_IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1"


def documents() -> list[dict[str, Any]]:
    """Return Namespace, ServiceAccount and DaemonSet in the order to apply them."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT, "namespace": NAMESPACE}},
        _daemon_set(),
    ]


def _daemon_set() -> dict[str, Any]:
    pod = {
        "serviceAccountName": _ACCOUNT,
        "automountServiceAccountToken": False,
        "nodeSelector": {"lab.composable.infra/simulated": "true"},
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "gpus", "image": _IMAGE}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        },
    }
