# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a ComposableResource into its value."""

from __future__ import annotations

import functools
import typing as t
from sys import intern

from ...kube.objects import cohdi
from ...kube.objects.claim_ref import CLAIM, ClaimRef, claim_of_note
from ...kube.times import parse_time
from ...kube.watch.parts import shared
from ...model.resource import SINCE, Condition, NodeWork, Resource
from ...model.value import Json, Unreadable
from ...node import evidence
from ...node.evidence import Evidence
from ...planning.node.compose import ATTACHING
from ...planning.node.snapshot import FOREIGN, UNREADABLE
from ...planning.settings import Settings

V = t.TypeVar("V", bound=t.Hashable)
# Evidence is read many times between two changes, and an old text is never read again. The cache
# has room for the devices of a burst, 2 KiB each, because nodes are planned in turn.
_parsed = functools.lru_cache(1024)(Evidence.parse)


def read_resource(raw: Json, settings: Settings) -> Resource:
    """Return the value of a ComposableResource. Raise KeyError, TypeError or ValueError for an
    object without what the API requires.

    A node knows the device by its serial, which is the GPU's UUID as the CDI Manager or the node
    reports it.
    """
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    labels, notes = cohdi.labels_of(meta), cohdi.annotations_of(meta)
    machine, asked, present = cohdi.read_intent(raw)
    device, told = intern(status.get("cdi_device_id") or ""), intern(status.get("device_id") or "")
    found = _evidence(notes.get(cohdi.NODE, ""), device)
    return Resource(  # texts that many have are in memory once
        name=meta["name"], uid=meta["uid"], request=labels.get(cohdi.MANAGED_BY, ""),
        model=intern(spec["model"]), node=intern(spec["target_node"]), state=intern(status.get("state") or ""),
        created=parse_time(meta.get("creationTimestamp")),
        device_uid=device, serial=told or intern(found.uuid if found else ""),
        address=intern(found.address if found else ""),
        error=status.get("error") or "", deleting=bool(meta.get("deletionTimestamp")),
        force_detach=bool(spec.get("force_detach")),
        delete_first=notes.get(settings.label(cohdi.DELETE_FIRST)) == "true",
        last_used=parse_time(notes.get(settings.label(cohdi.LAST_USED))),
        in_use=notes.get(cohdi.IN_USE) == "true", hold=_once(cohdi.read_hold(raw)),
        machine=intern(machine), asked=asked, present=_once(present),
        operation=notes.get(cohdi.OPERATION, ""), node_work=_once(_node_work(notes.get(cohdi.RELEASE, ""), found)),
        doubt=_doubt(raw, status), reclaims=labels.get(cohdi.RECLAIMED, ""),
        pool_device=notes.get(cohdi.POOL_DEVICE, ""),
        namespace=intern(meta.get("namespace") or ""), version=str(meta.get("resourceVersion") or ""),
        type=intern(spec.get("type") or "gpu"), generation=int(meta.get("generation") or 0),
        created_text=str(meta.get("creationTimestamp") or ""), deleted_text=str(meta.get("deletionTimestamp") or ""),
        device_id=told, labels=labels, annotations=notes,
        finalizers=cohdi.finalizers_of(meta),
        said=tuple(map(_condition, status.get("conditions") or ())))


def read_evidence(resource: Resource) -> Evidence | None:
    """Return the evidence of node operations on the device of a ComposableResource, or None.

    Evidence about an earlier device does not count.
    """
    return _evidence(resource.annotation(cohdi.NODE), resource.device_uid)


def _evidence(text: str, device: str) -> Evidence | None:
    found = _parsed(text)
    return found if found and found.device == (device or None) else None


def _node_work(release: str, found: Evidence | None) -> NodeWork:
    """Return the progress of node operations on the device of a ComposableResource."""
    asked = bool(release)
    if found is None:
        return NodeWork(asked)
    trouble = found.trouble
    warning = trouble is not None and trouble.reason in evidence.WARNINGS
    fatal = trouble is not None and (trouble.reason == evidence.LOST_ON_BUS or (
        found.phase == evidence.PREPARING and not warning))
    # After a withdrawn release the node takes the device back, whatever it wrote before. So
    # evidence counts only for the current release.
    removed = asked and found.phase == evidence.REMOVED and found.release == release
    return NodeWork(asked, found.phase == evidence.READY, removed,
                    found.steps[-1].step if found.steps else "", trouble.message if trouble else "", fatal, warning,
                    trouble.reason if trouble else "")


def _doubt(raw: Json, status: Json) -> str:
    """Return why it is uncertain whether the device of a ComposableResource was requested, or an
    empty string."""
    if status.get("cdi_device_id"):
        return ""
    if cohdi.intent_unreadable(raw):
        return UNREADABLE
    foreign = status.get("state") == ATTACHING and not cohdi.annotation(raw, cohdi.ATTACH)
    return FOREIGN if foreign and not cohdi.reclaimed(raw) else ""


def device_uid(found: Resource | Unreadable | None) -> str:
    """Return the device of a ComposableResource, even of one that cannot be read. Empty for none."""
    if isinstance(found, Unreadable):
        return str((found.whole.get("status") or {}).get("cdi_device_id") or "")
    return found.device_uid if found else ""


def noted_claim(resource: Resource) -> ClaimRef | None:
    """Return the claim for which a device was attached, or that used it last, None if it is
    unknown."""
    return claim_of_note(resource.annotation(CLAIM))


def _condition(entry: Json) -> Condition:
    since = entry.get(SINCE)
    if not (since and isinstance(since, str)):
        return Condition(shared(entry), "")
    return Condition(shared({intern(name): value for name, value in entry.items() if name != SINCE}), since)


@functools.lru_cache(1024)
def _once(value: V) -> V:
    """Return the same object for equal values. Most devices are prepared, came to a machine
    without others, and have no problem and no hold."""
    return value
