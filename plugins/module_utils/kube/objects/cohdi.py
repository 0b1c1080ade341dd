# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, annotations and bodies of CoHDI's own objects, group ``cro.hpsys.ibm.ie.com/v1alpha1``.

Fields are those of composable-resource-operator. Additions of this collection are annotations under
``composable.infra/``, which CoHDI's controllers ignore.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import typing as t
from collections.abc import Iterable, Mapping

from ...model.value import Json
from ..times import format_micro_time, parse_time
from ..watch.parts import header, interned, metadata, shared
from .claim_ref import CLAIM, ClaimRef

GROUP_VERSION = "cro.hpsys.ibm.ie.com/v1alpha1"
FINALIZER = "com.ie.ibm.hpsys/finalizer"
MANAGED_BY = "app.kubernetes.io/managed-by"
FIELD_MANAGER = "composable.infra"
ATTACH = "composable.infra/attach"
OPERATION = "composable.infra/operation"
INTENT_VERSION: t.Final = 1
# Text of ATTACH if the CDI Manager has no trace of an attach: the earlier request had no effect.
NOT_ASKED = json.dumps({"asked": None})
HELD_FOR = "composable.infra/held-for"
# Annotation of a ComposabilityRequest: UIDs of the claims for which its size was set, so that an
# operator in another process knows them.
CLAIMS, MOST_CLAIMS = "composable.infra/claims", 64
IN_USE = "composable.infra/in-use"
# The pool device that a device is for one claim, "<pool>/<device>", with the handover ``direct``.
POOL_DEVICE = "composable.infra/pool-device"
# Label with the node of a ComposableResource. A node agent watches the objects with the label of
# its node.
TARGET_NODE = "composable.infra/target-node"
# When the removal of the device was requested from the node. The answer is under NODE, see
# node/evidence.py.
RELEASE = "composable.infra/release"
NODE = "composable.infra/node"
RECLAIMED = "cohdi.io/ready-to-detach-cdi-device-id"
_LABEL_LIMIT = 63
LAST_USED = "last-used-time"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DELETE_FIRST = "delete-device"


def without_bookkeeping(obj: Json) -> Json:
    """Return the object as users see it, without ``managedFields``, which only the API server
    needs.
    """
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def annotation(obj: Json, name: str) -> str:
    """Return the text of an annotation, empty if it is absent."""
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")


def node_label(node: str) -> str:
    """Return a node's name as the value of a label. A name that is too long ends with its hash."""
    if len(node) <= _LABEL_LIMIT:
        return node
    return f"{node[:52]}-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def claims_note(uids: Iterable[str]) -> str:
    """Return the text of the annotation CLAIMS. If there are too many claims, only the last ones
    are in it.
    """
    return " ".join([*uids][-MOST_CLAIMS:])


def read_claims(obj: Json) -> tuple[str, ...]:
    """Return the UIDs that were passed to ``claims_note``."""
    return tuple(annotation(obj, CLAIMS).split()[-MOST_CLAIMS:])


def request_body(name: str, node: str, model: str, size: int, kind: str = "gpu", claims: Iterable[str] = ()) -> Json:
    """Return a ComposabilityRequest for one node and one model.

    ``claims``: UIDs of the claims that wait for it.
    """
    note = claims_note(claims)
    return {
        "apiVersion": GROUP_VERSION, "kind": "ComposabilityRequest",
        "metadata": {"name": name, "finalizers": [FINALIZER], **({"annotations": {CLAIMS: note}} if note else {})},
        "spec": {"resource": {"type": kind, "model": model, "size": size, "target_node": node,
                              "allocation_policy": "samenode"}},
    }


def resource_body(name: str, request: str, node: str, model: str, attach: str, kind: str = "gpu",
                  force: bool = False, claim: ClaimRef | None = None, pool_device: str = "") -> Json:
    """Return a ComposableResource that has its attach intent from the beginning.

    ``request``: name of its ComposabilityRequest. ``attach``: text from ``attach_intent``.
    ``kind``: gpu or cxlmemory. ``force``: detach the device without a proof that it is idle.
    ``claim``: the claim that waits for it, None if unknown. ``pool_device``: see ``POOL_DEVICE``.
    """
    spec: Json = {"type": kind, "model": model, "target_node": node}
    if force:
        spec["force_detach"] = True
    return {
        "apiVersion": GROUP_VERSION, "kind": "ComposableResource",
        "metadata": {"name": name, "labels": {MANAGED_BY: request, TARGET_NODE: node_label(node)},
                     "finalizers": [FINALIZER],
                     "annotations": {ATTACH: attach, **({CLAIM: claim.note} if claim else {}),
                                     **({POOL_DEVICE: pool_device} if pool_device else {})}},
        "spec": spec,
    }


def attach_intent(machine: str, asked: float, present: Iterable[str]) -> str:
    """Return the text of the annotation that is written before a device is requested, so that a
    crash loses nothing.

    ``machine``: UID of the machine on the fabric. ``asked``: time of the request in epoch seconds.
    ``present``: UIDs of other devices that were attached before.
    """
    return json.dumps({"version": INTENT_VERSION, "machine": machine, "asked": format_micro_time(asked),
                       "present": sorted(present)})


def read_intent(obj: Json) -> tuple[str, float, frozenset[str]]:
    """Return (machine, asked, present) as passed to ``attach_intent``, ("", 0.0, empty) if absent
    or unreadable.

    Unknown keys are ignored. Intents of old releases have no version.
    """
    return _intent(annotation(obj, ATTACH))


@functools.lru_cache(1024)
def _intent(text: str) -> tuple[str, float, frozenset[str]]:
    try:
        data = json.loads(text or "{}")
        if data.get("version", INTENT_VERSION) != INTENT_VERSION:
            return "", 0.0, frozenset()
        return str(data.get("machine", "")), parse_time(data.get("asked")), frozenset(data.get("present") or ())
    except (ValueError, AttributeError, TypeError):
        return "", 0.0, frozenset()


def intent_unreadable(obj: Json) -> bool:
    """Return whether an intent is unreadable or of another version. The request is then unknown."""
    try:
        data = json.loads(annotation(obj, ATTACH) or "{}")
        asked, version = data["asked"], data.get("version", INTENT_VERSION)
        return asked is not None and not (version == INTENT_VERSION and parse_time(asked))
    except KeyError:
        return annotation(obj, ATTACH) != ""
    except (ValueError, TypeError):
        return True


def reclaimed(obj: Json) -> str:
    """Return the UID of the device for which CoHDI's upstream syncer made a ComposableResource, to
    detach it.

    Return an empty text for other ComposableResources.
    """
    return str((obj["metadata"].get("labels") or {}).get(RECLAIMED) or "")


def hold(claim_uid: str, since: float) -> str:
    """Return the text of the annotation that reserves a device for a claim. ``since`` is in epoch
    seconds.
    """
    return f"{claim_uid} {format_micro_time(since)}"


def read_hold(obj: Json) -> tuple[str, float]:
    """Return (claim UID, since) of a reservation, ("", 0.0) if there is none."""
    uid, _unused, since = annotation(obj, HELD_FOR).partition(" ")
    return uid, parse_time(since)


def pool_device(pool: str, device: str) -> str:
    """Return the text of the annotation with the pool device of a ComposableResource."""
    return f"{pool}/{device}"


def labels_of(meta: Json) -> Mapping[str, str]:
    """Return the labels of the metadata of an object."""
    return shared({sys.intern(name): sys.intern(text) for name, text in (meta.get("labels") or {}).items()})


def annotations_of(meta: Json) -> Mapping[str, str]:
    """Return the annotations of the metadata of an object, without the note of ``kubectl apply``."""
    found = (meta.get("annotations") or {}).items()
    return {sys.intern(name): _short(str(text or "")) for name, text in found if name != LAST_APPLIED}


def finalizers_of(meta: Json) -> tuple[str, ...]:
    """Return the finalizers in the metadata of an object."""
    return shared(tuple(sys.intern(name) for name in meta.get("finalizers") or ()))


def _short(text: str) -> str:
    """Intern a text that many devices may share."""
    return sys.intern(text) if len(text) < 8 else text


def trimmed(obj: Json) -> Json:
    """Return the part of a ComposabilityRequest or ComposableResource that is kept: all but the
    note of ``kubectl apply``.
    """
    kept = metadata(obj, "labels", "finalizers", "generation")
    if notes := obj["metadata"].get("annotations"):
        kept["annotations"] = {name: text for name, text in notes.items() if name != LAST_APPLIED}
    status = obj.get("status") or {}
    return {**header(obj), "metadata": kept, "spec": interned(obj["spec"]),
            **({"status": interned(status)} if status else {})}
