# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan: which idle devices leave their nodes so that an ask fits on one node."""

from __future__ import annotations

import hashlib
import json
import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ask:
    """``count`` devices of a model on one node that has all ``labels``. ``claim``: namespace and name of the claim that
    waits for them, empty for a claim that may come."""

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
    """Idle devices of a model on one node of a fabric, as names of their ComposableResources with the moment since when
    they are idle, longest first. ``request``: the ComposabilityRequest by which they are released, empty if it is not
    ours to change. ``stay``: how many of them stay whatever is asked for, and ``why``."""

    node: str
    fabric: int
    model: str
    request: str = ""
    devices: tuple[tuple[str, float], ...] = ()
    stay: int = 0
    why: str = ""

    @property
    def may_go(self) -> int:
        """How many of them may leave."""
        return max(0, len(self.devices) - self.stay) if self.request else 0


@dataclass(frozen=True, slots=True)
class Move:
    """Devices of a model that leave a node, by their ComposableResources: idle ones, and no others. ``since``: when the
    youngest of them became idle. ``until``: what was idle since before that moment may go, which is these."""

    node: str
    model: str
    request: str
    devices: tuple[str, ...]
    since: float
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be moved so that ``ask`` fits on ``target``; nothing if it fits as it is, or if nothing helps.

    ``fits``: whether it does after that. ``id`` is the same only for the same target and the same devices.
    """

    ask: Ask
    fits: bool
    why: str
    target: str = ""
    moves: tuple[Move, ...] = ()

    @property
    def id(self) -> str:
        """Empty if nothing is moved."""
        if not self.moves:
            return ""
        named = [self.target, *sorted(name for move in self.moves for name in move.devices)]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]

    @property
    def sentence(self) -> str:
        """What it comes to."""
        if not self.fits or not self.moves:
            return self.why
        moved = ", ".join(f"{len(move.devices)} x {move.model} from node {move.node}" for move in self.moves)
        return f"move {moved}, then {self.ask} fits on node {self.target}"

    def as_data(self) -> dict[str, t.Any]:
        """Return the plan as a module returns it."""
        moves = [{"node": move.node, "model": move.model, "devices": list(move.devices), "request": move.request,
                  "reason": move.reason} for move in self.moves]
        return {"id": self.id, "fits": self.fits, "target": self.target, "moves": moves, "why": self.why,
                "ask": {"model": self.ask.model, "count": self.ask.count, "claim": self.ask.claim,
                        "node_labels": dict(self.ask.labels)}}

    def difference(self) -> dict[str, dict[str, list[str]]]:
        """Return which devices are attached and idle before and after."""
        before = {f"idle {move.model} on node {move.node}": list(move.devices) for move in self.moves}
        return {"before": before, "after": {name: [] for name in before}}


def brought(target: str, idle: Iterable[IdleDevices], count: int, now: float) -> Iterator[Move]:
    """Yield moves of ``count`` idle devices of one model and fabric, from other nodes than ``target``.

    The node that has most to give comes first, so that few nodes lose devices. Of each node the devices that were idle
    for longest go. Fewer devices are moved if fewer may leave.
    """
    lacking = count
    others = sorted((each for each in idle if each.node != target), key=lambda each: (-each.may_go, each.node))
    for each in others:
        if lacking <= 0:
            return
        move = leaving(each, min(lacking, each.may_go), now, f"node {target} lacks {lacking} x {each.model}")
        if move.devices:
            lacking -= len(move.devices)
            yield move


def leaving(idle: IdleDevices, count: int, now: float, reason: str) -> Move:
    """Return the move of the first ``count`` of some idle devices.

    They are released by a moment, so devices that are idle since the very same moment go together. If not all of these
    may go, none of them does.
    """
    listed, most = idle.devices, idle.may_go if count else 0
    while 0 < count < len(listed) and listed[count - 1][1] == listed[count][1]:
        count += 1
    while count > most or (0 < count < len(listed) and listed[count - 1][1] == listed[count][1]):
        count -= 1
    until = listed[count][1] if count < len(listed) else now
    since = listed[count - 1][1] if count else 0.0
    return Move(idle.node, idle.model, idle.request, tuple(name for name, _since in listed[:count]), since, until,
                reason)
