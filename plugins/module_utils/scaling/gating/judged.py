# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods are judged at all: what would need more than is known here is let go, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from .view import Json

SCHEDULER = "default-scheduler"
HARMLESS_VOLUMES = frozenset({"emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath", "image"})
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
COMPARES = ("Lt", "Gt")


def not_judged(pod: Json, classes: Mapping[str, Json]) -> str:
    """Why the pod cannot be judged, whatever the nodes are; empty when it can."""
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    if spec.get("nodeName"):
        return f"it is bound to node {spec['nodeName']}"
    if (spec.get("schedulerName") or SCHEDULER) != SCHEDULER:
        return f"its scheduler is {spec['schedulerName']}, not {SCHEDULER}"
    if not spec.get("resourceClaims"):
        return "it has no claim"
    return _volumes(spec) or _workload(spec) or _tolerations(spec) or _features(spec) or _extended(spec, classes)


def _volumes(spec: Json) -> str:
    for volume in spec.get("volumes") or ():
        kinds = {kind for kind, value in volume.items() if kind != "name" and value is not None}
        if not kinds <= HARMLESS_VOLUMES:
            return f"volume {volume['name']} is of kind {', '.join(sorted(kinds - HARMLESS_VOLUMES))}"
    return ""


def _workload(spec: Json) -> str:
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        return "it belongs to a PodGroup of the scheduler's own gang scheduling"
    for claim in spec["resourceClaims"]:
        kinds = set(claim) - {"name", "resourceClaimName", "resourceClaimTemplateName"}
        if kinds:
            return f"resource claim {claim['name']} is given by {', '.join(sorted(kinds))}"
    return ""


def _tolerations(spec: Json) -> str:
    compares = any(each.get("operator") in COMPARES for each in spec.get("tolerations") or ())
    return "a toleration compares numbers" if compares else ""


def _features(spec: Json) -> str:
    """What only nodes with a declared feature may run (1.36 and later)."""
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        return "it uses the host's network and a user namespace"
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    rules = (rule for c in containers for rule in c.get("restartPolicyRules") or ())
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        return "a restart rule needs a feature of the node"
    return ""


def _extended(spec: Json, classes: Mapping[str, Json]) -> str:
    """Extended resources that a DeviceClass stands for are claims in disguise."""
    named = {(c.get("spec") or {}).get("extendedResourceName") for c in classes.values()}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    for container in containers:
        for name in (container.get("resources") or {}).get("requests") or ():
            if name in named or name.startswith(CLASS_RESOURCE):
                return f"it asks for {name}, which a DeviceClass serves"
    return ""
