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
class RoomRequest:
    """A request for ``count`` devices of a model on one node that has all ``labels``.

    ``claim`` is the namespace/name of the waiting claim, or empty for a claim that may come.
    """

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
    """Idle devices of a model on a node of a fabric.

    ``devices`` has the names of their ComposableResources with the time since when they are idle,
    the longest first. ``request`` is the ComposabilityRequest that releases them, or empty if it is
    not ours to change. ``stay`` is how many of them always stay, and ``why`` is the reason.
    """

    node: str
    fabric: int
    model: str
    request: str = ""
    devices: tuple[tuple[str, float], ...] = ()
    stay: int = 0
    why: str = ""

    @property
    def may_go(self) -> int:
        """Return how many of the devices may leave."""
        return max(0, len(self.devices) - self.stay) if self.request else 0


@dataclass(frozen=True, slots=True)
class Move:
    """Idle devices of a model that leave a node, by their ComposableResources.

    ``since`` is when the last of them became idle. ``until`` is the moment for their release.
    Exactly these devices are idle since before that moment.
    """

    node: str
    model: str
    request: str
    devices: tuple[str, ...]
    since: float
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves after which ``ask`` fits on ``target``.

    There are no moves if the ask already fits or if nothing helps. ``fits`` says whether the ask
    fits after the moves. ``id`` is equal only for the same target and the same devices.
    """

    ask: RoomRequest
    fits: bool
    why: str
    target: str = ""
    moves: tuple[Move, ...] = ()

    @property
    def id(self) -> str:
        """Return the ID of the plan, or an empty string if nothing is moved."""
        if not self.moves:
            return ""
        named = [self.target, *sorted(name for move in self.moves for name in move.devices)]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]

    @property
    def sentence(self) -> str:
        """Return the result in a sentence."""
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
    """Yield moves of ``count`` idle devices of one model and fabric, from other nodes than
    ``target``.

    Start with the nodes that can give the most, so that few nodes lose devices. From each node take
    the devices that are idle for longest. Yield fewer devices if fewer may leave.
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

    A moment decides which devices are released, so devices that are idle since the same moment
    leave together. If not all of them may leave, none of them does.
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
