# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which idle devices have to leave their nodes so that a large ask fits on one node.

A claim's devices are all on one node. Free devices can be attached to any node of their fabric, so they are never in
the way; only what is attached elsewhere and idle is, since it is kept for a while, and models that cannot be on one
node together. What a claim has is never moved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .node.demand import conflict
from .settings import DeviceModel, Settings


@dataclass(frozen=True, slots=True)
class Ask:
    """``count`` devices of a model on one node that has all ``labels``. ``claim``: namespace and name of the claim that
    waits for them, empty for one that may come."""

    model: str
    count: int
    labels: Mapping[str, str] = field(default_factory=dict)
    claim: str = ""

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value}" for name, value in sorted(self.labels.items()))
        who = f" for claim {self.claim}" if self.claim else ""
        return f"{self.count} x {self.model} on one node{f' with {where}' if where else ''}{who}"


@dataclass(frozen=True, slots=True)
class IdleDevices:
    """Idle devices of a model on one node, as names of their ComposableResources with the moment since when they are
    idle, longest first. ``stay``: how many of them stay whatever is asked for, and ``why``. ``request``: the
    ComposabilityRequest by which they are released, empty where it is not ours to change."""

    request: str = ""
    devices: tuple[tuple[str, float], ...] = ()
    stay: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """A node with its machine's fabric. ``closed``: why it can be given no device of the asked model, empty when it
    can. ``idle`` by model; ``bound``: how many others of a model it has: claims have them, or they are on their way.
    ``most``: how many of the asked model it may have."""

    name: str
    fabric: int
    labels: Mapping[str, str] = field(default_factory=dict)
    closed: str = ""
    idle: Mapping[str, IdleDevices] = field(default_factory=dict)
    bound: Mapping[str, int] = field(default_factory=dict)
    most: int = 0


@dataclass(frozen=True, slots=True)
class FabricDevices:
    """All nodes, what is ``free`` by (model, fabric), what is on its way back included, and the moment."""

    nodes: tuple[NodeDevices, ...]
    free: Mapping[tuple[str, int], int]
    now: float


@dataclass(frozen=True, slots=True)
class Move:
    """Devices of a model that leave a node, by their ComposableResources: idle ones, and no others. ``since``: when the
    youngest of them became idle; ``until``: what was idle since before that moment may go, which is these."""

    node: str
    model: str
    request: str
    devices: tuple[str, ...]
    since: float
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is to be moved so that ``ask`` fits on ``target``; nothing when it fits as it is, or when nothing helps.

    ``fits``: whether it does after that. ``id`` is the same only for the same target and the same devices.
    """

    ask: Ask
    fits: bool
    why: str
    target: str = ""
    moves: tuple[Move, ...] = ()

    @property
    def id(self) -> str:
        """Empty where nothing is moved."""
        if not self.moves:
            return ""
        named = [self.target, *sorted(name for move in self.moves for name in move.devices)]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]


def proposals(devices: FabricDevices, settings: Settings, ask: Ask) -> list[Proposal]:
    """One proposal for each node on which the ask can fit, that with the fewest moves first. Pure.

    Where it can fit on none there is one that says why.
    """
    model = settings.model(ask.model)
    if model is None:
        return [Proposal(ask, False, f"{ask.model} is no model of device_info")]
    found = [_on(node, devices, settings, model, ask) for node in sorted(devices.nodes, key=lambda n: n.name)]
    fitting = sorted((each for each in found if each.fits), key=lambda p: (_moved(p), p.target))
    return fitting or [Proposal(ask, False, _nowhere(ask, found))]


def _moved(proposal: Proposal) -> int:
    return sum(len(move.devices) for move in proposal.moves)


def _nowhere(ask: Ask, found: Sequence[Proposal]) -> str:
    said = "; ".join(each.why for each in found) or "there is no node"
    return f"no move makes room for {ask}: {said}"


def _on(node: NodeDevices, devices: FabricDevices, settings: Settings, model: DeviceModel, ask: Ask) -> Proposal:
    """Whether it fits on this node, and after which moves."""
    if impossible := _impossible(node, settings, model, ask):
        return Proposal(ask, False, f"node {node.name} {impossible}", node.name)
    here = len(node.idle.get(ask.model, IdleDevices()).devices)
    free = devices.free.get((ask.model, node.fabric), 0)
    lacking = max(0, ask.count - here - free)
    away = [_away(node, name, devices.now, f"{name} cannot be on a node together with {ask.model}")
            for name in _rivals(node.idle, settings, model)]
    brought = [*_brought(node, devices, ask, lacking)]
    if (moved := sum(len(move.devices) for move in brought)) < lacking:
        return Proposal(ask, False, f"node {node.name} would have {here + free + moved} of {ask.count} at most"
                        f"{_kept_elsewhere(node, devices, ask)}", node.name)
    return Proposal(ask, True, _why(node, ask, here, free, lacking), node.name, (*away, *brought))


def _why(node: NodeDevices, ask: Ask, here: int, free: int, lacking: int) -> str:
    said = f"node {node.name} has {here} x {ask.model} idle and fabric {node.fabric} has {free} free"
    return f"{said}, {lacking} more of {ask.count} are idle on other nodes" if lacking else f"{said}, of {ask.count}"


def _impossible(node: NodeDevices, settings: Settings, model: DeviceModel, ask: Ask) -> str:
    if not ask.labels.items() <= node.labels.items():
        return "has not all of these labels"
    if node.closed:
        return f"can be given none: {node.closed}"
    bound = node.bound.get(ask.model, 0)
    if bound + ask.count > node.most:
        return f"may have {node.most}, {bound} of them are in use or on their way"
    if rivals := _rivals(node.bound, settings, model):
        return f"has {rivals[0]} in use or on its way, which cannot be on a node together with {ask.model}"
    for name in _rivals(node.idle, settings, model):
        idle = node.idle[name]
        if idle.stay or not idle.request:
            return f"has {name}, which cannot be on a node together with {ask.model} and stays: {idle.why}"
    return ""


def _rivals(present: Mapping[str, object], settings: Settings, model: DeviceModel) -> list[str]:
    """Models that are there and cannot be on a node together with another."""
    others = {name: row for name, there in present.items() if there and (row := settings.model(name))}
    others.pop(model.cdi_model_name, None)
    return [name for name, row in sorted(others.items()) if conflict(model, {name: row})]


def _brought(target: NodeDevices, devices: FabricDevices, ask: Ask, lacking: int) -> Iterator[Move]:
    """Idle devices of other nodes of the fabric: from the node that has most to give first, so that few nodes lose
    some, and on each the one that was idle for longest."""
    others = [node for node in devices.nodes if node.name != target.name and node.fabric == target.fabric]
    for node in sorted(others, key=lambda n: (-_may_go(n, ask.model), n.name)):
        if lacking <= 0:
            return
        move = _taken(node, ask.model, min(lacking, _may_go(node, ask.model)), devices.now,
                      f"node {target.name} lacks {lacking} x {ask.model}")
        if move.devices:
            lacking -= len(move.devices)
            yield move


def _may_go(node: NodeDevices, model: str) -> int:
    idle = node.idle.get(model, IdleDevices())
    return max(0, len(idle.devices) - idle.stay) if idle.request else 0


def _away(node: NodeDevices, model: str, now: float, reason: str) -> Move:
    return _taken(node, model, len(node.idle[model].devices), now, reason)


def _taken(node: NodeDevices, model: str, count: int, now: float, reason: str) -> Move:
    """The first of the idle ones. They are released by a moment, so those that are idle since the very same one go
    together; where not all of these may go, none of them does."""
    idle = node.idle.get(model, IdleDevices())
    listed, most = idle.devices, _may_go(node, model) if count else 0
    while 0 < count < len(listed) and listed[count - 1][1] == listed[count][1]:
        count += 1
    while count > most or (0 < count < len(listed) and listed[count - 1][1] == listed[count][1]):
        count -= 1
    until = listed[count][1] if count < len(listed) else now
    since = listed[count - 1][1] if count else 0.0
    return Move(node.name, model, idle.request, tuple(name for name, _since in listed[:count]), since, until, reason)


def _kept_elsewhere(target: NodeDevices, devices: FabricDevices, ask: Ask) -> str:
    """What is idle on other nodes and stays there, with the reason."""
    kept = [f"{node.name} keeps {idle.stay} ({idle.why})" for node in devices.nodes if node.name != target.name
            and node.fabric == target.fabric and (idle := node.idle.get(ask.model, IdleDevices())).stay]
    return f"; {', '.join(kept)}" if kept else ""
