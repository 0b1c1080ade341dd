# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan for held pods is told of a node, from what the node's own plan is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..device_info import DRIVER_LABEL
from ..node.demand import PREPARING, limits
from ..node.snapshot import ComposableResource, NodeSnapshot
from ..node.supply import stuck_device
from ..settings import DeviceModel, Settings
from .snapshot import IdleDevice, Json, NodeFacts, Stock

Shown = tuple[tuple[str, int], Json, str, str]
"""Where a device stands in the node's ResourceSlices (slice, place), its entry there, the slice's driver, and its UUID
where the entry is one for all that are alike."""
Entry = Callable[[ComposableResource], "Shown | None"]


def node_facts(snapshot: NodeSnapshot, raw: Json, pods: Sequence[Json], settings: Settings,
               entry: Entry, places: Mapping[str, str | int]) -> NodeFacts:
    """One node. A device of a placement that still waits counts as idle or coming; the planner takes it off."""
    if snapshot.machine is None:
        return NodeFacts(snapshot.name, raw, pods, problem=snapshot.problem)
    present = frozenset({r.model for r in snapshot.resources} | {r.model for r in snapshot.requests if r.size > 0})
    stock = {m.cdi_model_name: _stock(snapshot, m, settings, entry) for m in settings.models
             if m.cdi_model_name in present or limits(snapshot, m, settings)[1] != settings.max_devices_per_node}
    blocked = {**snapshot.blocked, **{m.cdi_model_name: why for m in settings.models
                                      if (why := stuck_device(snapshot, (m.cdi_model_name,)))}}
    return NodeFacts(snapshot.name, raw, pods, snapshot.machine, snapshot.fabric, snapshot.problem, stock, present,
                     blocked, settings.max_devices_per_node, places, nodes_driver(raw))


def nodes_driver(raw: Json) -> str:
    """The DRA driver that the label of a node names, empty for none."""
    return str((raw["metadata"].get("labels") or {}).get(DRIVER_LABEL) or "")


def _stock(snapshot: NodeSnapshot, model: DeviceModel, settings: Settings, entry: Entry) -> Stock:
    live, limit = snapshot.live(model.cdi_model_name), limits(snapshot, model, settings)[1]
    if stuck_device(snapshot, (model.cdi_model_name,)):
        return Stock((), 0, len(live), limit)
    idle = [r for r in live if r.usable and r.device_uid and not r.taken]
    overdue = [r for r in live if _overdue(r, snapshot.now - settings.placement_timeout)]
    coming = [r for r in live if not (r.usable and r.device_uid) and not r.taken and r not in overdue]
    taken = [r for r in live if r.taken or r in overdue]
    promised = sum(c.need()[model.cdi_model_name] for c in snapshot.claims if c.phase == PREPARING)
    # What the pool has promised to claims goes to nobody else: idle ones go first.
    idle, coming = idle[promised:], coming[max(0, promised - len(idle)):]
    shown = sorted(((found, r.name) for r in idle if (found := entry(r))), key=lambda each: (each[0][0], each[1]))
    # the scheduler takes the first that fit
    devices = [IdleDevice(name, device, driver, uuid) for (_place, device, driver, uuid), name in shown]
    return Stock(tuple(devices), len(coming), len(taken) + promised, limit)


def _overdue(resource: ComposableResource, since: float) -> bool:
    """Asked for so long ago that nobody counts on it any more; it still takes a place."""
    return not (resource.usable or resource.taken) and 0.0 < resource.asked < since
