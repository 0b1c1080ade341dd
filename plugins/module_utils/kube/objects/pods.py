# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a pod that may be gated (KEP-3521), and select the parts of a pod that are kept."""

from __future__ import annotations

import re
import sys
import typing as t

from ...model.pod import Pod
from ...model.value import Json
from ..watch.parts import header, metadata, picked, shared
from .provisioning_requests import CONSUMES, consumed

GATE: t.Final = "composable.infra/devices"
OPT: t.Final = "composable.infra/gated"
GROUPS: t.Final = ("composable.infra/group", "scheduling.x-k8s.io/pod-group")
GROUP_SIZE: t.Final = "composable.infra/group-size"
# Value of the label: the pods of one Job are the group. Each run of a CronJob is its own group.
OF_JOB: t.Final = "job"
_SIZE: t.Final = re.compile(r"[1-9][0-9]{0,3}")
# Names and UIDs of objects that exist. The API server accepts any text in a reference, and both
# appear in logs and messages.
_NAME: t.Final = re.compile(r"[a-z0-9.-]{1,253}")
_UID: t.Final = re.compile(r"[0-9A-Za-z-]{1,64}")
# Fields of a pod that are read, also by the filters in planning/scheduling.
_CONTAINER: t.Final = ("name", "resources", "ports", "restartPolicy", "restartPolicyRules")
_MOUNT: t.Final = ("bindMountOptions",)
_BOUND: t.Final = ("nodeName", "schedulingGates", "overhead", "resources", "affinity", "hostNetwork", "priority",
                   "resourceClaims")
_UNREAD: t.Final = ("containers", "initContainers", "ephemeralContainers", "volumes")
_STATUS: t.Final = ("phase", "nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus", "resources",
                    "allocatedResources")
# Fields of the status that a Pod has as fields of its own.
_OWN_STATUS: t.Final = frozenset({"phase", "nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus"})
_OWNER: t.Final = ("apiVersion", "kind", "name", "uid", "controller")
# Condition of a pod after its gate was removed without devices.
SERVED: t.Final = "composable.infra/Served"
_CONDITION: t.Final = ("type", "status", "reason", "message")
RESIZE_PENDING: t.Final = "PodResizePending"
_RESIZED: t.Final = ("name", "resources", "allocatedResources")


def held(pod: Json) -> bool:
    """Return whether the pod is gated and has not ended."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or []
    return any(g.get("name") == GATE for g in gates) and not ended(pod)


def foreign(pod: Json) -> list[str]:
    """Return the names of other scheduling gates."""
    return [str(g.get("name")) for g in (pod.get("spec") or {}).get("schedulingGates") or [] if g.get("name") != GATE]


def ended(pod: Json) -> bool:
    """Return whether the pod is deleted, succeeded or failed, and will not run any more."""
    return bool(pod["metadata"].get("deletionTimestamp")) or phase(pod) in ("Succeeded", "Failed")


def wants_devices(pod: Json) -> bool:
    """Return whether it requests devices by claims or by extended resources, which a DeviceClass
    may serve.
    """
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    names = (name for each in containers for name in (each.get("resources") or {}).get("requests") or ())
    return bool(spec.get("resourceClaims")) or any(_is_extended(name) for name in names)


def _is_extended(resource: str) -> bool:
    return resource.startswith("deviceclass.resource.kubernetes.io/") or (
        "/" in resource and "kubernetes.io/" not in resource)


def has_host_access(pod: Json) -> bool:
    """Return whether a container of the pod may open devices of its node without a claim.

    It may if it is privileged or mounts a folder of the node. The level ``baseline`` of Kubernetes'
    Pod Security Standards allows neither.
    """
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return any(volume.get("hostPath") for volume in spec.get("volumes") or ()) or any(
        (each.get("securityContext") or {}).get("privileged") for each in containers)


def phase(pod: Json) -> str:
    """Return ``status.phase``."""
    return str((pod.get("status") or {}).get("phase") or "")


def node(pod: Json) -> str:
    """Return the node to which it is bound, else nominated, else an empty text."""
    return bound(pod) or nominated(pod)


def bound(pod: Json) -> str:
    """Return the node to which it is bound, empty for none."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def nominated(pod: Json) -> str:
    """Return the node to which it is nominated, empty for none."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def unschedulable(pod: Json) -> str:
    """Return kube-scheduler's message if it could not place the pod, else an empty text."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message") or "Unschedulable")
    return ""


def claim_names(pod: Json) -> dict[str, str | None]:
    """Return the pod's ResourceClaims by the entry in ``spec.resourceClaims``, None until created.

    The claim that kube-scheduler made for its extended resources (KEP-5004) has an empty entry.
    """
    status = pod.get("status") or {}
    made = {s.get("name"): s.get("resourceClaimName") for s in status.get("resourceClaimStatuses") or []}
    special = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return {str(e["name"]): e.get("resourceClaimName") or made.get(e["name"])
            for e in (pod.get("spec") or {}).get("resourceClaims") or []} | ({"": special} if special else {})


def group(pod: Json) -> tuple[str, int] | None:
    """Return (namespace/name, number of pods) of the pod's group by label and annotation, None for
    no group.

    If the label is ``job`` on a pod of a Job, the group is that Job: ``namespace/name/uid``. The
    size is 0 if it is missing or not from 1 to 9999.
    """
    meta = pod["metadata"]
    name = _group_name(meta)
    if not name:
        return None
    size = str((meta.get("annotations") or {}).get(GROUP_SIZE) or "")
    of_job = job(pod) if name == OF_JOB else None
    name = f"{of_job['name']}/{of_job['uid']}" if of_job else name
    return f"{meta['namespace']}/{name}", int(size) if _SIZE.fullmatch(size) else 0


def _group_name(meta: Json) -> str:
    labels = meta.get("labels") or {}
    return next((str(labels[key]) for key in GROUPS if labels.get(key)), "")


def job(pod: Json) -> Json | None:
    """Return the reference to the pod's Job, None for none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller") and each.get("kind") == "Job"
                 and str(each.get("apiVersion")).startswith("batch/")
                 and _NAME.fullmatch(str(each.get("name"))) and _UID.fullmatch(str(each.get("uid")))), None)


def removal(uid: str) -> Json:
    """Return a strategic merge patch that removes only this collection's gate from the pod with
    this UID.
    """
    return {"metadata": {"uid": uid}, "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}


def not_served(uid: str, reason: str, now: str) -> Json:
    """Return a strategic merge patch of the pod's status: its gate was removed without devices,
    with the reason.

    It is a condition, since every user who may create pods can write an annotation. ``now``: RFC
    3339.
    """
    told = {"type": SERVED, "status": "False", "reason": "GateReleased", "message": reason, "lastTransitionTime": now}
    return {"metadata": {"uid": uid}, "status": {"conditions": [told]}}


def why_not_served(pod: Json) -> str:
    """Return why the gate of a pod was removed without devices, empty if it was not."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((str(each.get("message") or "") for each in conditions if each.get("type") == SERVED), "")


def read(pod: Json) -> Pod:
    """Return the value of a Pod."""
    kept = trimmed(pod)
    meta, spec, status, names = kept["metadata"], kept["spec"], kept["status"], claim_names(pod)
    return Pod(
        name=meta["name"], namespace=sys.intern(meta["namespace"]), uid=meta["uid"],
        version=str(meta.get("resourceVersion") or ""), created=str(meta.get("creationTimestamp") or ""),
        deleted=str(meta.get("deletionTimestamp") or ""), labels=meta.get("labels") or {},
        node=sys.intern(bound(pod)), nominated=sys.intern(nominated(pod)), phase=sys.intern(phase(pod)),
        held=held(pod), foreign=tuple(foreign(pod)), ended=ended(pod), wants_devices=wants_devices(pod),
        claims=shared(names), group=group(pod), of_job=job(pod) is not None, unschedulable=unschedulable(pod),
        not_served=why_not_served(pod), consumes=consumed(pod),
        spec=shared({name: part for name, part in spec.items() if name != "nodeName"}),
        status=shared({name: part for name, part in status.items() if part and name not in _OWN_STATUS}),
        notes=shared({name: meta[name] for name in ("annotations", "ownerReferences") if name in meta}),
        whole=None if bound(pod) else kept)


def trimmed(pod: Json) -> Json:
    """Return the part of a pod that is kept. All pods are watched, so fields that no decision needs
    are dropped.

    A bound pod keeps only the fields that it needs on its node and its terms about other pods. The
    result is a new object, and ``pod`` does not change.
    """
    spec = pod.get("spec") or {}
    names = _BOUND if spec.get("nodeName") else [name for name in spec if name not in _UNREAD]
    kept = {name: shared(spec[name]) for name in names if name in spec}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            kept[kind] = shared([trimmed_container(each) for each in spec[kind]])
    if "volumes" in spec and not spec.get("nodeName"):
        kept["volumes"] = [_trimmed_volume(each) for each in spec["volumes"]]
    said = metadata(pod)
    if "labels" in pod["metadata"]:
        said["labels"] = shared(pod["metadata"]["labels"])
    if notes := pod["metadata"].get("annotations"):
        said["annotations"] = picked(notes, (GROUP_SIZE, CONSUMES))
    if _group_name(said) and (owner := job(pod)):
        said["ownerReferences"] = [picked(owner, _OWNER)]
    return {**header(pod), "metadata": said, "spec": kept, "status": _trimmed_status(pod)}


def trimmed_container(container: Json) -> Json:
    """Return the part of a container that is kept: requests, and mount options that need a node
    feature.
    """
    kept = picked(container, _CONTAINER)
    if mounts := [picked(each, _MOUNT) for each in container.get("volumeMounts") or () if each.get("bindMountOptions")]:
        kept["volumeMounts"] = mounts
    return kept


def _trimmed_volume(volume: Json) -> Json:
    """Return the name and kind of a volume. Each pod has its own volume for its token."""
    return {key: value if key == "name" or value is None else {} for key, value in volume.items()}


def _trimmed_status(pod: Json) -> Json:
    """Return the status with container resources after an in-place resize (KEP-1287).

    A bound pod keeps only the condition of a pending resize.
    """
    status = pod.get("status") or {}
    kept = picked(status, _STATUS)
    if "conditions" in status:
        kept["conditions"] = [picked(each, _CONDITION) for each in status["conditions"]
                              if not bound(pod) or each.get("type") == RESIZE_PENDING]
    for kind in ("containerStatuses", "initContainerStatuses"):
        if resized := [picked(each, _RESIZED) for each in status.get(kind) or () if each.get("resources")]:
            kept[kind] = resized
    return shared(kept)
