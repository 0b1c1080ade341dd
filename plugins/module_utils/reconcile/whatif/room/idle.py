# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find idle devices of a captured cluster that could leave their nodes."""

from __future__ import annotations

from ....planning.node.demand import limits
from ....planning.node.snapshot import ComposableResource, NodeSnapshot
from ....planning.node.supply import stays, supply
from ....planning.settings import DeviceModel
from ...prewarm.minimums import idle_minimums
from ...state.cluster_state import ClusterState
from ...state.node_snapshot import node_snapshot
from .plan import IdleDevices


def idle_devices(state: ClusterState) -> list[IdleDevices]:
    """Return the idle devices by node and model.

    Devices that are kept idle for claims to come are available if a pod waits in vain. ``state`` is
    a copy of the caller's.
    """
    state.idle_minimums.replace(idle_minimums(state, state.now()))
    names = sorted(state.nodes.names())
    state.note_uses(names)
    snapshots = [node_snapshot(state, name) for name in names]
    return [_idle(state, snapshot, snapshot.fabric, row)
            for snapshot in snapshots if snapshot.machine is not None and snapshot.fabric is not None
            for name in snapshot.models() if (row := state.settings.model(name))]


def _idle(state: ClusterState, snapshot: NodeSnapshot, fabric: int, model: DeviceModel) -> IdleDevices:
    """Return unused devices. Devices that cannot leave come last, so that they are never taken
    first."""
    name, request = model.cdi_model_name, snapshot.request(model.cdi_model_name)
    of_model = supply(snapshot, name, state.settings)
    ours = [each for each in of_model.idle if request is not None and each.request == request.name]
    fixed = [each for each in of_model.idle if each not in ours or _is_fixed(each, snapshot)]
    able = sorted((each for each in ours if each not in fixed), key=lambda r: (r.idle_since, r.name))
    stay, why = _kept(state, snapshot, model, of_model.bound)
    devices = tuple((each.name, each.idle_since) for each in [*able, *fixed])
    if fixed and len(fixed) >= stay:
        stay, why = len(fixed), _fixed_why(fixed[0], snapshot)
    return IdleDevices(snapshot.name, fabric, name, request.name if request else "", devices, min(stay, len(devices)),
                       why)


def _is_fixed(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    return resource.in_use or resource.busy or stays(resource, snapshot)


def _fixed_why(resource: ComposableResource, snapshot: NodeSnapshot) -> str:
    if stays(resource, snapshot):
        return snapshot.no_agent
    if resource.in_use:
        return "the end of its last use is not recorded yet"
    return "another request owns it, or an operation is in flight"


def _kept(state: ClusterState, snapshot: NodeSnapshot, model: DeviceModel, bound: int) -> tuple[int, str]:
    """Return how many idle devices stay, and why."""
    low = limits(snapshot, model, state.settings)[0] - bound
    minimum = snapshot.prewarm.get(model.cdi_model_name, 0)
    if low > minimum:
        return low, f"label {state.settings.label(f'{model.k8s_device_name}-size-min')}"
    return minimum, "prewarm" if minimum else ""
