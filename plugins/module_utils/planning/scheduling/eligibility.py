# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which pods can be planned. A pod with a feature that is not modeled here is released with
the reason.
"""

from __future__ import annotations

from .snapshot import Json

SCHEDULER = "default-scheduler"
SUPPORTED_VOLUMES = frozenset({"emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath", "image"})
"""Volumes that tie a pod to no node."""
NUMERIC_OPERATORS = ("Lt", "Gt")


def unsupported_feature(pod: Json, extended: bool) -> str:
    """Return which feature of a raw pod excludes it on any nodes, empty for none.

    ``extended``: whether it requests an extended resource that a DeviceClass serves.
    """
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return "the pod is being deleted"
    if spec.get("nodeName"):
        return f"the pod is bound to node {spec['nodeName']}"
    if (spec.get("schedulerName") or SCHEDULER) != SCHEDULER:
        return f"the pod's scheduler is {spec['schedulerName']}, not {SCHEDULER}"
    if not spec.get("resourceClaims") and not extended:
        return "the pod has no claim, and no DeviceClass serves a resource that it requests"
    if any(each.get("operator") in NUMERIC_OPERATORS for each in spec.get("tolerations") or ()):
        return "tolerations that compare numbers are not supported"
    return _volumes(spec) or _groups(spec) or _node_features(spec)


def _volumes(spec: Json) -> str:
    for volume in spec.get("volumes") or ():
        kinds = {kind for kind, value in volume.items() if kind != "name" and value is not None}
        if not kinds <= SUPPORTED_VOLUMES:
            return f"volume {volume['name']} has the unsupported kind {', '.join(sorted(kinds - SUPPORTED_VOLUMES))}"
    return ""


def _groups(spec: Json) -> str:
    """Exclude kube-scheduler's own gang scheduling (KEP-4671), and claims of such a group."""
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        return "the pod belongs to a PodGroup of the scheduler's own gang scheduling"
    for claim in spec.get("resourceClaims") or ():
        kinds = set(claim) - {"name", "resourceClaimName", "resourceClaimTemplateName"}
        if kinds:
            return f"resource claim {claim['name']} has the unsupported source {', '.join(sorted(kinds))}"
    return ""


def _node_features(spec: Json) -> str:
    """Exclude features that only nodes with a declared feature run (KEP-5328, Kubernetes 1.36 and
    later).
    """
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        return "host network together with a user namespace is not supported"
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        return "the restart rule RestartAllContainers is not supported"
    mounts = (mount for container in containers for mount in container.get("volumeMounts") or ())
    if any(mount.get("bindMountOptions") for mount in mounts):
        return "bindMountOptions are not supported"
    return ""
