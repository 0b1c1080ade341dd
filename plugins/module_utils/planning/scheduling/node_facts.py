# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the facts of a node for the plan of gated pods from the snapshot of the node's own plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...model.node import Node
from ...model.pod import Pod
from ..device_info import DRIVER_LABEL
from ..node.demand import PREPARING, limits
from ..node.snapshot import ComposableResource, NodeSnapshot
from ..node.supply import stuck_device
from ..settings import DeviceModel, Settings
from .snapshot import IdleDevice, Json, NodeFacts, Stock

Shown = tuple[tuple[str, int], Json, str, str]
"""Position of a device in the node's ResourceSlices (slice, place), its entry, the slice's driver,
and its UUID.

The UUID is set only if one entry stands for all equal devices.
"""
Entry = Callable[[ComposableResource], "Shown | None"]


def node_facts(snapshot: NodeSnapshot, node: Node, pods: Sequence[Pod], settings: Settings,
               entry: Entry, places: Mapping[str, str | int]) -> NodeFacts:
    """Return the facts of one node.

    A device of a placement that still waits counts as idle or coming. The planner subtracts it.
    """
    if snapshot.machine is None:
        return NodeFacts(snapshot.name, node, pods, problem=snapshot.problem)
    present = frozenset({r.model for r in snapshot.resources} | {r.model for r in snapshot.requests if r.size > 0})
    stock = {m.cdi_model_name: _stock(snapshot, m, settings, entry) for m in settings.models
             if m.cdi_model_name in present or limits(snapshot, m, settings)[1] != settings.max_devices_per_node}
    blocked = {**snapshot.blocked, **{m.cdi_model_name: why for m in settings.models
                                      if (why := stuck_device(snapshot, (m.cdi_model_name,)))}}
    return NodeFacts(snapshot.name, node, pods, snapshot.machine, snapshot.fabric, snapshot.problem, stock, present,
                     blocked, settings.max_devices_per_node, places, nodes_driver(node))


def nodes_driver(node: Node) -> str:
    """Return the DRA driver in the label of a node, empty for none."""
    return node.labels.get(DRIVER_LABEL, "")


def _stock(snapshot: NodeSnapshot, model: DeviceModel, settings: Settings, entry: Entry) -> Stock:
    live, limit = snapshot.live(model.cdi_model_name), limits(snapshot, model, settings)[1]
    if stuck_device(snapshot, (model.cdi_model_name,)):
        return Stock((), 0, len(live), limit)
    idle = [r for r in live if r.usable and r.device_uid and not r.taken]
    overdue = [r for r in live if _overdue(r, snapshot.now - settings.placement_timeout)]
    coming = [r for r in live if not (r.usable and r.device_uid) and not r.taken and r not in overdue]
    taken = [r for r in live if r.taken or r in overdue]
    promised = sum(c.need()[model.cdi_model_name] for c in snapshot.claims if c.phase == PREPARING)
    # Devices that the pool promised to claims go to no other pod, idle devices first.
    idle, coming = idle[promised:], coming[max(0, promised - len(idle)):]
    shown = sorted(((found, r.name) for r in idle if (found := entry(r))), key=lambda each: (each[0][0], each[1]))
    # kube-scheduler takes the first devices that fit
    devices = [IdleDevice(name, device, driver, uuid) for (_place, device, driver, uuid), name in shown]
    return Stock(tuple(devices), len(coming), len(taken) + promised, limit)


def _overdue(resource: ComposableResource, since: float) -> bool:
    """Return whether the attach timed out. The device is then not supply, but still occupies a
    place.
    """
    return not (resource.usable or resource.taken) and 0.0 < resource.asked < since
