# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combinations that cannot work, each with what preflight must say."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.tests.unit.stack.cases import CLAIMS, RULES, host, node, release

Changes = dict[str, t.Any]
COHDI: Changes = {"controllers": "cohdi"}
GPU_CLUSTER: Changes = {"gpu_operator_mode": "gpu_cluster", "dra_driver": False}

# what is wrong: changes of the cluster, changes of the plan, the check that stops, what to change
VENDORS = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
ROW: Changes = {"index": 1, "cdi-model-name": "A100", "k8s-device-name": "a100", "driver-name": "gpu.nvidia.com",
                "dra-attributes": {"productName": "A100"}}
TYPED: Changes = {**ROW, "dra-attributes": {"productName": "A100", "type": "gpu"}}
REFUSED: list[tuple[str, Changes, Changes, str, str]] = [
    ("pool that the vendor's class fails on", {"class_selectors": {"gpu.nvidia.com": [VENDORS]}},
     {"config": {"device_info": [ROW], "fabric": {}}}, "selectors and pools",
     "Add type to the dra-attributes of A100 in device_info"),
    ("no helm for charts", {}, {"helm": ""}, "helm", "Install helm 3, or set composable_helm_binary"),
    ("wrong login", {}, {"login": {"problem": "the CDI Manager refused the login", "reached": True, "said": ""}},
     "CDI Manager", "Correct controllers_config and controllers_credentials"),
    (
        "Kubernetes too old",
        {"kubernetes": "v1.33.5", "served": [], "nodes": [node("a", kubelet="v1.34.0")]},
        {},
        "kubernetes version",
        "Upgrade the cluster to 1.34 or later",
    ),
    ("claims switched off", {"served": []}, {}, "dynamic resource allocation",
     "Remove resource.k8s.io/v1=false from --runtime-config of the API server"),
    (
        "gate off by default",
        {"kubernetes": "v1.35.2"},
        {"handover": "reschedule"},
        "binding conditions",
        "Set --feature-gates=DRADeviceBindingConditions=true on kube-apiserver and kube-scheduler, or set "
        "preflight_handover to gated",
    ),
    (
        "gate switched off",
        {"gates": {"DRADeviceBindingConditions": False}},
        {"handover": "reschedule"},
        "binding conditions",
        "Set --feature-gates=DRADeviceBindingConditions=true on kube-apiserver and kube-scheduler, "
        "or set preflight_handover to gated",
    ),
    (
        "taint rules not served",
        {"served": [CLAIMS]},
        COHDI,
        "device taint rules",
        "Add --runtime-config=resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true to kube-apiserver, and "
        "--feature-gates=DRADeviceTaintRules=true to kube-apiserver, kube-scheduler and "
        "kube-controller-manager, or set composable_controllers to ours",
    ),
    (
        "scheduler that waits for taint rules",
        {"served": [CLAIMS, RULES["v1alpha3"]]},
        {},
        "device taint rules",
        "Add --runtime-config=resource.k8s.io/v1beta2=true to kube-apiserver",
    ),
    (
        "GPUCluster with CoHDI",
        {},
        {**GPU_CLUSTER, **COHDI, "cohdi_device_resource": "DEVICE_PLUGIN", "gpu_operator_dcgm": True},
        "GPUCluster and CoHDI",
        "Set gpu_operator_mode to cluster_policy, or composable_controllers to ours",
    ),
    (
        "GPUCluster beside a ClusterPolicy",
        {"cluster_policies": [{"name": "cluster-policy"}]},
        GPU_CLUSTER,
        "GPUCluster and ClusterPolicy",
        "Remove it with gpu_operator_state=absent first, or set gpu_operator_mode to cluster_policy",
    ),
    (
        "ClusterPolicy beside a GPUCluster",
        {"gpu_clusters": [{"name": "gpu-cluster"}]},
        {},
        "ClusterPolicy and GPUCluster",
        "Remove it with gpu_operator_state=absent first, or set gpu_operator_mode to gpu_cluster",
    ),
    (
        "two DRA drivers",
        {},
        {"gpu_operator_mode": "gpu_cluster"},
        "two DRA drivers",
        "Set preflight_dra_driver to false, or gpu_operator_mode to cluster_policy",
    ),
    (
        "GPUCluster on an early 1.34",
        {"kubernetes": "v1.34.1"},
        GPU_CLUSTER,
        "GPUCluster and Kubernetes",
        "Upgrade to 1.34.2, or set gpu_operator_mode to cluster_policy",
    ),
    (
        "GPUCluster with an old driver",
        {},
        {**GPU_CLUSTER, "driver_branch": 570},
        "GPUCluster and driver",
        "Set composable_driver_branch to 580",
    ),
    (
        "two drivers",
        {},
        {"gpu_operator_driver": True},
        "driver",
        "Set gpu_operator_driver to false, or composable_driver_shape to container",
    ),
    (
        "no driver",
        {},
        {"driver_shape": "container"},
        "driver",
        "Set gpu_operator_driver to true, or composable_driver_shape to host",
    ),
    ("host driver on OpenShift", {}, {"platform": "openshift"}, "driver", "Set composable_driver_shape to container"),
    (
        "older operator",
        {"releases": [release("gpu-operator", "v26.7.0")]},
        {"gpu_operator_version": "v26.3.1"},
        "GPU Operator upgrade",
        "Remove it with gpu_operator_state=absent before you install an older one",
    ),
    (
        "upgrade over a line",
        {"releases": [release("gpu-operator", "v25.10.1")]},
        {},
        "GPU Operator upgrade",
        "Set gpu_operator_version to the newest 26.3 first",
    ),
    ("two NFDs", {}, {"gpu_operator_nfd": True}, "node feature discovery", "Set gpu_operator_nfd to false"),
    ("no NFD", {}, {"nfd": False}, "node feature discovery", "Set preflight_nfd to true"),
    (
        "two ways to a GPU",
        {},
        {"gpu_operator_device_plugin": True},
        "device plugin and DRA",
        "Set gpu_operator_device_plugin to false, or preflight_dra_driver to false",
    ),
    (
        "unknown branch",
        {},
        {"driver_branch": 450},
        "driver branch",
        "Set composable_driver_branch to one of 570, 580, 590, 595, 610",
    ),
    (
        "no version for a driver container",
        {},
        {"driver_branch": 570, "driver_shape": "container", "gpu_operator_driver": True},
        "driver branch",
        "Set composable_driver_branch to one of 580, 595, 610",
    ),
    (
        "driver too old for DRA",
        {},
        {"driver_branch": 550},
        "DRA driver and driver",
        "Set composable_driver_branch to 580",
    ),
    (
        "way back of the DRA driver",
        {"releases": [release("dra-driver-nvidia-gpu", "0.4.1")]},
        {"dra_chart": "nvidia-dra-driver-gpu"},
        "DRA driver downgrade",
        "Keep nvidia_dra_driver_chart_name=dra-driver-nvidia-gpu, or remove it first with no claim prepared",
    ),
    (
        "CoHDI 0.2.0 with the new name",
        {},
        {**COHDI, "cohdi_operator": "0.2.0"},
        "CoHDI and DRA driver",
        "Set nvidia_dra_driver_name_override to nvidia-dra-driver-gpu, or use another version of CoHDI's operator",
    ),
    (
        "CoHDI 0.2.1 with the old name",
        {},
        {**COHDI, "dra_name_override": "nvidia-dra-driver-gpu"},
        "CoHDI and DRA driver",
        "Remove nvidia_dra_driver_name_override, so that they carry dra-driver-nvidia-gpu",
    ),
    ("unknown CoHDI", {}, {**COHDI, "cohdi_operator": "0.9"}, "CoHDI and DRA driver", "Use one of 0.2.0, 0.2.1"),
    (
        "CoHDI without a plugin",
        {},
        {**COHDI, "dra_driver": False},
        "CoHDI and DRA driver",
        "Set preflight_dra_driver to true, or preflight_cohdi_device_resource to DEVICE_PLUGIN",
    ),
    (
        "CoHDI without its agent",
        {},
        {**COHDI, "cohdi_privileged_agent": False},
        "CoHDI and host driver",
        "Set composable-resource-operator.common.deployPrivilegedAgent to true in cohdi_values",
    ),
    (
        "CoHDI's plugin mode without DCGM",
        {},
        {**COHDI, "cohdi_device_resource": "DEVICE_PLUGIN", "dra_driver": False, "gpu_operator_device_plugin": True},
        "CoHDI and DCGM",
        "Set gpu_operator_dcgm to true",
    ),
    (
        "MPS with dynamic MIG",
        {},
        {"dra_feature_gates": {"MPSSupport": True, "DynamicMIG": True}},
        "feature gates of the DRA driver",
        "Remove one of them from nvidia_dra_driver_feature_gates",
    ),
    (
        "slices without a device plugin",
        {},
        {"sharing": "time_slicing"},
        "sharing",
        "Set gpu_operator_device_plugin to true and preflight_dra_driver to false, or gpu_sharing_method to mig or "
        "none",
    ),
    (
        "a node that is none",
        {},
        {"nodes": ["a", "z"]},
        "nodes",
        "Correct preflight_nodes or the inventory's group of GPU nodes",
    ),
    (
        "no provider id",
        {"nodes": [node("a", machine="")]},
        {},
        "machine of a node",
        "Start its kubelet with --provider-id=fsas-cdi://<machine UUID> before it registers (providerID cannot be "
        "changed), or set preflight_mapping to bare_metal_host",
    ),
    (
        "no machine annotation",
        {"nodes": [node("a", machine="")]},
        {"mapping": "bare_metal_host"},
        "machine of a node",
        "Set the annotation cluster-manager.cdi.io/machine on its BareMetalHost",
    ),
    (
        "one machine twice",
        {"nodes": [node("a", machine="m"), node("b", machine="m")]},
        {},
        "machine of a node",
        "Give each node the UUID of its own machine",
    ),
    ("old kubelet", {"nodes": [node("a", kubelet="v1.33.9")]}, {}, "kubelet", "Upgrade it to 1.34 or later"),
    (
        "unknown system",
        {"hosts": [host("a", system="Debian", system_version="13")]},
        {},
        "operating system",
        "Use one of SLES 15, 16; RedHat 9, 10; Ubuntu 22.04, 24.04, or set composable_driver_shape to container",
    ),
    (
        "direct with the gate off by default",
        {"kubernetes": "v1.35.2"},
        {"handover": "direct"},
        "binding conditions",
        "Set --feature-gates=DRADeviceBindingConditions=true on kube-apiserver and kube-scheduler, or set "
        "preflight_handover to gated",
    ),
    (
        "one model direct with the gate off by default",
        {"kubernetes": "v1.35.2"},
        {"config": {"device_info": [{**ROW, "handover": "direct"}]}},
        "binding conditions",
        "Set --feature-gates=DRADeviceBindingConditions=true on kube-apiserver and kube-scheduler, or set "
        "preflight_handover to gated",
    ),
    (
        "direct with CoHDI's components",
        {},
        {**COHDI, "handover": "direct"},
        "handover and controllers",
        "Set composable_controllers to ours, or preflight_handover to reschedule",
    ),
    ("a choice that does not exist", {}, {"handover": "at once"}, "plan", "Set it to one of gated, direct, reschedule"),
    ("no provisioning requests", {}, {"config": {"provisioning_requests": True}}, "provisioning requests",
     "Apply cluster-autoscaler/apis/config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml of kubernetes/autoscaler"
     ", or set provisioning_requests to false"),
]
