# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map a change of the cluster or the fabric to the nodes that it concerns."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    LEASES,
    NODES,
    SLICES,
    ApiResource,
)
from ...kube.coordination.agent_leases import AGENT_LEASE
from ...kube.objects import nodes
from ...kube.watch.value_store import ValueStore
from ...model.claim import ResourceClaim
from ...model.node import Node
from ...model.request import Request
from ..controller import Change
from ..state.cluster_state import ClusterState


def of_change(state: ClusterState, change: Change) -> Iterator[str]:
    """Yield the names of the nodes that a changed object concerns, perhaps several times.

    A claim that is gone or moved also concerns the nodes with devices that were held for it. A node
    also concerns the other nodes that name the same machine.
    """
    if change.resource == NODES:
        if change.gone or nodes.facts_differ(change.new, change.old):
            yield change.name
        yield from {twin for node in change.versions if isinstance(node, Node) for twin in state.twins(node)}
    elif change.resource == LEASES:
        yield change.name.removeprefix(AGENT_LEASE)
    elif change.resource == COMPOSABILITY_REQUESTS and differs_only_in(change, Request, "status"):
        return
    elif change.resource == CLAIMS:
        if differs_only_in(change, ResourceClaim, "finalizers", "deleted"):
            return
        for uid in state.claims.places("uid", change.new):
            yield from state.holding(str(uid))
    for obj in change.versions:
        if node := _node(state, change, obj):
            yield node


def _node(state: ClusterState, change: Change, obj: t.Any) -> str | None:
    """Return the node of an object, even of one that cannot be read, or None."""
    stores: dict[ApiResource, ValueStore[t.Any]] = {
        CLAIMS: state.claims, SLICES: state.slices, COMPOSABLE_RESOURCES: state.resources,
        COMPOSABILITY_REQUESTS: state.requests}
    store = stores.get(change.resource)
    return None if store is None else next(map(str, store.places("node", obj)), "") or None


def differs_only_in(change: Change, kind: type[Request | ResourceClaim], *names: str) -> bool:
    """Return whether an object is still there, and its value of class ``kind`` differs from the one
    before in no other field than ``names``."""
    new, old = change.new, change.old
    return (not change.gone and isinstance(new, kind) and isinstance(old, kind)
            and replace(new, **{name: getattr(old, name) for name in names}) == old)


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
            yield from state.nodes.names_at("machine", uid)
    for name in state.absent_nodes.names():
        machines = {each.machine for each in state.resources.values("node", name)}
        if any(old.machines.get(uid) != new.machines.get(uid) for uid in machines):
            yield name
