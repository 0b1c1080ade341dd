# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster and a plan with which everything is well; tests change one thing of it."""

from __future__ import annotations

import typing as t

PLAN: dict[str, t.Any] = {
    "platform": "kubernetes",
    "controllers": "ours",
    "cohdi_operator": "0.2.1",
    "cohdi_device_resource": "DRA",
    "cohdi_privileged_agent": True,
    "handover": "gated",
    "driver_shape": "host",
    "driver_branch": 580,
    "gpu_operator": True,
    "gpu_operator_mode": "cluster_policy",
    "gpu_operator_version": "v26.7.0",
    "gpu_operator_driver": False,
    "gpu_operator_nfd": False,
    "gpu_operator_device_plugin": False,
    "gpu_operator_toolkit": True,
    "gpu_operator_dcgm": False,
    "nfd": True,
    "dra_driver": True,
    "dra_chart": "dra-driver-nvidia-gpu",
    "dra_name_override": "",
    "dra_feature_gates": {},
    "sharing": "none",
    "mapping": "provider_id",
    "nodes": [],
}
CLAIMS = "resource.k8s.io/v1/resourceclaims"
RULES = {version: f"resource.k8s.io/{version}/devicetaintrules" for version in ("v1alpha3", "v1beta2", "v1")}
SERVED = [CLAIMS, RULES["v1alpha3"], RULES["v1beta2"]]


def node(name: str, **more: t.Any) -> dict[str, t.Any]:
    """A node as it should be."""
    return {
        "name": name,
        "ready": True,
        "machine": f"machine-of-{name}",
        "kubelet": "v1.36.3",
        "os_image": "Ubuntu 24.04.3 LTS",
        **more,
    }


def host(name: str, **more: t.Any) -> dict[str, t.Any]:
    """A prepared host."""
    return {
        "name": name,
        "system": "Ubuntu",
        "system_version": "24.04",
        "cmdline": "quiet pci=realloc=on",
        "nouveau": False,
        "modeset": "N",
        "persistenced": False,
        **more,
    }


def release(chart: str, version: str) -> dict[str, t.Any]:
    """An installed Helm release."""
    return {"name": chart, "namespace": chart, "chart": chart, "version": version, "status": "deployed"}


def cluster(**more: t.Any) -> dict[str, t.Any]:
    """A cluster as it should be."""
    return {
        "kubernetes": "v1.36.3",
        "served": SERVED,
        "gates": {"DRADeviceTaintRules": True},
        "nodes": [node("a"), node("b")],
        "hosts": [host("a")],
        "releases": [],
        "cluster_policies": [],
        "gpu_clusters": [],
        **more,
    }


def plan(**more: t.Any) -> dict[str, t.Any]:
    """A plan that works, changed."""
    return {**PLAN, **more}
