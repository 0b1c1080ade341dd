# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many idle devices a node keeps for claims that are still to come (the setting ``prewarm``)."""

from __future__ import annotations

from collections import Counter

from ...kube.objects import claims, nodes, pods
from ...planning.prewarm import Floor, Place, shares
from ...planning.settings import DeviceModel
from ..pool.snapshot import left, placements
from .cluster_state import ClusterState, Json


def idle_shares(state: ClusterState, node: str) -> dict[str, int]:
    """By model, how many idle devices a node keeps; empty where the setting says nothing of it."""
    found: Counter[str] = Counter()
    for floor in state.settings.floors:
        if state.snapshot is not None and floor.holds_for(_labels(state.nodes.get(node))):
            found[floor.model] += _shares(state, floor, _places(state, floor)).get(node, 0)
    return dict(found)


def short_nodes(state: ClusterState) -> set[str]:
    """Nodes that have fewer idle devices than they should keep: they are to be planned."""
    found = set()
    for floor in state.settings.floors if state.snapshot is not None else ():
        places = _places(state, floor)
        kept = _shares(state, floor, places)
        found |= {place.node for place in places if kept.get(place.node, 0) > place.idle}
    return found


def _shares(state: ClusterState, floor: Floor, places: list[Place]) -> dict[str, int]:
    model, snapshot = state.settings.model(floor.model), state.snapshot
    if model is None or snapshot is None:
        return {}
    available = {fabric: left(state, model, fabric, snapshot) - placements(state, model, fabric, snapshot).total()
                 for fabric in {place.fabric for place in places}}
    waiting = {fabric for fabric, n in available.items() if n <= 0} if _somebody_waits(state) else set()
    return shares(floor.idle, places, available, waiting)


def _places(state: ClusterState, floor: Floor) -> list[Place]:
    model = state.settings.model(floor.model)
    found = ((raw, state.machine_of(raw["metadata"]["name"])[1]) for raw in state.nodes.list()
             if floor.holds_for(_labels(raw)))
    return [_place(state, model, raw, fabric) for raw, fabric in found if model and fabric is not None]


def _place(state: ClusterState, model: DeviceModel, raw: Json, fabric: int) -> Place:
    """A node that no pod may go to gets nothing, nor one where the model cannot be attached now."""
    name = raw["metadata"]["name"]
    devices = [r for r in state.resources.by("node", name) if r["spec"]["model"] == model.cdi_model_name
               and not r["metadata"].get("deletionTimestamp")]
    idle = sum(not (state.user(r) or state.holds.of(r)[0]) for r in devices)
    closed = (raw["spec"].get("unschedulable") or not nodes.ready(raw) or state.hands.missing(name)
              or model.cdi_model_name in state.blocks.of(name, state.now()))
    room = 0 if closed else max(0, state.settings.max_devices_per_node - len(devices))
    return Place(name, fabric, idle, len(devices), room)


def _labels(raw: Json | None) -> dict[str, str]:
    return dict(((raw or {}).get("metadata") or {}).get("labels") or {})


def _somebody_waits(state: ClusterState) -> bool:
    """Whether a pod without a node has a claim without devices."""
    for pod in state.pods.list():
        found = {} if pods.bound(pod) or pods.ended(pod) else state.claims_by_entry(pod)
        if any(claim is not None and not claims.results(claim) for claim in found.values()):
            return True
    return False
