# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a Node (core/v1): raw JSON in, plain values out."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..watch.parts import header, metadata, picked

Json = dict[str, t.Any]


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


def capacity(node: Mapping[str, t.Any]) -> dict[str, str]:
    """Return the total capacity of a node by resource, as Kubernetes quantities."""
    return {str(name): str(amount) for name, amount in ((node.get("status") or {}).get("capacity") or {}).items()}


def out_of_service(node: Mapping[str, t.Any]) -> bool:
    """Return whether an administrator marked the node as shut down."""
    return any(taint.get("key") == OUT_OF_SERVICE for taint in (node.get("spec") or {}).get("taints") or ())


def trimmed(node: Json) -> Json:
    """Return the part of a node that is kept. Images, addresses, annotations and other conditions
    are dropped.
    """
    spec, status = node.get("spec") or {}, node.get("status") or {}
    kept = {name: status[name] for name in ("allocatable", "capacity") if name in status}
    conditions = [picked(each, ("type", "status")) for each in status.get("conditions") or ()
                  if each.get("type") == "Ready"]
    return {**header(node), "metadata": metadata(node, "labels"),
            "spec": picked(spec, ("providerID", "taints", "unschedulable")),
            "status": {**kept, "conditions": conditions}}


def node_facts(node: Json) -> tuple[object, ...]:
    """Return the parts of a Node that affect plans. Heartbeats do not."""
    spec = node.get("spec") or {}
    return (spec.get("providerID"), node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable"),
            (node.get("status") or {}).get("allocatable"))


def facts_differ(new: Json, old: Json | None) -> bool:
    """Return whether a Node is new, or a part of it that affects plans has changed."""
    return old is None or node_facts(new) != node_facts(old)
