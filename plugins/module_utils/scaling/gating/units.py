# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is planned, in which order: pods sorted into those that can be judged, that are let go, and that must wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .demand import Reader
from .judge import Case
from .memo import Memo
from .quantity import BadQuantity
from .view import GATE, Booking, GatedPod, GateView, Group

CLAIM_PATIENCE = 30.0
"""Seconds until a pod is let go whose claim nobody creates."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that can be planned."""

    pod: GatedPod
    case: Case

    @property
    def priority(self) -> int:
        """Of the pod."""
        return int(self.pod.raw["spec"].get("priority") or 0)


@dataclass(frozen=True, slots=True)
class Unit:
    """What is served together or not at all: one pod, or the pods of a group."""

    members: tuple[Member, ...]
    group: str = ""

    @property
    def order(self) -> tuple[int, float, str]:
        """Priority, then age; a group counts with its most important and its oldest pod."""
        first = min((m.pod.since, m.pod.uid) for m in self.members)
        return (-max(m.priority for m in self.members), *first)


@dataclass(slots=True)
class Sorted:
    """Pods by what becomes of them: ``units`` are planned; ``refused`` and ``held`` say why not."""

    units: list[Unit] = field(default_factory=list)
    refused: list[tuple[GatedPod, str]] = field(default_factory=list)
    held: list[tuple[GatedPod, str]] = field(default_factory=list)
    wake: list[float] = field(default_factory=list)


class Sorter:
    """Sorts the waiting pods of a view."""

    def __init__(self, view: GateView, memo: Memo, reader: Reader) -> None:
        self.view, self.memo, self.reader = view, memo, reader
        self.booked = {b.pod.uid: b for b in view.bookings}
        self.waiting = [p for p in view.waiting if p.uid not in self.booked]
        self.users = _users(self.waiting, view.bookings)
        self.result = Sorted()

    def sorted(self) -> Sorted:
        """Every waiting pod that has no booking, in exactly one place."""
        groups: dict[str, list[GatedPod]] = {}
        for pod in sorted(self.waiting, key=lambda p: (p.since, p.uid)):
            if pod.group:
                groups.setdefault(pod.group.key, []).append(pod)
            else:
                self._single(pod)
        for pods in groups.values():
            self._group(pods)
        self.result.units.sort(key=lambda unit: unit.order)
        return self.result

    def _single(self, pod: GatedPod) -> None:
        if reason := self._holds(pod):
            self.result.held.append((pod, reason))
            return
        member = self._member(pod)
        if isinstance(member, Member):
            self.result.units.append(Unit((member,)))
        else:
            self.result.refused.append((pod, member))

    def _group(self, pods: list[GatedPod]) -> None:
        """All or none, also of what is let go: one that cannot be judged takes the others along."""
        group = pods[0].group
        if group is None or group.size < 1:
            self.result.refused += [(p, f"group {group.key if group else ''} does not say its size") for p in pods]
            return
        held = next(((p, r) for p in pods if (r := self._holds(p))), None)
        if held is not None or self._count(group, pods) < group.size:
            self._hold_group(group, pods, held)
            return
        members = [(p, self._member(p)) for p in pods]
        bad = next(((p, m) for p, m in members if isinstance(m, str)), None)
        if bad is not None:
            reason = f"pod {bad[0].ref.name} of group {group.key}: {bad[1]}"
            self.result.refused += [(p, reason) for p in pods]
        else:
            self.result.units.append(Unit(tuple(m for _pod, m in members if isinstance(m, Member)), group.key))

    def _hold_group(self, group: Group, pods: list[GatedPod], held: tuple[GatedPod, str] | None) -> None:
        reason = f"group {group.key} has {self._count(group, pods)} of {group.size} pods"
        if held is not None:
            reason = f"pod {held[0].ref.name} of group {group.key}: {held[1]}"
        self.result.held += [(p, reason) for p in pods]

    def _count(self, group: Group, pods: list[GatedPod]) -> int:
        booked = sum(b.group == group.key for b in self.view.bookings)
        return len(pods) + booked + group.placed

    def _holds(self, pod: GatedPod) -> str:
        """What the pod waits for before it can be planned at all; empty when it need not."""
        gates = [g["name"] for g in pod.raw["spec"].get("schedulingGates") or () if g["name"] != GATE]
        if gates:
            return f"its scheduling gate {gates[0]} is not ours and still there"
        missing = [name for name, claim in pod.claims.items() if claim is None]
        until = pod.since + CLAIM_PATIENCE
        if missing and self.view.now < until:
            self.result.wake.append(until)
            return f"its claim {missing[0]} is not created yet"
        return ""

    def _member(self, pod: GatedPod) -> Member | str:
        """The pod with what it asks for, or why it is let go."""
        if any(claim is None for claim in pod.claims.values()):
            return f"one of its claims was not created within {CLAIM_PATIENCE:g} s"
        demand = self.reader.known(pod)
        if isinstance(demand, str):
            return demand
        if reason := self._shared(pod):
            return reason
        try:
            return Member(pod, Case(self.memo.pod(pod.raw), demand))
        except BadQuantity as error:
            return str(error)

    def _shared(self, pod: GatedPod) -> str:
        for claim in pod.claims.values():
            if claim is not None and self.users[claim["metadata"]["uid"]] > 1:
                return f"claim {claim['metadata']['name']} is shared with another pod"
        return ""


def _users(pods: list[GatedPod], bookings: tuple[Booking, ...]) -> Mapping[str, int]:
    """How many pods want a claim, by its uid."""
    found: Counter[str] = Counter()
    for pod in pods:
        found.update({c["metadata"]["uid"] for c in pod.claims.values() if c is not None})
    for booking in bookings:
        found.update(set(booking.needs))
    return found
