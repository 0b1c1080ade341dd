# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planner of held pods needs to know of each node, read anew only where something changed.

As kube-scheduler's cache, whose ``UpdateSnapshot`` copies the nodes that changed. Nobody has to tell of a change: what
is known of a node counts as long as it would be read from the very same objects, and a node where time or the memory of
this process has a say is read each time.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...kube.objects import cohdi, nodes, pods, slices
from ...kube.watch.contents import Handles
from ...kube.watch.parts import shared
from ...planning.node.compose import ONLINE
from ...planning.scheduling.snapshot import NodeFacts
from ..state.cluster_state import ClusterState, Json
from .node_labels import LabelNames

Read = Callable[[ClusterState, Json], NodeFacts]
Sources = tuple[t.Any, ...]


@dataclass(slots=True)
class _Known:
    """``node``: the Node as it is kept, ``raw``: as it is read, ``machine``: what it is on. ``slices``: those of the
    node as they are kept, ``pools``: their drivers and pools. ``sources``: all that ``facts`` were read from, None
    where they have to be read each time."""

    node: object
    raw: Json
    machine: str
    slices: tuple[object, ...] = ()
    pools: tuple[tuple[str, str], ...] = ()
    sources: Sources | None = None
    facts: NodeFacts | None = None


class KnownNodes:
    """By name, with what each was read from. Not thread-safe, as the ParseCache beside it."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._names = LabelNames()

    def facts(self, state: ClusterState, read: Read) -> dict[str, NodeFacts]:
        """Facts of all nodes by name; ``read`` gives those of one that changed."""
        before, self._known, busy = self._known, {}, _busy(state)
        return {name: self._facts_of(state, name, known, busy, read)
                for (_namespace, name), node in state.nodes.all_handles()
                if (known := self._note(state, name, node, before.get(name)))}

    def ahead(self, state: ClusterState, read: Read) -> Iterator[NodeFacts]:
        """The same of one node after the other; plans may be made between."""
        for (_namespace, name), node in state.nodes.all_handles():
            there = state.nodes.get(name) is not None
            if there and (known := self._note(state, name, node, self._known.get(name))):
                yield self._facts_of(state, name, known, _busy(state), read)

    def _note(self, state: ClusterState, name: str, node: object, known: _Known | None) -> _Known | None:
        """What is known of a node from now on; None when it is gone."""
        if known is None or known.node is not node:
            raw = state.nodes.get(name)
            known = _Known(node, _thin(raw, self._names), nodes.machine(raw)) if raw else None
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
    """ComposableResources of which the memory of this process knows more than their objects say."""
    return {*state.tainted, *state.operations.names(), *state.holds.names()}


def _thin(node: Json, names: LabelNames) -> Json:
    """A Node of which what it has alike with others is in memory once."""
    labels = node["metadata"].get("labels") or {}
    meta = {**node["metadata"], **({"labels": names.labels(labels)} if labels else {})}
    return {**node, "metadata": meta, **({"status": shared(node["status"])} if "status" in node else {})}


def _sources(state: ClusterState, name: str, known: _Known, resources: Handles) -> Sources:
    """All that the facts of a node at rest are read from."""
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
    """Whether the memory of this process has a say: a device is kept for a claim or is at work, or a model is kept off
    the node."""
    if state.blocks.of(name, state.now()) or state.reservations.on(name):
        return True
    return bool(busy) and any(resource in busy for (_namespace, resource), _kept in resources)


def _at_rest(state: ClusterState, name: str) -> bool:
    """By its objects: no device comes or leaves or is kept for a claim, and no pod is on its way there."""
    return all(map(pods.bound, state.pods.by("node", name))) and all(
        _is_at_rest(resource) for resource in state.resources.by("node", name))


def _is_at_rest(resource: Json) -> bool:
    meta, status = resource["metadata"], resource.get("status") or {}
    if meta.get("deletionTimestamp") or status.get("state") != ONLINE or not status.get("cdi_device_id"):
        return False
    return not cohdi.read_hold(resource)[0]


def _shares(state: ClusterState, name: str) -> Iterator[object]:
    """Requests that name no node, and what this one was given of them."""
    for (_namespace, request), kept in state.requests.handles("node", ""):
        yield kept
        yield (state.shares.of(request) or {}).get(name)


def _same(old: Sources, new: Sources) -> bool:
    """What is kept of an object is the same as long as the object is; anything else is compared."""
    return len(old) == len(new) and all(a is b or (not isinstance(a, (bytes, dict)) and a == b)
                                        for a, b in zip(old, new, strict=True))
