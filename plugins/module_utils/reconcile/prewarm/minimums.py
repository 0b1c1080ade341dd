# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how many idle devices nodes keep for claims that are still to come (the setting
``prewarm``).

One pass reads all nodes of all minimums and computes the share of each node. The plan of a node
reads only its own share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...fabric.api import FabricSnapshot
from ...model.node import Node
from ...model.value import Json
from ...planning.bar_room import BAR_ROOM, BarRoom
from ...planning.prewarm import IdleMinimum, Place, shares
from ...planning.settings import DeviceModel
from ..pool.snapshot import left, placements
from ..state.cluster_state import ClusterState
from ..state.idle_minimums import FloorShare
from ..state.usage import devices_on, idle_of
from .waiting_models import WaitingModels

Waiting = Callable[[], Mapping[str, int]]
Wishes = Sequence[tuple[int, list[Place]]]
"""The wanted number of idle devices and the nodes, for each minimum of a model."""


def idle_minimums(state: ClusterState, now: float, waiting: Waiting | None = None) -> dict[str, dict[str, FloorShare]]:
    """Return the shares of each node at ``now`` (seconds since the epoch), by node and model.

    ``waiting`` returns the models that pods wait for, with the largest number that a pod requests.
    It is called only if a fabric may have too few devices for the pod beside the minimums.
    """
    found: dict[str, dict[str, FloorShare]] = {}
    for name in dict.fromkeys(minimum.model for minimum in state.settings.idle_minimums):
        model = state.settings.model(name)
        if model is None or state.snapshot is None:
            continue
        wishes = [(minimum.idle_at(now), _places(state, minimum, model, now))
                  for minimum in state.settings.idle_minimums if minimum.model == name]
        available = _available(state, model, state.snapshot, wishes)
        contested = _contested(state, name, wishes, available, waiting or (lambda: WaitingModels().read(state)))
        for idle, places in wishes:
            kept = shares(idle, places, available, contested)
            for place in places:
                of_node = found.setdefault(place.node, {})
                before = of_node.get(name, FloorShare(place.idle, 0))
                of_node[name] = FloorShare(place.idle, before.kept + kept.get(place.node, 0))
    return found


def _available(state: ClusterState, model: DeviceModel, snapshot: FabricSnapshot, wishes: Wishes) -> dict[int, int]:
    """Return by fabric how many free devices are not wanted by claims with a node."""
    return {fabric: left(state, model, fabric, snapshot) - placements(state, model, fabric, snapshot).total()
            for fabric in {place.fabric for _idle, places in wishes for place in places}}


def _contested(state: ClusterState, model: str, wishes: Wishes, available: Mapping[int, int],
               waiting: Waiting) -> set[int]:
    """Return the fabrics that have too few devices beside the minimums for a waiting pod.

    Idle devices count as free, so that the answer does not change while they are returned.
    """
    beside = Counter({fabric: n - sum(idle for idle, _places in wishes) for fabric, n in available.items()})
    for place in {place.node: place for _idle, places in wishes for place in places}.values():
        beside[place.fabric] += place.idle
    few = {fabric for fabric, n in beside.items() if n < state.settings.max_devices_per_node}
    asked = waiting().get(model, 0) if few else 0
    return {fabric for fabric in few if beside[fabric] < asked}


def _places(state: ClusterState, minimum: IdleMinimum, model: DeviceModel, now: float) -> list[Place]:
    found = ((node, state.machine_of(node.name)[1]) for node in state.nodes.each_value()
             if minimum.holds_for(node.labels))
    return [_place(state, model, node, fabric, now) for node, fabric in found if fabric is not None]


def _place(state: ClusterState, model: DeviceModel, node: Node, fabric: int, now: float) -> Place:
    """Return a node for ``shares``. It has no room if no pod may run there or the model cannot be
    attached."""
    name = node.name
    devices = devices_on(state, name, model.cdi_model_name)
    closed = (node.unschedulable or not node.ready or state.agents.missing(name)
              or model.cdi_model_name in state.blocks.of(name, now))
    room = 0 if closed else max(0, state.settings.max_devices_per_node - len(devices))
    fits = _bar_room(state, name, model) if room else None
    room = room if fits is None else min(room, fits)
    return Place(name, fabric, idle_of(state, devices), len(devices), room)


def _bar_room(state: ClusterState, node: str, model: DeviceModel) -> int | None:
    """Return for how many more devices of a model there is room for memory windows, or None if
    unknown."""
    places = state.agents.places(node)
    if BAR_ROOM not in places:
        return None
    there = Counter(each.model for each in state.resources.values("node", node))
    return BarRoom.of(places, state.settings.models).fits(model.cdi_model_name, there)


def _labels(raw: Json | None) -> dict[str, str]:
    return dict(((raw or {}).get("metadata") or {}).get("labels") or {})
