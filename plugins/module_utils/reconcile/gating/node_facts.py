# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the facts of each node for the planner of gated pods. Read a node again only if it changed.

kube-scheduler's cache does the same: its ``UpdateSnapshot`` copies the nodes that changed. No
caller reports a change. The facts of a node are valid as long as they would be read from the same
objects, and this process remembers the same about them. A value that depends on the time, such as
whether a device is still kept for a claim, is computed each time and compared.
"""

from __future__ import annotations

import operator
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
    ``moving`` are those, and ``leaving`` the pods, for which the time and the memory of this process
    matter.
    """

    node: Node
    slices: Values = ()
    pools: tuple[tuple[str, str], ...] = ()
    objects: Values = ()
    resources: frozenset[str] = frozenset()
    moving: frozenset[str] = frozenset()
    leaving: tuple[Key, ...] = ()
    remembered: Values | None = None
    facts: NodeFacts | None = None


class KnownNodes:
    """Facts of nodes by name. Not thread-safe, like the ParseCache that is used with it."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def facts(self, state: ClusterState, read: Read) -> dict[str, NodeFacts]:
        """Return the facts of all nodes by name. Call ``read`` for nodes that changed."""
        before, self._known, busy = self._known, {}, _busy(state)
        return {node.name: self._facts_of(state, self._note(node, before), busy, read)
                for node in state.nodes.each_value()}

    def ahead(self, state: ClusterState, read: Read) -> Iterator[NodeFacts]:
        """Yield the facts of each node in turn. Plans may be made between two steps."""
        for each in state.nodes.each_value():
            if node := state.nodes.value(each.name):
                yield self._facts_of(state, self._note(node, self._known), _busy(state), read)

    def _note(self, node: Node, before: Mapping[str, _Known]) -> _Known:
        """Return the entry of a node, a new one if the Node has changed. A heartbeat is no change."""
        known = before.get(node.name)
        if known is None or known.node != node:
            known = _Known(node)
        self._known[node.name] = known
        return known

    def _facts_of(self, state: ClusterState, known: _Known, busy: set[str], read: Read) -> NodeFacts:
        name = known.node.name
        objects = _objects(state, name, known)
        if not _same(known.objects, objects):
            known.objects, known.facts = objects, None
            known.resources = frozenset(state.resources.names_at("node", name))
            known.moving, known.leaving = _moving(state, name), _leaving(state, name)
        remembered = _remembered(state, name, known, busy)
        if known.facts is None or known.remembered != remembered:
            known.facts = read(state, known.node)
            calm = remembered == _remembered(state, name, known, _busy(state))
            known.remembered = remembered if calm else None
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


def _remembered(state: ClusterState, name: str, known: _Known, busy: set[str]) -> Values:
    """Return all other values that the facts are read from: of the last inventory and of this process."""
    uid, snapshot, now = known.node.machine, state.snapshot, state.now()
    moving = known.moving | (known.resources & busy)
    return (state.nodes.names_at("machine", uid) if uid else (),
            snapshot is None, snapshot and snapshot.machines.get(uid), snapshot and snapshot.sizes.get(uid),
            state.agents.missing(name), state.agents.alive(name), state.agents.places(name), state.blocks.of(name, now),
            [(state.shares.of(request) or {}).get(name) for request in state.requests.names_at("node", "")],
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
    """Return the ComposableResources of a node that move, or may move by what this process knows."""
    now = state.now()
    return frozenset(each.name for each in state.resources.values("node", name)
                     if not _is_at_rest(each) or not _overdue(state, each, now))


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
