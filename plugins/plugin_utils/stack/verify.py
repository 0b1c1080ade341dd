# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a cluster after the installation, by conditions for attaching and detaching devices."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from . import findings
from .findings import Case, Finding, ok, result, stop, warn
from .matrix import matrix
from .node_rules import chosen

DRIVER = "gpu.nvidia.com"
FABRIC = "cohdi.io/fabric"
PRESENT = "nvidia.com/gpu.present"


def installed(case: Case) -> Iterator[Finding]:
    """Check that the planned charts are deployed in the planned version."""
    there = {str(release["chart"]): release for release in case.listed("releases")}
    for chart, version in (case.plan.get("charts") or {}).items():
        release = there.get(chart)
        if release is None:
            yield stop("charts", f"no release of {chart} is installed", "Run the role that installs it")
        elif release["status"] != "deployed" or release["version"].lstrip("v") != str(version).lstrip("v"):
            yield stop(
                "charts",
                f"{chart} is {release['status']} in version {release['version']}, not {version}",
                "Run the role that installs it",
            )
        else:
            yield ok("charts", f"{chart} {version} is deployed")


def operator_ready(case: Case) -> Iterator[Finding]:
    """Check that all operands of the operator are ready."""
    if not case.plan.get("gpu_operator"):
        return
    kind = "GPUCluster" if case.wants("gpu_operator_mode", "gpu_cluster") else "ClusterPolicy"
    found = case.listed("gpu_clusters" if kind == "GPUCluster" else "cluster_policies")
    if not found:
        yield stop("GPU Operator", f"there is no {kind}", "Run the role gpu_operator")
    for item in found:
        if item["state"] == "ready":
            yield ok("GPU Operator", f"{kind} {item['name']} is ready")
        else:
            yield stop(
                "GPU Operator",
                f"{kind} {item['name']} is {item['state'] or 'without a state'}",
                f"Check the pods in its namespace: kubectl get pods -n {case.plan.get('gpu_operator_namespace')}",
            )


def daemon_sets(case: Case) -> Iterator[Finding]:
    """Check that every DaemonSet of the stack is ready on its nodes, which may be none."""
    for item in case.listed("daemon_sets"):
        if item["namespace"] not in (case.plan.get("namespaces") or ()):
            continue
        name = f"{item['namespace']}/{item['name']}"
        if item["ready"] < item["desired"] or not item["current"]:
            yield stop(
                "daemon sets",
                f"{name} is ready on {item['ready']} of {item['desired']} nodes",
                f"Find the reason: kubectl describe daemonset -n {item['namespace']} {item['name']}",
            )
        else:
            yield ok("daemon sets", f"{name} is ready on {item['ready']} nodes")


def device_classes(case: Case) -> Iterator[Finding]:
    """Check that the DeviceClasses of claims exist."""
    if not case.plan.get("dra_driver") and not case.wants("gpu_operator_mode", "gpu_cluster"):
        return
    for name in case.plan.get("device_classes") or (DRIVER,):
        if name in case.listed("device_classes"):
            yield ok("device classes", f"{name} is there")
        else:
            yield stop("device classes", f"there is no DeviceClass {name}", "Run the role nvidia_dra_driver")


def devices(case: Case) -> Iterator[Finding]:
    """Check that each node publishes the devices of its host, which may be none."""
    shown = {str(host["name"]): set(host["gpus"]) for host in case.listed("hosts") if host.get("gpus") is not None}
    for node in chosen(case):
        name = str(node["name"])
        announced = {str(d["uuid"]) for d in case.listed("slices") if d["node"] == name and d["driver"] == DRIVER}
        yield from _compared(name, announced, shown.get(name))


def _compared(name: str, announced: set[str], shown: set[str] | None) -> Iterator[Finding]:
    if shown is not None and shown - announced:
        yield stop(
            "devices",
            f"node {name} shows {', '.join(sorted(shown - announced))}, which is not announced",
            f"Delete the DRA plugin's pod on {name}: it looks for devices only when it starts",
        )
    elif shown is not None and announced - shown:
        yield stop(
            "devices",
            f"node {name} announces {', '.join(sorted(announced - shown))}, which it does not have",
            f"Delete the DRA plugin's pod on {name}: it looks for devices only when it starts",
        )
    else:
        yield ok("devices", f"node {name}: {len(announced)} GPUs, ready to attach")


def node_agents(case: Case) -> Iterator[Finding]:
    """Check that every node on the fabric has a live node agent, if agents do node operations."""
    places = [item["namespace"] for item in case.listed("controllers") if item["node_operations"] == "agent"]
    agents = {agent["node"]: agent for agent in case.listed("agents")}
    for node in case.listed("nodes") if places else ():
        if not (node.get("labels") or {}).get(FABRIC):
            continue
        name, agent = str(node["name"]), agents.get(node["name"])
        if agent and agent["alive"]:
            yield ok("node agents", f"the agent of node {name} lives")
        else:
            held = agent and agent["held"]
            late = f"has not renewed its Lease for {agent['seconds']:.0f} s" if agent and held else "does not run"
            yield stop(
                "node agents",
                f"node {name} is on the fabric and its node agent {late}",
                f"Check its pod: kubectl get pods -n {places[0]} -o wide "
                f"-l app.kubernetes.io/component=node-agent --field-selector spec.nodeName={name}",
            )


def one_way(case: Case) -> Iterator[Finding]:
    """Check that no GPU is offered by both the device plugin and DRA."""
    for node in chosen(case):
        counted = (node.get("allocatable") or {}).get("nvidia.com/gpu", 0)
        if counted and any(d["node"] == node["name"] and d["driver"] == DRIVER for d in case.listed("slices")):
            yield stop(
                "device plugin and DRA",
                f"node {node['name']} offers GPUs twice: {counted} by the device plugin, and by its ResourceSlice",
                "Set gpu_operator_device_plugin to false",
            )


def labels(case: Case) -> Iterator[Finding]:
    """Check that a node with devices has the label by which operands find it."""
    with_devices = {str(d["node"]) for d in case.listed("slices") if d["driver"] == DRIVER}
    for node in chosen(case):
        if node["name"] in with_devices and (node.get("labels") or {}).get(PRESENT) != "true":
            yield warn(
                "labels",
                f"node {node['name']} announces GPUs and lacks {PRESENT}=true",
                "Check NFD's worker and the GPU Operator's logs",
            )


def left_over(case: Case) -> Iterator[Finding]:
    """Check that no taint remains after its device."""
    owners = {f"{item['name']}-taint" for item in case.listed("composable_resources")}
    for name in case.listed("taint_rules"):
        if str(name).endswith("-taint") and name not in owners:
            yield warn(
                "taint rules",
                f"the DeviceTaintRule {name} is left over",
                f"kubectl delete devicetaintrules.resource.k8s.io {name}",
            )
    for device in case.listed("slices"):
        if device["taints"]:
            yield warn(
                "tainted devices",
                f"{device['device']} of node {device['node']} carries {', '.join(device['taints'])}",
                "The DRA driver's log has the reason",
            )


def readable(case: Case) -> Iterator[Finding]:
    """Warn about resources that could not be read, and so were not judged."""
    for problem in case.listed("problems"):
        yield warn("reading", str(problem), "Give the user the right to read it. Otherwise these checks are not made")


RULES = (
    installed,
    operator_ready,
    daemon_sets,
    device_classes,
    node_agents,
    devices,
    one_way,
    labels,
    left_over,
    readable,
)


def judge(cluster: Mapping[str, t.Any], plan: Mapping[str, t.Any]) -> list[Finding]:
    """Return all findings, the stopping ones first."""
    return findings.judge(RULES, Case(cluster, plan, matrix()))


def verify(cluster: Mapping[str, t.Any], plan: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return findings, report and stopping ones in the form for the filter."""
    return result("verify", judge(cluster, plan))
