# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many idle devices nodes keep for claims that are still to come (the setting ``prewarm``).

One pass looks at all nodes of all floors and says what each node keeps. The plan of a node reads only what was said of
that node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...kube.objects import nodes
from ...planning.prewarm import Floor, Place, shares
from ...planning.settings import DeviceModel
from ..pool.snapshot import left, placements
from ..state.cluster_state import ClusterState, Json
from .floor_shares import FloorShare
from .waiting_models import WaitingModels

Waiting = Callable[[], Collection[str]]


def idle_shares(state: ClusterState, node: str) -> dict[str, int]:
    """By model, how many idle devices a node keeps now; empty where no pass over the floors said anything of it."""
    return {model: share.at(_idle(state, _devices(state, node, model)))
            for model, share in state.floor_shares.of(node).items()}


def floor_shares(state: ClusterState, now: float, waiting: Waiting | None = None) -> dict[str, dict[str, FloorShare]]:
    """What each node of a floor keeps at a moment (seconds since the epoch), by node and model.

    ``waiting`` gives the models that somebody waits for; they are asked for where a fabric has no more of one.
    """
    waiting = waiting or (lambda: WaitingModels().read(state))
    found: dict[str, dict[str, FloorShare]] = {}
    for floor in state.settings.floors if state.snapshot is not None else ():
        places = _places(state, floor, now)
        kept = _shares(state, floor, places, now, waiting)
        for place in places:
            of_node = found.setdefault(place.node, {})
            before = of_node.get(floor.model, FloorShare(place.idle, 0))
            of_node[floor.model] = FloorShare(place.idle, before.kept + kept.get(place.node, 0))
    return found


def _shares(state: ClusterState, floor: Floor, places: list[Place], now: float, waiting: Waiting) -> dict[str, int]:
    model, snapshot = state.settings.model(floor.model), state.snapshot
    if model is None or snapshot is None:
        return {}
    available = {fabric: left(state, model, fabric, snapshot) - placements(state, model, fabric, snapshot).total()
                 for fabric in {place.fabric for place in places}}
    spent = {fabric for fabric, n in available.items() if n <= 0}
    idle = floor.idle_at(now, state.arrivals.peaks(floor.key))
    return shares(idle, places, available, spent if spent and floor.model in waiting() else ())


def _places(state: ClusterState, floor: Floor, now: float) -> list[Place]:
    model = state.settings.model(floor.model)
    found = ((raw, state.machine_of(raw["metadata"]["name"])[1]) for raw in state.nodes.each()
             if floor.holds_for(_labels(raw)))
    return [_place(state, model, raw, fabric, now) for raw, fabric in found if model and fabric is not None]


def _place(state: ClusterState, model: DeviceModel, raw: Json, fabric: int, now: float) -> Place:
    """A node that no pod may go to gets nothing, nor one where the model cannot be attached now."""
    name = raw["metadata"]["name"]
    devices = _devices(state, name, model.cdi_model_name)
    closed = (raw["spec"].get("unschedulable") or not nodes.ready(raw) or state.hands.missing(name)
              or model.cdi_model_name in state.blocks.of(name, now))
    room = 0 if closed else max(0, state.settings.max_devices_per_node - len(devices))
    return Place(name, fabric, _idle(state, devices), len(devices), room)


def _devices(state: ClusterState, node: str, model: str) -> list[Json]:
    return [raw for raw in state.resources.by("node", node)
            if raw["spec"]["model"] == model and not raw["metadata"].get("deletionTimestamp")]


def _idle(state: ClusterState, devices: list[Json]) -> int:
    return sum(not (state.user(raw) or state.holds.of(raw)[0]) for raw in devices)


def _labels(raw: Json | None) -> dict[str, str]:
    return dict(((raw or {}).get("metadata") or {}).get("labels") or {})
