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

from ...kube.objects import nodes, pods, slices
from ...planning.node.compose import ONLINE
from ...planning.scheduling.snapshot import NodeFacts
from ..state.cluster_state import ClusterState, Json

Read = Callable[[ClusterState, Json], NodeFacts]
Sources = tuple[t.Any, ...]


class KnownNodes:
    """By name, with what each was read from. Not thread-safe, as the ParseCache beside it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Sources, NodeFacts]] = {}

    def facts(self, state: ClusterState, read: Read) -> dict[str, NodeFacts]:
        """Facts of all nodes by name; ``read`` gives those of one that changed."""
        found: dict[str, NodeFacts] = {}
        before, self._known = self._known, {}
        for raw in state.nodes.list():
            name = raw["metadata"]["name"]
            sources = _sources(state, name, raw)
            known = before.get(name)
            if sources is not None and known is not None and _same(known[0], sources):
                found[name] = known[1]
            else:
                found[name] = read(state, raw)
            if sources is not None:
                self._known[name] = (sources, found[name])
        return found


def _sources(state: ClusterState, name: str, raw: Json) -> Sources | None:
    """All that the facts of a node at rest are read from; None for one that is not at rest."""
    resources, there = state.resources.by("node", name), state.pods.by("node", name)
    if not _at_rest(state, name, resources, there):
        return None
    uid = nodes.machine(raw)
    machine = state.snapshot.machines.get(uid) if state.snapshot else None
    sizes = state.snapshot.sizes.get(uid) if state.snapshot else None
    return (raw, machine, sizes, state.snapshot is None, state.hands.missing(name), state.hands.alive(name),
            tuple(sorted(state.hands.places(name).items())),
            *_shares(state, name), *state.nodes.by("machine", uid), *resources, *there,
            *state.claims.by("node", name), *state.requests.by("node", name), *_shown(state, name))


def _at_rest(state: ClusterState, name: str, resources: list[Json], there: list[Json]) -> bool:
    """No device comes or leaves or is kept for a claim, no pod is on its way there, and no model is kept off it."""
    if state.blocks.of(name, state.now()) or state.reservations.on(name):
        return False
    return all(map(pods.bound, there)) and all(_is_at_rest(state, resource) for resource in resources)


def _is_at_rest(state: ClusterState, resource: Json) -> bool:
    meta, status = resource["metadata"], resource.get("status") or {}
    if meta.get("deletionTimestamp") or status.get("state") != ONLINE or not status.get("cdi_device_id"):
        return False
    name = meta["name"]
    return not (state.holds.of(resource)[0] or name in state.operations or name in state.tainted)


def _shares(state: ClusterState, name: str) -> Iterator[object]:
    """Requests that name no node, and what this one was given of them."""
    for request in state.requests.by("node", ""):
        yield request
        yield (state.shares.of(request["metadata"]["name"]) or {}).get(name)


def _shown(state: ClusterState, name: str) -> Iterator[Json]:
    """Its ResourceSlices, and the claims that have something of them."""
    for item in state.slices.by("node", name):
        yield item
        yield from state.claims.by("allocated from", (slices.driver(item), slices.pool(item)))


def _same(old: Sources, new: Sources) -> bool:
    """Objects are never changed in place, so that the same object says the same; anything else is compared."""
    return len(old) == len(new) and all(a is b or (not isinstance(a, dict) and a == b)
                                        for a, b in zip(old, new, strict=True))
