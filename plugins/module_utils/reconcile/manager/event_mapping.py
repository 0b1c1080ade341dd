# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map a change to the keys that it affects. Every reconcile then reads the state again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
    ApiResource,
)
from ...kube.objects import claims, cohdi, nodes, slices
from ...planning.settings import Settings
from ..keys import Key, NodeKey, PoolKey, RequestKey
from ..pool import controller as pools
from ..state import adapters
from ..state.cluster_state import ClusterState, Json


def keys_of(kind: ApiResource, new: Json, old: Json | None, settings: Settings) -> Iterator[Key]:
    """Yield the keys for a changed object. An object that moved also affects its old place."""
    if kind == NODES:
        if old is None or nodes.node_facts(new) != nodes.node_facts(old):
            yield NodeKey(new["metadata"]["name"])
        return
    if kind == COMPOSABILITY_REQUESTS and old is not None and _is_as_wanted(new, old):
        yield RequestKey(new["metadata"]["name"])
        return
    for obj in (new, old):
        if obj is not None:
            yield from _keys(kind, obj, settings)


def _is_as_wanted(request: Json, old: Json) -> bool:
    """Return whether only the status of a request changed, which no node reads."""
    return request["spec"] == old["spec"] and _unversioned(request) == _unversioned(old)


def _unversioned(obj: Json) -> Json:
    return {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}


def is_further_step(kind: ApiResource, new: Json, old: Json | None) -> bool:
    """Return whether only a further step of node operations was recorded on a device.

    Such a change affects messages but no decision.
    """
    if kind != COMPOSABLE_RESOURCES or old is None:
        return False
    now, was = adapters.read_evidence(new), adapters.read_evidence(old)
    if now is None or was is None or replace(now, steps=()) != replace(was, steps=()):
        return False
    return _without_evidence(new) == _without_evidence(old)


def _without_evidence(resource: Json) -> tuple[object, ...]:
    meta = _unversioned(resource)
    notes = {name: text for name, text in (meta.pop("annotations", None) or {}).items() if name != cohdi.NODE}
    return meta, notes, resource["spec"], resource.get("status")


def _keys(kind: ApiResource, obj: Json, settings: Settings) -> Iterator[Key]:
    if kind == CLAIMS:
        yield from _claim_keys(obj, settings)
    elif kind == SLICES:
        yield from _slice_keys(obj, settings)
    elif kind == COMPOSABLE_RESOURCES:
        yield NodeKey(obj["spec"]["target_node"])
        if request := (obj["metadata"].get("labels") or {}).get(cohdi.MANAGED_BY):
            yield RequestKey(request)
    elif kind == COMPOSABILITY_REQUESTS:
        if node := obj["spec"]["resource"].get("target_node"):
            yield NodeKey(node)
        yield RequestKey(obj["metadata"]["name"])


def _claim_keys(claim: Json, settings: Settings) -> Iterator[Key]:
    if name := claims.node(claim):
        yield NodeKey(name)
    for result in claims.binding_results(claim):
        if of_pool := settings.of_pool(result["pool"]):
            yield PoolKey(of_pool[0].cdi_model_name, of_pool[1])


def _slice_keys(item: Json, settings: Settings) -> Iterator[Key]:
    if name := slices.node(item):
        yield NodeKey(name)
    elif of_pool := settings.of_pool(slices.pool(item)):
        yield PoolKey(of_pool[0].cdi_model_name, of_pool[1])


def fabric_keys(state: ClusterState, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterator[Key]:
    """Yield the keys for the differences between two polls. After the first poll, yield all nodes.

    Also yield pools that do not show what they should. Devices that were requested before a poll
    have left the manager's count, which may have the same value as before.
    """
    if not state.pools_problem:
        for pool in sorted(pools.pool_keys(state)):
            if (plan := pools.plan(state, pool)) is not None and not plan.empty:
                yield pool
    if old is None:
        yield from map(NodeKey, sorted({*state.nodes.names(), *state.absent_nodes.names()}))
        return
    for uid in old.shared.keys() ^ new.shared.keys():
        yield from (NodeKey(raw["spec"]["target_node"]) for raw in state.resources.by("device", uid))
    for uid in map(str, state.nodes.keys("machine")):
        if old.machines.get(uid) != new.machines.get(uid):
            yield from (NodeKey(node["metadata"]["name"]) for node in state.nodes.by("machine", uid))
    for name in state.absent_nodes.names():
        machines = [adapters.place(raw)[0] for raw in state.resources.by("node", name)]
        if any(old.machines.get(uid) != new.machines.get(uid) for uid in machines):
            yield NodeKey(name)
