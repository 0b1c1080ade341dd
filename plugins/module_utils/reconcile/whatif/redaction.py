# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the fields of each kind that a capture has: only fields that a planner reads, by name.

A store also trims objects, to save memory. Here the reason is that the file may be given to others.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable

from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ...kube.objects import autoscaling, claims, cohdi, nodes, pods
from ...kube.watch.parts import header, metadata, picked
from ...model.value import Json
from ..timelines.timeline import ANNOTATION as TIMELINES

Keep = Callable[[Json], Json]

LEFT_OUT: t.Final = (
    "Secrets, ConfigMaps except the counts of the controllers, Events except the ends of pods",
    "environment variables, commands, arguments, images and probes of containers",
    "sources of volumes, service accounts, image pull secrets, host aliases",
    "annotations that no planner reads, except timelines of served claims",
    "owners of objects other than pods and special claims, managed fields, labels of claims and slices",
    "parameters of drivers in ResourceClaims and DeviceClasses",
    "addresses, images and system information of nodes",
    "addresses and credentials of API server and CDI Manager",
)
"""Data that a capture never has, as text for people."""

_POD: t.Final = ("nodeName", "schedulingGates", "overhead", "resources", "affinity", "hostNetwork", "hostUsers",
                 "priority", "resourceClaims", "nodeSelector", "tolerations", "topologySpreadConstraints",
                 "schedulerName", "schedulingGroup", "workloadRef", "preemptionPolicy")
_OWNER: t.Final = ("apiVersion", "kind", "name", "uid", "controller")
_CLAIM_STATUS: t.Final = ("reservedFor", "allocation", "devices")
_NOTES: t.Final = (cohdi.ATTACH, cohdi.OPERATION, cohdi.HELD_FOR, cohdi.IN_USE, cohdi.POOL_DEVICE, cohdi.TARGET_NODE,
                   cohdi.RELEASE, cohdi.NODE, cohdi.RECLAIMED, autoscaling.SCALE_UP, autoscaling.RETURN_IDLE, TIMELINES)
# These annotations have CoHDI's label prefix, which is a setting.
_PREFIXED_NOTES: t.Final = (cohdi.DELETE_FIRST, cohdi.LAST_USED)


def keepers(label: Callable[[str], str]) -> dict[ApiResource, Keep]:
    """Return a function for each captured kind that trims an object.

    ``label`` puts CoHDI's prefix before a name.
    """
    notes = (*_NOTES, *map(label, _PREFIXED_NOTES))

    def composable(obj: Json) -> Json:
        return _composable(obj, notes)

    return {NODES: nodes.trimmed, PODS: _pod, NAMESPACES: _namespace, CLAIMS: _claim, SLICES: _slice,
            DEVICE_CLASSES: _device_class, COMPOSABILITY_REQUESTS: composable, COMPOSABLE_RESOURCES: composable}


def _noted(obj: Json, names: Iterable[str]) -> Json:
    """Return those annotations as a part of metadata, or nothing if there are none."""
    found = picked(obj["metadata"].get("annotations") or {}, names)
    return {"annotations": found} if found else {}


def _owned(obj: Json) -> Json:
    owners = [picked(each, _OWNER) for each in obj["metadata"].get("ownerReferences") or ()]
    return {"ownerReferences": owners} if owners else {}


def _pod(pod: Json) -> Json:
    """Trim a pod like a store does, but keep the requirements of a bound pod, because it may need a
    new node."""
    spec = pod.get("spec") or {}
    kept = picked(spec, _POD)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            kept[kind] = [pods.trimmed_container(each) for each in spec[kind]]
    if spec.get("volumes"):
        kept["volumes"] = [_volume(each) for each in spec["volumes"]]
    return {**header(pod), "metadata": {**metadata(pod, "labels"), **_noted(pod, (pods.GROUP_SIZE,)), **_owned(pod)},
            "spec": kept, "status": pods.trimmed(pod)["status"]}


def _volume(volume: Json) -> Json:
    """Keep only the kind of a volume, because some kinds bind a pod to a node."""
    kinds = [kind for kind, value in volume.items() if kind != "name" and value is not None]
    return {"name": volume["name"], **{kind: {} for kind in kinds}}


def _claim(claim: Json) -> Json:
    kept = claims.trimmed(claim)
    meta = {**metadata(claim, "finalizers"), **_noted(claim, (claims.SPECIAL,))}
    status = {**kept["status"]}
    if allocation := status.get("allocation"):
        status["allocation"] = {**allocation, "devices": picked(allocation.get("devices") or {}, ("results",))}
    return {**kept, "metadata": {**meta, **(_owned(claim) if claims.is_special(claim) else {})},
            "spec": _without_parameters(kept["spec"]), "status": picked(status, _CLAIM_STATUS)}


def _without_parameters(spec: Json) -> Json:
    """Keep the requests and constraints. ``config`` is for drivers and may have any content."""
    if "devices" not in spec:
        return {}
    return {"devices": picked(spec["devices"] or {}, ("requests", "constraints"))}


def _slice(item: Json) -> Json:
    return {**header(item), "metadata": metadata(item), "spec": item["spec"]}


def _device_class(obj: Json) -> Json:
    return {**header(obj), "metadata": metadata(obj),
            "spec": picked(obj.get("spec") or {}, ("selectors", "extendedResourceName"))}


def _namespace(obj: Json) -> Json:
    return {**header(obj), "metadata": metadata(obj, "labels")}


def _composable(obj: Json, notes: Iterable[str]) -> Json:
    kept = {**header(obj), "metadata": {**metadata(obj, "labels", "finalizers", "generation"), **_noted(obj, notes)},
            "spec": obj["spec"]}
    return {**kept, "status": obj["status"]} if obj.get("status") else kept
