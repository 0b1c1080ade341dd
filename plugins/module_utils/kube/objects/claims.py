# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a ResourceClaim (``resource.k8s.io/v1``) that kube-scheduler allocated: raw JSON in, plain
values out.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

from ...model.value import Json
from ..times import parse_time
from ..watch.parts import header, metadata, picked

DeviceKey = tuple[str, str, str]

# ``resourceapi.Finalizer``: kube-scheduler sets it on a claim before it allocates the claim.
FINALIZER: t.Final = "resource.kubernetes.io/delete-protection"
# ``resourceapi.ExtendedResourceClaimAnnotation``
SPECIAL: t.Final = "resource.kubernetes.io/extended-resource-claim"
# UIDs of the API server have this form. In the UID of an owner it accepts any text.
_UID: t.Final = re.compile(r"[0-9A-Za-z-]{1,64}")


def is_special(claim: Json) -> bool:
    """Return whether kube-scheduler made the claim for extended resources of a pod (KEP-5004)."""
    return (claim["metadata"].get("annotations") or {}).get(SPECIAL) == "true"


def identity(claim: Json) -> str:
    """Return a stable key of a claim: its UID, or for a special claim its namespace and the UID of
    its pod.

    A special claim has another UID in every scheduling cycle. A tenant can write annotation and
    owner, so an invalid UID of the owner is ignored.
    """
    meta = claim["metadata"]
    owner = next((ref for ref in meta.get("ownerReferences") or () if ref.get("controller")), None)
    if owner is None or owner.get("kind") != "Pod" or not is_special(claim) \
            or not _UID.fullmatch(str(owner.get("uid"))):
        return str(meta["uid"])
    return f"{meta['namespace']}/{owner['uid']}"


def results(claim: Json) -> list[Json]:
    """Return ``status.allocation.devices.results``, empty if the claim is not allocated."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return found


def protection(uid: str) -> Json:
    """Return a strategic merge patch that adds FINALIZER to the claim with this UID, and
    removes none.
    """
    return {"metadata": {"uid": uid, "finalizers": [FINALIZER]}}


def binding_results(claim: Json) -> list[Json]:
    """Return the results of devices with binding conditions, which are pool devices."""
    return [r for r in results(claim) if r.get("bindingConditions")]


def device_keys(claim: Json) -> Iterator[DeviceKey]:
    """Yield (driver, pool, device) of every allocated device. Administrative access does not use a
    device.
    """
    for result in results(claim):
        if not result.get("adminAccess"):
            yield result["driver"], result["pool"], result["device"]


def node(claim: Json) -> str | None:
    """Return the node in the allocation (matchFields ``metadata.name``), None for none."""
    selector = ((claim.get("status") or {}).get("allocation") or {}).get("nodeSelector") or {}
    for term in selector.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and field.get("operator") == "In" and field.get("values"):
                return str(field["values"][0])
    return None


def consumers(claim: Json) -> list[Json]:
    """Return the pods in ``status.reservedFor``."""
    return [c for c in (claim.get("status") or {}).get("reservedFor") or [] if c.get("resource") == "pods"]


def for_a_group(claim: Json) -> bool:
    """Return whether it is reserved for a PodGroup of kube-scheduler instead of the group's pods
    (KEP-5729).
    """
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return any(c.get("apiGroup") == "scheduling.k8s.io" and c.get("resource") == "podgroups" for c in users)


def reserved(claim: Json) -> bool:
    """Return whether it is reserved for pods, or for a PodGroup."""
    return bool(consumers(claim)) or for_a_group(claim)


def condition(claim: Json, result: Json, types: list[str]) -> str | None:
    """Return the first of ``types`` that is True on the device of a result, None for none."""
    for entry in (claim.get("status") or {}).get("devices") or []:
        if all(entry.get(k) == result.get(k) for k in ("driver", "pool", "device")):
            true = {c["type"] for c in entry.get("conditions") or [] if c.get("status") == "True"}
            return next((name for name in types if name in true), None)
    return None


def allocated_at(claim: Json) -> float:
    """Return when the allocation was written, else when the claim was created, in epoch seconds."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return parse_time(allocation.get("allocationTimestamp") or claim["metadata"].get("creationTimestamp"))


def trimmed(claim: Json) -> Json:
    """Return the part of a claim that is kept.

    Labels and driver data except conditions are dropped. Annotations and owners are kept only for a
    special claim.
    """
    status, meta = claim.get("status") or {}, metadata(claim, "finalizers")
    if is_special(claim):
        meta |= picked(claim["metadata"], ("annotations", "ownerReferences"))
    kept = picked(status, ("reservedFor", "allocation"))
    if allocation := status.get("allocation"):
        kept["allocation"] = {**picked(allocation, ("allocationTimestamp",)), **{
            name: allocation[name] for name in ("devices", "nodeSelector") if name in allocation}}
    if status.get("devices"):
        kept["devices"] = [picked(each, ("driver", "pool", "device", "shareID", "conditions"))
                           for each in status["devices"]]
    return {**header(claim), "metadata": meta, "spec": claim.get("spec") or {},
            "status": kept}
