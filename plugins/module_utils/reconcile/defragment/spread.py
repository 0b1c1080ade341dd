# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the devices of a captured cluster are, and which idle ones could leave their node."""

from __future__ import annotations

from collections import Counter

from ...kube.objects import nodes
from ...planning.defragment import FabricDevices, IdleDevices, NodeDevices
from ...planning.node.demand import limits
from ...planning.node.snapshot import ComposableResource, NodeSnapshot
from ...planning.node.supply import stays, supply
from ...planning.settings import DeviceModel
from ..gating.returning import returning
from ..pool.snapshot import left
from ..prewarm.floors import floor_shares
from ..state.cluster_state import ClusterState
from ..state.node_snapshot import node_snapshot


def fabric_devices(state: ClusterState, model: DeviceModel) -> FabricDevices:
    """All nodes with a machine, as they are for an ask of this model. What is kept for it is kept no more where a pod
    waits for it in vain. The state is a copy of the caller's."""
    state.floor_shares.replace(floor_shares(state, state.now()))
    names = sorted(state.nodes.names())
    state.note_uses(names)
    found = (_node(state, node_snapshot(state, name), model) for name in names)
    return FabricDevices(tuple(node for node in found if node), _free(state), state.now())


def _free(state: ClusterState) -> dict[tuple[str, int], int]:
    if (snapshot := state.snapshot) is None:
        return {}
    free = Counter({(name, fabric): left(state, model, fabric, snapshot) for name, fabric in snapshot.free
                    if (model := state.settings.model(name))})
    free.update(returning(state, snapshot))
    return dict(free)


def _node(state: ClusterState, snapshot: NodeSnapshot, model: DeviceModel) -> NodeDevices | None:
    if snapshot.machine is None or snapshot.fabric is None:
        return None
    idle, bound = {}, Counter[str]()
    for name in snapshot.models():
        row = state.settings.model(name)
        if row is not None:
            idle[name] = _idle(state, snapshot, row)
            bound[name] = len(snapshot.live(name)) - len(idle[name].devices)
    most, closed = limits(snapshot, model, state.settings)[1], _closed(state, snapshot, model)
    return NodeDevices(snapshot.name, snapshot.fabric, snapshot.labels, closed, idle, bound, most)


def _closed(state: ClusterState, snapshot: NodeSnapshot, model: DeviceModel) -> str:
    raw = state.nodes.get(snapshot.name) or {}
    if (raw.get("spec") or {}).get("unschedulable"):
        return "it is cordoned"
    if not nodes.ready(raw):
        return "it is not ready"
    return snapshot.blocked.get(model.cdi_model_name, "")


def _idle(state: ClusterState, snapshot: NodeSnapshot, model: DeviceModel) -> IdleDevices:
    """What nobody has. Of these the ones that cannot leave come last, so that they are never taken first."""
    name, request = model.cdi_model_name, snapshot.request(model.cdi_model_name)
    of_model = supply(snapshot, name, state.settings)
    ours = [each for each in of_model.idle if request is not None and each.request == request.name]
    fixed = [each for each in of_model.idle if each not in ours or _is_fixed(each, snapshot)]
    able = sorted((each for each in ours if each not in fixed), key=lambda r: (r.idle_since, r.name))
    stay, why = _kept(state, snapshot, model, of_model.bound)
    devices = tuple((each.name, each.idle_since) for each in [*able, *fixed])
    if fixed and len(fixed) >= stay:
        stay, why = len(fixed), _fixed_why(fixed[0], snapshot)
    return IdleDevices(request.name if request else "", devices, min(stay, len(devices)), why)


def _is_fixed(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    return resource.in_use or resource.busy or stays(resource, snapshot)


def _fixed_why(resource: ComposableResource, snapshot: NodeSnapshot) -> str:
    if stays(resource, snapshot):
        return snapshot.no_hands
    return "the end of its last use is not written down yet" if resource.in_use else "its request is not ours"


def _kept(state: ClusterState, snapshot: NodeSnapshot, model: DeviceModel, bound: int) -> tuple[int, str]:
    """How many idle ones stay, and for what."""
    low = limits(snapshot, model, state.settings)[0] - bound
    floor = snapshot.prewarm.get(model.cdi_model_name, 0)
    if low > floor:
        return low, f"its label {state.settings.label(f'{model.k8s_device_name}-size-min')}"
    return floor, "prewarm" if floor else ""
