# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the GPU Operator with Kubernetes, its two modes, drivers and CoHDI's operator."""

from __future__ import annotations

from collections.abc import Iterator

from .driver_rules import older_branch
from .findings import Case, Finding, ok, stop, warn
from .matrix import at_least, numbers, series


def gpu_cluster(case: Case) -> Iterator[Finding]:
    """Check for parts that a GPUCluster excludes."""
    if not case.wants("gpu_operator_mode", "gpu_cluster"):
        return
    if case.wants("controllers", "cohdi"):
        yield stop(
            "GPUCluster and CoHDI",
            "CoHDI's operator neither restarts the DRA plugin of a GPUCluster "
            "nor attaches anything without a ClusterPolicy",
            "Set gpu_operator_mode to cluster_policy, or composable_controllers to ours",
        )
    policies = [str(policy["name"]) for policy in case.listed("cluster_policies")]
    if policies:
        yield stop(
            "GPUCluster and ClusterPolicy",
            f"the ClusterPolicy {', '.join(policies)} exists and cannot live beside a GPUCluster",
            "Remove it with gpu_operator_state=absent first, or set gpu_operator_mode to cluster_policy",
        )
    if case.plan.get("dra_driver"):
        yield stop(
            "two DRA drivers",
            "a GPUCluster runs a DRA driver of its own and the chart would bring a second one",
            "Set preflight_dra_driver to false, or gpu_operator_mode to cluster_policy",
        )


def gpu_cluster_needs(case: Case) -> Iterator[Finding]:
    """Check the versions that a GPUCluster needs."""
    if not case.wants("gpu_operator_mode", "gpu_cluster"):
        return
    needs, have = case.matrix["gpu_operator"]["gpu_cluster"], case.cluster.get("kubernetes")
    if not at_least(have, needs["kubernetes"]):
        yield stop(
            "GPUCluster and Kubernetes",
            f"a GPUCluster needs Kubernetes {needs['kubernetes']} and this is {have}",
            f"Upgrade to {needs['kubernetes']}, or set gpu_operator_mode to cluster_policy",
        )
    if found := older_branch(case, "a GPUCluster", needs["driver_branch"]):
        yield stop("GPUCluster and driver", found, f"Set composable_driver_branch to {needs['driver_branch']}")


def cluster_policy(case: Case) -> Iterator[Finding]:
    """Refuse a ClusterPolicy beside a GPUCluster."""
    clusters = [str(found["name"]) for found in case.listed("gpu_clusters")]
    if clusters and case.plan.get("gpu_operator") and case.wants("gpu_operator_mode", "cluster_policy"):
        yield stop(
            "ClusterPolicy and GPUCluster",
            f"the GPUCluster {', '.join(clusters)} exists and cannot live beside a ClusterPolicy",
            "Remove it with gpu_operator_state=absent first, or set gpu_operator_mode to gpu_cluster",
        )


def driver_shape(case: Case) -> Iterator[Finding]:
    """Check that either the host or the operator installs the driver."""
    host, brings = case.wants("driver_shape", "host"), bool(case.plan.get("gpu_operator_driver"))
    if host and brings:
        yield stop(
            "driver",
            "the driver is installed on the hosts and the GPU Operator would install it too",
            "Set gpu_operator_driver to false, or composable_driver_shape to container",
        )
    elif not host and not brings and case.plan.get("gpu_operator"):
        yield stop(
            "driver",
            "no role and no chart installs the driver: the shape is container and gpu_operator_driver is false",
            "Set gpu_operator_driver to true, or composable_driver_shape to host",
        )
    elif brings and not case.wants("platform", "openshift"):
        yield warn(
            "driver",
            "a driver container cannot become ready on a node without a GPU, and is reinstalled "
            "when the first one comes",
            "Prefer composable_driver_shape=host on nodes of a composable fabric",
        )
    elif host and case.wants("platform", "openshift"):
        yield stop(
            "driver",
            "nothing can be installed on the hosts of OpenShift (RHCOS)",
            "Set composable_driver_shape to container",
        )


def operator_and_kubernetes(case: Case) -> Iterator[Finding]:
    """Check the operator's own table of supported versions."""
    have, known = series(case.cluster.get("kubernetes")), case.matrix["gpu_operator"]["kubernetes"]
    if case.plan.get("gpu_operator") and have not in known:
        yield warn(
            "GPU Operator and Kubernetes",
            f"the GPU Operator is not supported on Kubernetes {have}",
            f"Use one of {', '.join(known)}, or another version of the operator",
        )


def operator_upgrade(case: Case) -> Iterator[Finding]:
    """Check that an upgrade skips no release line."""
    installed = [r for r in case.listed("releases") if r["chart"] == case.matrix["charts"]["gpu_operator"]["name"]]
    for release in installed if case.plan.get("gpu_operator") else ():
        lines = case.matrix["gpu_operator"]["majors"]
        old, new = series(release["version"]), series(case.plan.get("gpu_operator_version"))
        if numbers(new) < numbers(old):
            yield stop(
                "GPU Operator upgrade",
                f"{release['version']} is installed and {new} is older",
                "Remove it with gpu_operator_state=absent before you install an older one",
            )
        elif old in lines and new in lines and lines.index(new) - lines.index(old) > 1:
            yield stop(
                "GPU Operator upgrade",
                f"an upgrade from {old} to {new} leaves out a release line",
                f"Set gpu_operator_version to the newest {lines[lines.index(old) + 1]} first",
            )


def one_nfd(case: Case) -> Iterator[Finding]:
    """Check for a single NFD, as two NFDs undo each other's labels."""
    if case.plan.get("nfd") and case.plan.get("gpu_operator_nfd"):
        yield stop(
            "node feature discovery",
            "both the role nfd and the GPU Operator would install it",
            "Set gpu_operator_nfd to false",
        )
    elif case.plan.get("gpu_operator") and not case.plan.get("nfd") and not case.plan.get("gpu_operator_nfd"):
        yield stop(
            "node feature discovery",
            "no role and no chart installs it, and without its labels nothing starts",
            "Set preflight_nfd to true",
        )


def k3s_system(case: Case) -> Iterator[Finding]:
    """Check the systems on which the operator supports ``K3s``."""
    allowed = case.matrix["gpu_operator"]["k3s_systems"]
    strange = [
        str(n["name"]) for n in case.listed("nodes") if not str(n.get("os_image", "")).startswith(tuple(allowed))
    ]
    if case.plan.get("gpu_operator") and case.wants("platform", "k3s") and strange:
        yield warn(
            "GPU Operator and K3s",
            f"on K3s it is supported on {', '.join(allowed)} only, which {', '.join(strange)} is not",
            "Use RKE2 there",
        )


def device_plugin(case: Case) -> Iterator[Finding]:
    """Check that only one driver offers each GPU."""
    if not case.plan.get("gpu_operator_device_plugin"):
        return
    if case.plan.get("dra_driver"):
        yield stop(
            "device plugin and DRA",
            "the device plugin and the DRA driver would both offer the same GPUs",
            "Set gpu_operator_device_plugin to false, or preflight_dra_driver to false",
        )
    else:
        yield ok("device plugin and DRA", "only the device plugin offers GPUs")


def toolkit(case: Case) -> Iterator[Finding]:
    """Check for the runtime class that the operator's own pods need."""
    if case.plan.get("gpu_operator") and not case.plan.get("gpu_operator_toolkit"):
        yield warn(
            "container toolkit",
            "the GPU Operator installs no container toolkit, and GPU Feature Discovery and the validator wait for "
            "its runtime class nvidia",
            "Set gpu_operator_toolkit to true, unless all hosts have a toolkit",
        )


RULES = (
    toolkit,
    gpu_cluster,
    gpu_cluster_needs,
    cluster_policy,
    driver_shape,
    operator_and_kubernetes,
    operator_upgrade,
    one_nfd,
    k3s_system,
    device_plugin,
)
