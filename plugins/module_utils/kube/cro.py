# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CoHDI's own objects, group ``cro.hpsys.ibm.ie.com/v1alpha1``: names, annotations, bodies.

Fields are those of composable-resource-operator. What is ours beside them are annotations under
``composable.infra/``, which CoHDI's controllers leave alone.
"""

from __future__ import annotations

import functools
import json
import typing as t
from collections.abc import Iterable
from uuid import uuid4

from .times import format_micro_time, parse_time

Json = dict[str, t.Any]

GROUP_VERSION = "cro.hpsys.ibm.ie.com/v1alpha1"
FINALIZER = "com.ie.ibm.hpsys/finalizer"
MANAGED_BY = "app.kubernetes.io/managed-by"
FIELD_MANAGER = "composable.infra"
ATTACH = "composable.infra/attach"
OPERATION = "composable.infra/operation"
HELD_FOR = "composable.infra/held-for"
IN_USE = "composable.infra/in-use"
LAST_USED = "last-used-time"
DELETE_FIRST = "delete-device"


def annotation(obj: Json, name: str) -> str:
    """An annotation's text, empty when it is absent."""
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")


def new_resource_name(kind: str) -> str:
    """A name as composable-resource-operator gives: the type and a UUID."""
    return f"{kind}-{uuid4()}"


def request_body(name: str, node: str, model: str, size: int, kind: str = "gpu") -> Json:
    """A ComposabilityRequest for one node and one model."""
    return {
        "apiVersion": GROUP_VERSION, "kind": "ComposabilityRequest",
        "metadata": {"name": name, "finalizers": [FINALIZER]},
        "spec": {"resource": {"type": kind, "model": model, "size": size, "target_node": node,
                              "allocation_policy": "samenode"}},
    }


def resource_body(name: str, request: str, node: str, model: str, attach: str, kind: str = "gpu",
                  force: bool = False) -> Json:
    """A ComposableResource that carries its attach intent from the moment it exists."""
    spec: Json = {"type": kind, "model": model, "target_node": node}
    if force:
        spec["force_detach"] = True
    return {
        "apiVersion": GROUP_VERSION, "kind": "ComposableResource",
        "metadata": {"name": name, "labels": {MANAGED_BY: request}, "finalizers": [FINALIZER],
                     "annotations": {ATTACH: attach}},
        "spec": spec,
    }


def attach_intent(machine: str, asked: float, present: Iterable[str]) -> str:
    """The journal entry of one attach: which machine, since when, and which foreign devices were there already."""
    return json.dumps({"machine": machine, "asked": format_micro_time(asked), "present": sorted(present)})


def read_intent(obj: Json) -> tuple[str, float, frozenset[str]]:
    """(machine, asked, present) of a journal entry; ("", 0.0, empty) when there is none or it is unreadable."""
    return _intent(annotation(obj, ATTACH))


@functools.lru_cache(16384)
def _intent(text: str) -> tuple[str, float, frozenset[str]]:
    try:
        data = json.loads(text or "{}")
        return str(data.get("machine", "")), parse_time(data.get("asked")), frozenset(data.get("present") or ())
    except (ValueError, AttributeError, TypeError):
        return "", 0.0, frozenset()


def hold(claim_uid: str, since: float) -> str:
    """Text of the annotation that keeps a device for the claim it was handed to."""
    return f"{claim_uid} {format_micro_time(since)}"


def read_hold(obj: Json) -> tuple[str, float]:
    """(claim uid, since) of a hold, ("", 0.0) when there is none."""
    uid, _unused, since = annotation(obj, HELD_FOR).partition(" ")
    return uid, parse_time(since)
