# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to read a pod that may be held by our scheduling gate (KEP-3521), and what of a pod is worth keeping."""

from __future__ import annotations

import re
import typing as t

Json = dict[str, t.Any]

GATE: t.Final = "composable.infra/devices"
OPT: t.Final = "composable.infra/gated"
GROUPS: t.Final = ("composable.infra/group", "scheduling.x-k8s.io/pod-group")
GROUP_SIZE: t.Final = "composable.infra/group-size"
_SIZE: t.Final = re.compile(r"[1-9][0-9]{0,3}")
_CONTAINER: t.Final = ("name", "resources", "ports", "restartPolicy")
_STATUS: t.Final = ("phase", "conditions", "nominatedNodeName", "resourceClaimStatuses")


def held(pod: Json) -> bool:
    """True while our gate holds the pod and the pod is wanted."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or []
    return any(g.get("name") == GATE for g in gates) and not ended(pod)


def foreign(pod: Json) -> list[str]:
    """Names of the gates of others."""
    return [str(g.get("name")) for g in (pod.get("spec") or {}).get("schedulingGates") or [] if g.get("name") != GATE]


def ended(pod: Json) -> bool:
    """True when it will not run any more: deleted, succeeded or failed."""
    return bool(pod["metadata"].get("deletionTimestamp")) or phase(pod) in ("Succeeded", "Failed")


def phase(pod: Json) -> str:
    """``status.phase``."""
    return str((pod.get("status") or {}).get("phase") or "")


def node(pod: Json) -> str:
    """The node it is bound to, else the one it is nominated to, else empty."""
    return bound(pod) or nominated(pod)


def bound(pod: Json) -> str:
    """The node it is bound to, empty when it is not."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def nominated(pod: Json) -> str:
    """The node it is nominated to, empty when it is not."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def unschedulable(pod: Json) -> str:
    """The scheduler's words when it has tried the pod in vain, else empty."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message") or "Unschedulable")
    return ""


def claim_names(pod: Json) -> dict[str, str | None]:
    """Names of the pod's ResourceClaims by the entry in ``spec.resourceClaims``, None while one is not created."""
    made = {s.get("name"): s.get("resourceClaimName")
            for s in (pod.get("status") or {}).get("resourceClaimStatuses") or []}
    return {str(e["name"]): e.get("resourceClaimName") or made.get(e["name"])
            for e in (pod.get("spec") or {}).get("resourceClaims") or []}


def group(pod: Json) -> tuple[str, int] | None:
    """(namespace/name, number of pods) of the group that the pod belongs to, by label and annotation; None without.

    Without a size it is no group: it could never be known to be complete. A size that is not from 1 to 9999 is 0.
    """
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    name = next((labels[k] for k in GROUPS if labels.get(k)), None)
    size = (meta.get("annotations") or {}).get(GROUP_SIZE)
    if not name or size is None:
        return None
    return f"{meta['namespace']}/{name}", int(size) if _SIZE.fullmatch(size) else 0


def removal(uid: str) -> Json:
    """A strategic merge patch that takes our gate and no other from the pod with this uid."""
    return {"metadata": {"uid": uid}, "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}


def trimmed(pod: Json) -> Json:
    """What is kept of a pod: thousands are, so that what no decision needs (environments, volumes' mounts) is left out.

    A new object; ``pod`` is left as it is. It takes its own results too.
    """
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    kept = {k: v for k, v in spec.items() if k not in ("containers", "initContainers", "ephemeralContainers")}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            kept[kind] = [{k: c[k] for k in _CONTAINER if k in c} for c in spec[kind]]
    return {**pod, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}, "spec": kept,
            "status": {k: status[k] for k in _STATUS if k in status}}
