# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CoHDI's own objects, group ``cro.hpsys.ibm.ie.com/v1alpha1``: names, annotations, bodies.

Fields are those of composable-resource-operator. What is ours beside them are annotations under
``composable.infra/``, which CoHDI's controllers leave alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import typing as t
from collections.abc import Iterable

from ..times import format_micro_time, parse_time
from ..watch.parts import header, metadata
from .claim_ref import CLAIM, ClaimRef

Json = dict[str, t.Any]

GROUP_VERSION = "cro.hpsys.ibm.ie.com/v1alpha1"
FINALIZER = "com.ie.ibm.hpsys/finalizer"
MANAGED_BY = "app.kubernetes.io/managed-by"
FIELD_MANAGER = "composable.infra"
ATTACH = "composable.infra/attach"
OPERATION = "composable.infra/operation"
INTENT_VERSION: t.Final = 1
# Text of ATTACH when the CDI Manager has nothing of an attach: what was asked before had no effect.
NOT_ASKED = json.dumps({"asked": None})
HELD_FOR = "composable.infra/held-for"
# Of a ComposabilityRequest: uids of the claims that its size was set for, so that an operator in another process can
# say for whom it attaches.
CLAIMS, MOST_CLAIMS = "composable.infra/claims", 64
IN_USE = "composable.infra/in-use"
# The pool device that its device is for one claim, "<pool>/<device>", with the handover direct.
POOL_DEVICE = "composable.infra/pool-device"
# The node of a ComposableResource as a label: by it a node's agent watches what is its business.
TARGET_NODE = "composable.infra/target-node"
# When the node was asked to let its device go; the node's answer is under NODE, see node/evidence.py.
RELEASE = "composable.infra/release"
NODE = "composable.infra/node"
RECLAIMED = "cohdi.io/ready-to-detach-cdi-device-id"
_LABEL_LIMIT = 63
LAST_USED = "last-used-time"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DELETE_FIRST = "delete-device"


def without_bookkeeping(obj: Json) -> Json:
    """The object as users see it: without ``managedFields``, which only the API server itself needs."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def annotation(obj: Json, name: str) -> str:
    """An annotation's text, empty when it is absent."""
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")


def node_label(node: str) -> str:
    """A node's name as the value of a label; a name that is too long for one ends with its hash."""
    if len(node) <= _LABEL_LIMIT:
        return node
    return f"{node[:52]}-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def claims_note(uids: Iterable[str]) -> str:
    """Text of the annotation CLAIMS; the last ones where there are many."""
    return " ".join([*uids][-MOST_CLAIMS:])


def read_claims(obj: Json) -> tuple[str, ...]:
    """The uids that ``claims_note`` was given."""
    return tuple(annotation(obj, CLAIMS).split()[-MOST_CLAIMS:])


def request_body(name: str, node: str, model: str, size: int, kind: str = "gpu", claims: Iterable[str] = ()) -> Json:
    """A ComposabilityRequest for one node and one model; ``claims``: uids of those that wait for it."""
    note = claims_note(claims)
    return {
        "apiVersion": GROUP_VERSION, "kind": "ComposabilityRequest",
        "metadata": {"name": name, "finalizers": [FINALIZER], **({"annotations": {CLAIMS: note}} if note else {})},
        "spec": {"resource": {"type": kind, "model": model, "size": size, "target_node": node,
                              "allocation_policy": "samenode"}},
    }


def resource_body(name: str, request: str, node: str, model: str, attach: str, kind: str = "gpu",
                  force: bool = False, claim: ClaimRef | None = None, pool_device: str = "") -> Json:
    """A ComposableResource that carries its attach intent from the moment it exists.

    ``request`` is the name of its ComposabilityRequest, ``attach`` the text that ``attach_intent`` gives, ``kind``
    gpu or cxlmemory. ``force``: the device is detached without a proof that it is idle. ``claim``: which one waits for
    it, None for none that is known. ``pool_device``: see ``POOL_DEVICE``.
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
    """Text of the annotation that is written before a CDI Manager is asked for a device, so that a crash loses nothing.

    ``machine`` is its uid on the fabric, ``asked`` the moment in seconds since the epoch, ``present`` the uids of the
    devices that were there already and are not ours.
    """
    return json.dumps({"version": INTENT_VERSION, "machine": machine, "asked": format_micro_time(asked),
                       "present": sorted(present)})


def read_intent(obj: Json) -> tuple[str, float, frozenset[str]]:
    """(machine, asked, present) as ``attach_intent`` was given them; ("", 0.0, empty) for none or an unreadable one.

    Unknown keys are passed over. An intent without a version is from before intents had one.
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
    """Whether there is an intent that cannot be read, or is of another version: nobody knows then what was asked."""
    try:
        data = json.loads(annotation(obj, ATTACH) or "{}")
        asked, version = data["asked"], data.get("version", INTENT_VERSION)
        return asked is not None and not (version == INTENT_VERSION and parse_time(asked))
    except KeyError:
        return annotation(obj, ATTACH) != ""
    except (ValueError, TypeError):
        return True


def reclaimed(obj: Json) -> str:
    """The device (its uid) that CoHDI's upstream syncer made a ComposableResource for, so that it is detached.

    Empty for a ComposableResource of another kind.
    """
    return str((obj["metadata"].get("labels") or {}).get(RECLAIMED) or "")


def hold(claim_uid: str, since: float) -> str:
    """Text of the annotation that keeps a device for the claim it was handed to."""
    return f"{claim_uid} {format_micro_time(since)}"


def read_hold(obj: Json) -> tuple[str, float]:
    """(claim uid, since) of a hold, ("", 0.0) when there is none."""
    uid, _unused, since = annotation(obj, HELD_FOR).partition(" ")
    return uid, parse_time(since)


def pool_device(pool: str, device: str) -> str:
    """Text of the annotation that says which pool device a ComposableResource's device is."""
    return f"{pool}/{device}"


def trimmed(obj: Json) -> Json:
    """What is kept of a ComposabilityRequest or ComposableResource: all but what ``kubectl apply`` notes."""
    kept = metadata(obj, "labels", "finalizers", "generation")
    if notes := obj["metadata"].get("annotations"):
        kept["annotations"] = {name: text for name, text in notes.items() if name != LAST_APPLIED}
    status = obj.get("status") or {}
    return {**header(obj), "metadata": kept, "spec": obj["spec"], **({"status": status} if status else {})}
