# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate plan: for each pod that our gate holds a node and its devices, or the reason why it is let go or waits."""

from __future__ import annotations

from collections import Counter

from . import words
from .judge import Explanation, Judge
from .memo import Memo
from .reserve import keep
from .state import NodeState, State
from .supply import Option, Supplier
from .units import Member, Sorter, Unit
from .view import Booking, GatePlan, GateSettings, GateView, Release

Placed = tuple[Member, NodeState, Option, float]


class _GatePlan:
    """Collects the decisions of one look at all gated pods."""

    def __init__(self, view: GateView, settings: GateSettings, memo: Memo) -> None:
        self.view, self.settings = view, settings
        self.state = State(view, memo)
        reader = memo.reader(view, settings)
        self.judge = Judge(self.state, Supplier(self.state, reader.catalogue), settings.allocation_policy)
        self.sorted = Sorter(view, memo, reader).sorted()
        self.failed: dict[frozenset[tuple[object, int]], tuple[int, Explanation]] = {}
        self.kept: set[tuple[str, ...]] = set()
        self.bookings: list[Booking] = []
        self.releases: list[Release] = []
        self.waiting: list[tuple[Unit, Explanation]] = []

    def plan(self) -> GatePlan:
        for pod, reason in self.sorted.refused:
            self.releases.append(Release(pod.ref, reason, judged=False))
        for unit in self.sorted.units:
            self._serve(unit)
        verdicts = [v for pod, reason in self.sorted.held for v in words.held(pod, reason)]
        for position, (unit, why) in enumerate(self.waiting, 1):
            verdicts += words.waiting(unit, why, position, len(self.waiting))
        return GatePlan(tuple(self.bookings), tuple(self.releases), tuple(verdicts),
                        min(self.sorted.wake, default=None))

    def _serve(self, unit: Unit) -> None:
        """Book the unit, or say why not. What failed once fails again, since a plan only ever takes; where terms about
        pods matter, as long as no pod was placed."""
        plain = not any(self.state.topology.concerns(m.case.facts) for m in unit.members)
        key = frozenset(Counter(m.case.key if plain else m.case.with_pods for m in unit.members).items())
        known = self.failed.get(key)
        if known is not None and (plain or known[0] == len(self.state.changed)):
            self._unserved(unit, known[1])
            return
        placed, why = self._try(unit)
        self.bookings += [words.booking(p[0], p[1], p[2], unit.group, self.view.now) for p in placed]
        if why is not None:
            self.failed[key] = (len(self.state.changed), why)
            self._unserved(unit, why)

    def _try(self, unit: Unit) -> tuple[list[Placed], Explanation | None]:
        """Place all pods of a unit, the largest asks first; when one fails, none is placed, and why."""
        placed: list[Placed] = []
        for member in sorted(unit.members, key=lambda m: -m.case.demand.count):
            hit = self.judge.pick(member.case)
            if hit is None:
                why = self.judge.explain(member.case)
                for other, node, option, turn in reversed(placed):
                    self.state.undo(node, other.case.facts, option.takes(), turn)
                return [], why
            node, option = hit
            placed.append((member, node, option, node.turn))
            self.state.place(node, member.case.facts, option.takes())
        return placed, None

    def _unserved(self, unit: Unit, why: Explanation) -> None:
        """Let the unit go, or have it wait for devices; the first that waits for the same models keeps a share."""
        if self.settings.unserved != "wait" or not why.lacking:
            reason = words.unserved(unit, why)
            self.releases += [Release(m.pod.ref, reason, judged=True) for m in unit.members]
            return
        self.waiting.append((unit, why))
        models = tuple(sorted({name for m in unit.members for name in m.case.demand.models}))
        if models not in self.kept:
            self.kept.add(models)
            for member in unit.members:
                keep(self.state, member.case, self.judge.suitable(member.case))


def plan_gates(view: GateView, settings: GateSettings, memo: Memo | None = None) -> GatePlan:
    """Plan every waiting pod that has no booking in the view. Pure: ``memo`` only saves reading things twice."""
    known = memo if memo is not None else Memo()
    plan = _GatePlan(view, settings, known).plan()
    known.forget(view)
    return plan
