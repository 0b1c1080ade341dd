# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which passes a change calls for. Events only say where to look; every pass reads the state anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..fabric.types import FabricSnapshot
from ..kube import claims, cro, slices
from ..kube.resource import CLAIMS, NODES, REQUESTS, RESOURCES, SLICES, Resource
from ..scaling.settings import Settings
from . import publish
from .views import PROVIDER_PREFIX
from .world import Json, World

Key = tuple[str, ...]
Enqueue = Callable[[Key], None]
# With the moment, in seconds since the epoch.
Later = Callable[[Key, float], None]


def node_key(name: str) -> Key:
    """Work on everything that concerns one node."""
    return ("node", name)


def pool_key(model: str, fabric: int) -> Key:
    """Work on the slices of one pool."""
    return ("pool", model, str(fabric))


def keys_of(kind: Resource, new: Json, old: Json | None, settings: Settings) -> Iterator[Key]:
    """Keys for a changed object; an object that moved concerns where it was, too."""
    if kind == NODES:
        if old is None or _node_facts(new) != _node_facts(old):
            yield node_key(new["metadata"]["name"])
        return
    for obj in (new, old):
        if obj is not None:
            yield from _keys(kind, obj, settings)


def _keys(kind: Resource, obj: Json, settings: Settings) -> Iterator[Key]:
    if kind == CLAIMS:
        yield from _claim_keys(obj, settings)
    elif kind == SLICES:
        yield from _slice_keys(obj, settings)
    elif kind == RESOURCES:
        yield node_key(obj["spec"]["target_node"])
        if request := (obj["metadata"].get("labels") or {}).get(cro.MANAGED_BY):
            yield ("request", request)
    elif kind == REQUESTS:
        yield node_key(obj["spec"]["resource"].get("target_node") or "")
        yield ("request", obj["metadata"]["name"])


def _claim_keys(claim: Json, settings: Settings) -> Iterator[Key]:
    if name := claims.node(claim):
        yield node_key(name)
    for result in claims.binding_results(claim):
        if of_pool := settings.of_pool(result["pool"]):
            yield pool_key(of_pool[0].cdi_model_name, of_pool[1])


def _slice_keys(item: Json, settings: Settings) -> Iterator[Key]:
    if name := slices.node(item):
        yield node_key(name)
    elif of_pool := settings.of_pool(slices.pool(item)):
        yield pool_key(of_pool[0].cdi_model_name, of_pool[1])


def _node_facts(node: Json) -> tuple[object, ...]:
    """What of a node matters; its heartbeats do not."""
    spec = node.get("spec") or {}
    return (spec.get("providerID"), node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable"),
            (node.get("status") or {}).get("allocatable"))


def fabric_keys(world: World, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterator[Key]:
    """Keys for what differs between two looks at the fabric, every node after the first; and for pools that do not
    show what they should: what was asked for before a look has left the manager's count, which may look the same."""
    if not world.pools_problem:
        for pool in sorted(publish.pool_keys(world)):
            if (plan := publish.plan(world, pool)) is not None and not plan.empty:
                yield pool_key(*pool)
    for node in world.nodes.list():
        uid = str((node.get("spec") or {}).get("providerID") or "").removeprefix(PROVIDER_PREFIX).rpartition("/")[2]
        if old is None or old.machines.get(uid) != new.machines.get(uid):
            yield node_key(node["metadata"]["name"])
