# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the facts of each node for the planner of gated pods. Read a node again only if it changed.

kube-scheduler's cache does the same: its ``UpdateSnapshot`` copies the nodes that changed. No
caller reports a change. The stores tell which objects changed, and the other sources are compared
with what they said before. A node with anything that depends on the time, such as a device that is
kept for a claim, is looked at for each plan. The facts of such a node are read again only if they
would be read from other objects, or if this process remembers something else about them.
"""

from __future__ import annotations

import operator
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from ...fabric.api import FabricSnapshot
from ...kube.times import parse_time
from ...kube.watch.keys import Key, key_of
from ...model.node import Node
from ...model.pod import Pod
from ...model.resource import Resource
from ...planning.node.compose import ONLINE
from ...planning.scheduling.snapshot import NodeFacts
from ..state.cluster_state import ClusterState
from ..state.node_snapshot import hold_of

Read = Callable[[ClusterState, Node], NodeFacts]
Values = tuple[t.Any, ...]
# Default grace period of a pod. The scheduler counts the pod's room until it is gone.
ROOM_SECONDS: t.Final = 30.0


@dataclass(slots=True)
class _Known:
    """Cache entry of a node.

    ``slices`` are the ResourceSlices of ``node``, ``pools`` their drivers and pools. ``facts`` were
    read from ``objects`` and ``remembered``. ``resources`` are the names of its ComposableResources.
    ``leaving`` are the pods for which the time and the memory of this process matter. ``restless``:
    the facts may change though no object does.
    """

    node: Node
    slices: Values = ()
    pools: tuple[tuple[str, str], ...] = ()
    objects: Values = ()
    resources: frozenset[str] = frozenset()
    leaving: tuple[Key, ...] = ()
    remembered: tuple[Values, Values] | None = None
    facts: NodeFacts | None = None
    restless: bool = True


class _Sources:
    """Tells which nodes have changed in ``state`` since the last call, from the first one on."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._nodes = state.nodes.follow(lambda node: (node.name,), known=False)
        self._machines = state.nodes.follow(partial(state.nodes.places, "machine"), known=False)
        self._pools = state.claims.follow(partial(state.claims.places, "allocated from"), known=False)
        self._others = [store.follow(partial(store.places, "node"), known=False) for store in (
            state.slices, state.resources, state.claims, state.pods, state.requests)]
        self._agents: dict[str, tuple[bool, Mapping[str, str | int]]] = {}
        self._snapshot: FabricSnapshot | None = None

    def changed_nodes(self, known: Mapping[str, _Known], busy: set[str]) -> set[str]:
        """Return the names of nodes with facts that may be others now, of nodes that are gone, too.

        ``busy``: the ComposableResources about which this process remembers something.
        """
        state, snapshot = self._state, self._state.snapshot
        found = {str(name) for changes in (self._nodes, *self._others) for name in changes.take()}
        for machine in self._machines.take():
            found.update(state.nodes.names_at("machine", machine))
        if pools := self._pools.take():
            found.update(name for name, each in known.items() if not pools.isdisjoint(each.pools))
        if "" in found or state.requests.has("node", ""):  # any node may get devices of such a request
            found.update(known)
        found.update(each.node for name in busy if (each := state.resources.value(name)))
        found.update(state.blocks.nodes())
        agents, self._agents = self._agents, state.agents.states()
        found.update(name for name in {*agents, *self._agents} if agents.get(name) != self._agents.get(name))
        if snapshot is not self._snapshot:
            found.update(self._inventory_changed(known, self._snapshot, snapshot))
            self._snapshot = snapshot
        return found

    def _inventory_changed(self, known: Mapping[str, _Known], before: FabricSnapshot | None,
                           now: FabricSnapshot | None) -> Iterator[str]:
        if before is None or now is None:
            yield from known
            return
        for name, each in known.items():
            uid = each.node.machine
            if before.machines.get(uid) != now.machines.get(uid) or before.sizes.get(uid) != now.sizes.get(uid):
                yield name
        for device in {*before.shared, *now.shared}:
            yield from (each.node for each in self._state.resources.values("device", device))


class KnownNodes:
    """Facts of the nodes of one state by name. Not thread-safe, like the cycle that is used with it."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._sources: _Sources | None = None

    def facts(self, state: ClusterState, read: Read) -> dict[str, NodeFacts]:
        """Return the facts of all nodes by name. Call ``read`` for nodes that changed."""
        busy = _busy(state)
        changed = self._changes(state).changed_nodes(self._known, busy)
        nodes = {node.name: node for node in state.nodes.each_value()}  # after the changes, so that none is missed
        for gone in self._known.keys() - nodes.keys():
            del self._known[gone]
        return {name: known.facts if (known := self._known.get(name)) and known.facts and not known.restless
                and name not in changed else self._look(state, node, busy, read) for name, node in nodes.items()}

    def ahead(self, state: ClusterState, read: Read) -> Iterator[NodeFacts]:
        """Yield the facts of each node in turn. Plans may be made between two steps."""
        self._changes(state)
        for each in state.nodes.each_value():
            if node := state.nodes.value(each.name):
                yield self._look(state, node, _busy(state), read)

    def _changes(self, state: ClusterState) -> _Sources:
        self._sources = self._sources or _Sources(state)
        return self._sources

    def _look(self, state: ClusterState, node: Node, busy: set[str], read: Read) -> NodeFacts:
        """Return the facts of a node, read again if need be. A heartbeat is no change of a Node."""
        known = self._known.get(node.name)
        if known is None or known.node != node:
            known = self._known[node.name] = _Known(node)
        return self._facts_of(state, known, busy, read)

    def _facts_of(self, state: ClusterState, known: _Known, busy: set[str], read: Read) -> NodeFacts:
        name = known.node.name
        objects = _objects(state, name, known)
        if not _same(known.objects, objects):
            known.objects, known.facts = objects, None
            known.resources = frozenset(state.resources.names_at("node", name))
            known.leaving = _leaving(state, name)
        remembered = _remembered(state, name, known, busy)
        if known.facts is None or known.remembered != remembered:
            known.facts = read(state, known.node)
            calm = remembered == _remembered(state, name, known, _busy(state))
            known.remembered = remembered if calm else None
        known.restless = known.remembered is None or any(known.remembered[1])
        return known.facts


def _busy(state: ClusterState) -> set[str]:
    """Return the ComposableResources about which this process remembers more than their objects
    show."""
    return {*state.tainted, *state.operations.names(), *state.holds.names()}


def _objects(state: ClusterState, name: str, known: _Known) -> Values:
    """Return all objects that the facts of a node are read from."""
    own = tuple(state.slices.at("node", name))
    if not _same(known.slices, own):
        known.slices = own
        known.pools = tuple((found.driver, found.pool) for found in state.slices.values("node", name))
    return (*state.resources.at("node", name), *state.pods.at("node", name), *state.claims.at("node", name),
            *state.requests.at("node", name), *state.requests.at("node", ""), *own,
            *(each for pool in known.pools for each in state.claims.at("allocated from", pool)))


def _remembered(state: ClusterState, name: str, known: _Known, busy: set[str]) -> tuple[Values, Values]:
    """Return all other values that the facts are read from: of the last inventory and of this process.

    A node with any of the second values is looked at for each plan.
    """
    uid, snapshot, now = known.node.machine, state.snapshot, state.now()
    moving = _moving(state, name) | (known.resources & busy)
    calm = (state.nodes.names_at("machine", uid) if uid else (),
            snapshot is None, snapshot and snapshot.machines.get(uid), snapshot and snapshot.sizes.get(uid),
            state.agents.missing(name), state.agents.alive(name), state.agents.places(name),
            [(state.shares.of(request) or {}).get(name) for request in state.requests.names_at("node", "")])
    return calm, (
        state.blocks.of(name, now), _shared(state, name),
        [_of_resource(state, resource, now) for resource in sorted(moving)],
        [(pod := state.pods.value(key[1], key[0])) is not None and counts(state, pod) for key in known.leaving])


def _of_resource(state: ClusterState, name: str, now: float) -> Values | None:
    """Return what the time and the memory of this process say about a ComposableResource."""
    found = state.resources.value(name)
    if found is None:
        return None
    return hold_of(state, found, now), name in state.operations, state.tainted.get(name), _overdue(state, found, now)


def _overdue(state: ClusterState, resource: Resource, now: float) -> bool:
    return resource.asked < now - state.settings.placement_timeout


def _moving(state: ClusterState, name: str) -> frozenset[str]:
    """Return the ComposableResources of a node that move, or for which the time since the request
    matters."""
    now = state.now()
    return frozenset(each.name for each in state.resources.values("node", name)
                     if not _is_at_rest(each) or not (_overdue(state, each, now) or _is_shown(state, each)))


def _is_shown(state: ClusterState, resource: Resource) -> bool:
    """Return whether pods can get the device, so that it does not become overdue."""
    return not resource.pool_device and len(state.sight(resource).drivers) == 1


def _shared(state: ClusterState, name: str) -> list[tuple[str, Values]]:
    """Return the devices of a node that several machines show in the last inventory."""
    shared = state.snapshot.shared if state.snapshot else {}
    uids = (each.device_uid for each in (state.resources.values("node", name) if shared else ()))
    return [(uid, tuple(shared[uid])) for uid in uids if uid in shared]


def _leaving(state: ClusterState, name: str) -> tuple[Key, ...]:
    """Return the pods of a node that may count at one time and not at another."""
    return tuple(key_of(pod) for pod in state.pods.values("node", name) if pod.deleted or pod.held)


def counts(state: ClusterState, pod: Pod) -> bool:
    """Return whether a pod takes room on its node.

    A gated pod without a reservation only has an old nomination.
    """
    if pod.deleted:
        runs = bool(pod.node) and pod.phase not in ("Succeeded", "Failed")
        return runs and parse_time(pod.deleted) > state.now() + ROOM_SECONDS
    return not pod.ended and not (pod.held and state.reservations.get(pod.uid) is None)


def _is_at_rest(resource: Resource) -> bool:
    attached = resource.state == ONLINE and bool(resource.device_uid)
    return attached and not resource.deleting and not resource.hold[0]


def _same(old: Values, new: Values) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))
