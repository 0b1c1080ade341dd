# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of the whole cluster from which nodes are chosen for pods that our gate holds."""

from __future__ import annotations

import time
import typing as t
from collections import Counter
from dataclasses import replace

from ..fabric.types import FabricSnapshot
from ..kube import gates, slices
from ..kube.times import parse_time
from ..scaling.demand import PREPARING, limits
from ..scaling.gating.view import Booking, GatedPod, GateView, Group, IdleDevice, NodeFacts, Stock
from ..scaling.settings import DeviceModel, Settings
from ..scaling.view import NodeView, Resource
from .bookings import Seat
from .poolview import left
from .world import Json, World

SAMPLES = 4


def gate_view(world: World, pods: tuple[GatedPod, ...]) -> GateView:
    """Everything that is needed to choose nodes for these pods, at this moment."""
    nodes = {n["metadata"]["name"]: _facts(world, n) for n in world.nodes.list()}
    return GateView(
        now=time.time(), nodes=nodes, waiting=pods,
        bookings=tuple(_booking(world, seat) for seat in world.bookings.all()),
        free=_free(world, world.snapshot) if world.snapshot else {},
        namespaces={n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in world.namespaces.list()},
        classes={c["metadata"]["name"]: c for c in world.classes.list()},
        samples=_samples(world), last_booked=world.bookings.last_chosen(),
        excluded=world.settings.ungated_models)


def waiting(world: World) -> t.Iterator[GatedPod]:
    """Held pods for which no node is chosen, in namespaces that are served while they are held."""
    groups: dict[str, int] | None = None
    for raw in world.pods.by("gated", True):
        if world.bookings.get(raw["metadata"]["uid"]) or gates.foreign(raw):
            continue
        of_group = gates.group(raw)
        if of_group and groups is None:
            groups = _placed(world)
        group = Group(*of_group, placed=(groups or {}).get(of_group[0], 0)) if of_group else None
        namespace = raw["metadata"]["namespace"]
        found = {entry: world.claims.get(name, namespace) if name else None
                 for entry, name in gates.claim_names(raw).items()}
        yield GatedPod(raw, found, parse_time(raw["metadata"].get("creationTimestamp")), group)


def _placed(world: World) -> dict[str, int]:
    """Members of each group that have left the gate."""
    found: Counter[str] = Counter()
    for pod in world.pods.list():
        if not gates.held(pod) and not gates.ended(pod) and (group := gates.group(pod)):
            found[group[0]] += 1
    return found


def _booking(world: World, seat: Seat) -> Booking:
    """The booking with what is held for it by now, or was given to it already."""
    holding: Counter[str] = Counter()
    for uid, needs in seat.booking.needs.items():
        given = needs if world.has_devices(uid) else [raw["spec"]["model"] for raw in world.holds.kept_for(uid)]
        holding.update(given)
    return replace(seat.booking, holding=dict(holding)) if holding else seat.booking


def _facts(world: World, raw: Json) -> NodeFacts:
    """One node. A device of a booking that still waits counts as idle or coming; the planner takes it off."""
    name = raw["metadata"]["name"]
    view = world.node_view(name)
    settings = world.settings
    pods = tuple(p for p in world.pods.by("node", name) if _counts(world, p))
    if view.machine is None:
        return NodeFacts(name, raw, pods, problem=view.problem)
    present = frozenset({r.model for r in view.resources} | {r.model for r in view.requests if r.size > 0})
    stock = {m.cdi_model_name: _stock(world, view, m) for m in settings.models
             if m.cdi_model_name in present or _limited(view, m, settings)}
    return NodeFacts(name, raw, pods, view.machine, view.fabric, view.problem, stock, present, dict(view.blocked),
                     settings.max_devices_per_node)


def _counts(world: World, pod: Json) -> bool:
    """True for a pod that takes room on its node. One that is held without a booking only has an old nomination."""
    return not gates.ended(pod) and not (gates.held(pod) and world.bookings.get(pod["metadata"]["uid"]) is None)


def _limited(view: NodeView, model: DeviceModel, settings: Settings) -> bool:
    return limits(view, model, settings)[1] != settings.max_devices_per_node


def _stock(world: World, view: NodeView, model: DeviceModel) -> Stock:
    live = view.live(model.cdi_model_name)
    idle = [r for r in live if r.visible and r.device_uid and not (r.used_by or r.hold_alive)]
    coming = [r for r in live if not (r.visible and r.device_uid) and not (r.used_by or r.hold_alive)]
    taken = [r for r in live if r.used_by or r.hold_alive]
    promised = sum(c.need()[model.cdi_model_name] for c in view.claims if c.phase == PREPARING)
    idle, coming = _promise(idle, coming, promised)
    limit = limits(view, model, world.settings)[1]
    devices = [IdleDevice(r.name, d) for r in idle if (d := _entry(world, view.name, r))]
    return Stock(tuple(devices), len(coming), len(taken) + promised, limit)


def _promise(idle: list[Resource], coming: list[Resource], n: int) -> tuple[list[Resource], list[Resource]]:
    """What is left when ``n`` devices are for claims that the pool has promised them to: idle ones go first."""
    rest = max(0, n - len(idle))
    return idle[n:], coming[rest:]


def _entry(world: World, node: str, resource: Resource) -> Json | None:
    """The device's entry in the node's ResourceSlice."""
    for item in world.slices.by("uuid", resource.serial):
        if slices.node(item) == node:
            return next((d for d in slices.devices(item) if slices.attribute(d, "uuid") == resource.serial), None)
    return None


def _free(world: World, snapshot: FabricSnapshot) -> dict[tuple[str, int], int]:
    return {(name, fabric): left(world, model, fabric, snapshot)
            for name, fabric in snapshot.free if (model := world.settings.model(name))}


def _samples(world: World) -> dict[str, tuple[Json, ...]]:
    """Some entries of ResourceSlices of each model, so that it is known what its devices have in common."""
    found: dict[str, list[Json]] = {}
    for raw in world.resources.list():
        serial, model = (raw.get("status") or {}).get("device_id"), raw["spec"]["model"]
        if not serial or len(found.get(model, ())) >= SAMPLES:
            continue
        for item in world.slices.by("uuid", serial):
            found.setdefault(model, []).extend(d for d in slices.devices(item) if slices.attribute(d, "uuid") == serial)
    return {m: tuple(ds) for m, ds in found.items()}
