# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map a change of the cluster or the fabric to the nodes that it concerns."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    LEASES,
    NODES,
    SLICES,
)
from ...kube.coordination.agent_leases import AGENT_LEASE
from ...kube.objects import claims, nodes
from ...model.slice import Slice
from ..controller import Change, Json
from ..state.cluster_state import ClusterState


def of_change(state: ClusterState, change: Change) -> Iterator[str]:
    """Yield the names of the nodes that a changed object concerns, perhaps several times.

    A claim that is gone or moved also concerns the nodes with devices that were held for it. A node
    also concerns the other nodes that name the same machine.
    """
    if change.resource == NODES:
        if change.gone or nodes.facts_differ(change.new, change.old):
            yield change.name
        yield from {*state.twins(change.new), *state.twins(change.old)}
    elif change.resource == LEASES:
        yield change.name.removeprefix(AGENT_LEASE)
    elif change.resource == COMPOSABILITY_REQUESTS and is_only_status(change):
        return
    elif change.resource == CLAIMS:
        yield from state.holding(claims.identity(change.new))
    for obj in change.versions:
        if node := _node(change, obj):
            yield node


def _node(change: Change, obj: t.Any) -> str | None:
    if change.resource == CLAIMS:
        return claims.node(obj)
    if change.resource == SLICES:
        return obj.node if isinstance(obj, Slice) else None
    if change.resource == COMPOSABLE_RESOURCES:
        return str(obj["spec"]["target_node"])
    if change.resource == COMPOSABILITY_REQUESTS:
        return obj["spec"]["resource"].get("target_node") or None
    return None


def is_only_status(change: Change) -> bool:
    """Return whether only the status of an object changed."""
    new, old = change.new, change.old
    return old is not None and new["spec"] == old["spec"] and unversioned(new) == unversioned(old)


def unversioned(obj: Json) -> Json:
    """Return the metadata of an object without its resourceVersion."""
    return {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}


def of_poll(state: ClusterState, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterator[str]:
    """Yield the names of the nodes for which two polls of the CDI Manager differ.

    After the first poll, yield all nodes.
    """
    if old is None:
        yield from sorted({*state.nodes.names(), *state.absent_nodes.names()})
        return
    for uid in old.shared.keys() ^ new.shared.keys():
        yield from (each.node for each in state.resources.values("device", uid))
    for uid in map(str, state.nodes.keys("machine")):
        if old.machines.get(uid) != new.machines.get(uid):
            yield from (node["metadata"]["name"] for node in state.nodes.by("machine", uid))
    for name in state.absent_nodes.names():
        machines = {each.machine for each in state.resources.values("node", name)}
        if any(old.machines.get(uid) != new.machines.get(uid) for uid in machines):
            yield name
