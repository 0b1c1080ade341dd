# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the facts of each node for the planner of gated pods. Read a node again only if it changed.

kube-scheduler's cache does the same: its ``UpdateSnapshot`` copies the nodes that changed. No
caller reports a change. The facts of a node are valid as long as they would be read from the same
objects. If they also depend on the time or on the memory of this process, the node is read every
time.
"""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...kube.objects import cohdi, nodes, pods, slices
from ...kube.watch.contents import Handles
from ...kube.watch.parts import shared
from ...planning.node.compose import ONLINE
from ...planning.scheduling.snapshot import NodeFacts
from ..state.cluster_state import ClusterState, Json

Read = Callable[[ClusterState, Json], NodeFacts]
Sources = tuple[t.Any, ...]


@dataclass(slots=True)
class _Known:
    """Cache entry of a node.

    ``node`` is the Node as stored, ``raw`` as decoded, ``machine`` the UID of its machine.
    ``slices`` are its ResourceSlices as stored, ``pools`` their drivers and pools. ``sources`` are
    all values that ``facts`` were read from, or None if the facts must be read every time.
    """

    node: object
    raw: Json
    machine: str
    slices: tuple[object, ...] = ()
    pools: tuple[tuple[str, str], ...] = ()
    sources: Sources | None = None
    facts: NodeFacts | None = None


class KnownNodes:
    """Facts of nodes by name. Not thread-safe, like the ParseCache that is used with it."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def facts(self, state: ClusterState, read: Read) -> dict[str, NodeFacts]:
        """Return the facts of all nodes by name. Call ``read`` for nodes that changed."""
        before, self._known, busy = self._known, {}, _busy(state)
        return {name: self._facts_of(state, name, known, busy, read)
                for (_namespace, name), node in state.nodes.all_handles()
                if (known := self._note(state, name, node, before.get(name)))}

    def ahead(self, state: ClusterState, read: Read) -> Iterator[NodeFacts]:
        """Yield the facts of each node in turn. Plans may be made between two steps."""
        for (_namespace, name), node in state.nodes.all_handles():
            there = state.nodes.get(name) is not None
            if there and (known := self._note(state, name, node, self._known.get(name))):
                yield self._facts_of(state, name, known, _busy(state), read)

    def _note(self, state: ClusterState, name: str, node: object, known: _Known | None) -> _Known | None:
        """Return the entry of a node, made or refreshed if needed, or None if the node is gone."""
        if known is None or known.node is not node:
            raw = state.nodes.get(name)
            known = _Known(node, _thin(raw), nodes.machine(raw)) if raw else None
        if known:
            self._known[name] = known
        return known

    def _facts_of(self, state: ClusterState, name: str, known: _Known, busy: set[str], read: Read) -> NodeFacts:
        resources = state.resources.handles("node", name)
        if _disturbed(state, name, resources, busy):
            known.sources = known.facts = None
            return read(state, known.raw)
        sources = _sources(state, name, known, resources)
        if known.facts is None or known.sources is None or not _same(known.sources, sources):
            known.facts = read(state, known.raw)
            calm = _at_rest(state, name) and not _disturbed(state, name, resources, _busy(state))
            known.sources = sources if calm else None
        return known.facts


def _busy(state: ClusterState) -> set[str]:
    """Return the ComposableResources about which this process remembers more than their objects
    show."""
    return {*state.tainted, *state.operations.names(), *state.holds.names()}


def _thin(node: Json) -> Json:
    """Return a Node that shares equal parts with other Nodes in memory."""
    labels = {sys.intern(name): sys.intern(value) for name, value in (node["metadata"].get("labels") or {}).items()}
    meta = {**node["metadata"], **({"labels": labels} if labels else {})}
    return {**node, "metadata": meta, **({"status": shared(node["status"])} if "status" in node else {})}


def _sources(state: ClusterState, name: str, known: _Known, resources: Handles) -> Sources:
    """Return all values that the facts of a node at rest are read from."""
    uid = known.machine
    machine = state.snapshot.machines.get(uid) if state.snapshot else None
    sizes = state.snapshot.sizes.get(uid) if state.snapshot else None
    own = state.slices.handles("node", name)
    _read_pools(state, name, known, tuple(kept for _key, kept in own))
    objects = (*(state.nodes.handles("machine", uid) if uid else ()), *resources, *state.pods.handles("node", name),
               *state.claims.handles("node", name), *state.requests.handles("node", name), *own,
               *(each for pool in known.pools for each in state.claims.handles("allocated from", pool)))
    return (known.node, machine, sizes, state.snapshot is None, state.hands.missing(name), state.hands.alive(name),
            tuple(sorted(state.hands.places(name).items())), *_shares(state, name), *(kept for _key, kept in objects))


def _read_pools(state: ClusterState, name: str, known: _Known, own: tuple[object, ...]) -> None:
    if len(own) != len(known.slices) or any(a is not b for a, b in zip(own, known.slices, strict=True)):
        known.slices = own
        known.pools = tuple((slices.driver(item), slices.pool(item)) for item in state.slices.by("node", name))


def _disturbed(state: ClusterState, name: str, resources: Handles, busy: set[str]) -> bool:
    """Return whether the facts also depend on the memory of this process.

    They do if a device is kept for a claim or has an operation in flight, if the node has a
    reservation, or if a model is blocked on the node.
    """
    if state.blocks.of(name, state.now()) or state.reservations.on(name):
        return True
    return bool(busy) and any(resource in busy for (_namespace, resource), _kept in resources)


def _at_rest(state: ClusterState, name: str) -> bool:
    """Return whether the objects of a node show no change in flight.

    Then no device is being attached, detached or kept for a claim, and all pods of the node are
    bound.
    """
    return all(map(pods.bound, state.pods.by("node", name))) and all(
        _is_at_rest(resource) for resource in state.resources.by("node", name))


def _is_at_rest(resource: Json) -> bool:
    meta, status = resource["metadata"], resource.get("status") or {}
    if meta.get("deletionTimestamp") or status.get("state") != ONLINE or not status.get("cdi_device_id"):
        return False
    return not cohdi.read_hold(resource)[0]


def _shares(state: ClusterState, name: str) -> Iterator[object]:
    """Yield each request that names no node, and the share of it that this node got."""
    for (_namespace, request), kept in state.requests.handles("node", ""):
        yield kept
        yield (state.shares.of(request) or {}).get(name)


def _same(old: Sources, new: Sources) -> bool:
    """Compare stored objects by identity, and all other values by equality."""
    return len(old) == len(new) and all(a is b or (not isinstance(a, (bytes, dict)) and a == b)
                                        for a, b in zip(old, new, strict=True))
