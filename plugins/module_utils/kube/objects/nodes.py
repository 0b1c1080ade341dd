# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a Node (core/v1)."""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Mapping

from ...model.node import Node
from ...model.value import Json, Unreadable
from ..watch.parts import header, interned, metadata, picked, shared


def ready(node: Mapping[str, t.Any]) -> bool:
    """Return whether the condition Ready is True. A node without the condition is not ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


PROVIDER_PREFIX: t.Final = "fsas-cdi://"
# Set by an administrator: the node is shut down and does not come back by itself (Kubernetes 1.28,
# KEP-2268).
OUT_OF_SERVICE: t.Final = "node.kubernetes.io/out-of-service"


def machine(node: Mapping[str, t.Any]) -> str:
    """Return the UID of the node's machine from its providerID ``fsas-cdi://<machine uid>``, empty
    for none.
    """
    provider = str((node.get("spec") or {}).get("providerID") or "")
    return provider.rpartition("/")[2] if provider.startswith(PROVIDER_PREFIX) else ""


def out_of_service(node: Mapping[str, t.Any]) -> bool:
    """Return whether an administrator marked the node as shut down."""
    return any(taint.get("key") == OUT_OF_SERVICE for taint in (node.get("spec") or {}).get("taints") or ())


def is_out_of_service(node: Node) -> bool:
    """Return the same of a Node that was read."""
    return any(taint.get("key") == OUT_OF_SERVICE for taint in node.taints)


def trimmed(node: Json) -> Json:
    """Return the part of a node that is kept. Images, addresses, annotations and other conditions
    are dropped.
    """
    spec, status = node.get("spec") or {}, node.get("status") or {}
    kept = {name: status[name] for name in ("allocatable", "capacity") if name in status}
    conditions = [picked(each, ("type", "status")) for each in status.get("conditions") or ()
                  if each.get("type") == "Ready"]
    meta = metadata(node)
    if "labels" in node["metadata"]:
        meta["labels"] = interned(node["metadata"]["labels"])
    return {**header(node), "metadata": meta, "spec": interned(picked(spec, ("providerID", "taints", "unschedulable"))),
            "status": shared({**kept, "conditions": conditions})}


def read(node: Json) -> Node:
    """Return the value of a Node."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return Node(
        name=sys.intern(meta["name"]), uid=str(meta.get("uid") or ""), version=str(meta.get("resourceVersion") or ""),
        created=str(meta.get("creationTimestamp") or ""), deleted=str(meta.get("deletionTimestamp") or ""),
        labels=interned(meta.get("labels") or {}), provider_id=str(spec.get("providerID") or ""), machine=machine(node),
        taints=shared(tuple(spec.get("taints") or ())), unschedulable=bool(spec.get("unschedulable")),
        ready=ready(node), allocatable=shared(status.get("allocatable") or {}),
        capacity=shared(status.get("capacity") or {}))


def for_plans(node: Node) -> tuple[object, ...]:
    """Return the parts of a Node that affect plans. Whether it is ready does not."""
    return node.provider_id, node.labels, node.taints, node.unschedulable, node.allocatable


def facts_differ(new: Node | Unreadable, old: Node | Unreadable | None) -> bool:
    """Return whether a Node is new, or a part of it that affects plans has changed."""
    return not (isinstance(new, Node) and isinstance(old, Node)) or for_plans(new) != for_plans(old)
