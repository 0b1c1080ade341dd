# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cycle that lives on from plan to plan, for whoever makes thousands of plans of a cluster that changes a little.

As kube-scheduler's cache, which updates its snapshot by the nodes that changed.
"""

from __future__ import annotations

import typing as t

from ..cycle import CycleState, placements_by_node
from ..demand_reader import DemandReader
from ..feasibility import FeasibilityCheck
from ..parse_cache import ParseCache
from ..plan import QueuePlanner
from ..queue import QueuedPod, SchedulingQueue, build_queue, judge
from ..snapshot import GatedPod, Placement, SchedulingPlan, SchedulingSettings, SchedulingSnapshot
from ..supply import Supplier

MOST_CHANGES: t.Final = 100_000
"""After so many the cycle is made anew, so that it does not grow for ever."""
FORGETTING: t.Final = 64
"""After so many plans it is looked whether what was read is still there."""


class LiveCycle:
    """Plans as ``plan_placements`` does, but looks anew only at nodes that changed since the last plan.

    A node has changed when its NodeFacts are another object, its placements are, or a plan took or withheld something
    there. Where Node objects, namespaces, DeviceClasses or samples changed, the cycle is made
    anew; ``cycles`` counts how often.
    """

    def __init__(self, settings: SchedulingSettings) -> None:
        self.settings, self.cache = settings, ParseCache()
        self._reader: DemandReader | None = None
        self._feasibility: FeasibilityCheck | None = None
        self._last = SchedulingSnapshot(0.0, {})
        self._seen = self.cycles = self.plans = 0

    def plan(self, snapshot: SchedulingSnapshot, line: SchedulingQueue | None = None) -> SchedulingPlan:
        """The plan. ``line``: of the pods that wait, where the caller keeps one; the snapshot's are not read then, and
        of a ``WaitingLine`` the plan does not say what each pod waits for."""
        reader = self.cache.demand_reader(snapshot, self.settings)
        feasibility = self._renewed(snapshot, reader)
        queue = line if line is not None else build_queue(snapshot, self.cache, reader)
        plan = QueuePlanner(snapshot, self.settings, feasibility, queue).plan()
        self.plans += 1
        if self.plans % FORGETTING == 0:
            self.cache.forget(snapshot)
        return plan

    def judge(self, pod: GatedPod, snapshot: SchedulingSnapshot) -> QueuedPod | str:
        """A pod with what it demands, for the line; or why it is let go."""
        return judge(pod, self.cache, self.cache.demand_reader(snapshot, self.settings))

    def _renewed(self, snapshot: SchedulingSnapshot, reader: DemandReader) -> FeasibilityCheck:
        feasibility = self._feasibility
        if feasibility is not None and reader is self._reader and self._is_like(snapshot, feasibility.state):
            self._renew(snapshot, feasibility)
        else:
            self.cycles += 1
            state = CycleState(snapshot, self.cache)
            feasibility = FeasibilityCheck(state, Supplier(state, reader.catalogue), self.settings.allocation_policy)
        self._feasibility, self._reader, self._last = feasibility, reader, snapshot
        self._seen = len(feasibility.state.changed)
        return feasibility

    def _is_like(self, snapshot: SchedulingSnapshot, state: CycleState) -> bool:
        nodes, last = snapshot.nodes, state.nodes
        return (len(state.changed) < MOST_CHANGES and snapshot.namespaces == self._last.namespaces
                and nodes.keys() == last.keys()
                and all(facts.raw is last[name].facts.raw for name, facts in nodes.items()))

    def _renew(self, snapshot: SchedulingSnapshot, feasibility: FeasibilityCheck) -> None:
        state, totals = feasibility.state, feasibility.state.totals.copy()
        placements, taken = placements_by_node(snapshot), {*state.changed[self._seen:]}
        before, now = self._last.last_placed, snapshot.last_placed
        for name, facts in snapshot.nodes.items():
            node, here = state.nodes[name], placements.get(name, ())
            if (facts is not node.facts or name in taken or not _same(here, node.placements)
                    or now.get(name) != before.get(name)):
                state.replace_node(facts, here, now.get(name, 0.0), self.cache)
        state.renew_fabric(snapshot)
        feasibility.forget(simple=totals != state.totals)


def _same(some: tuple[Placement, ...], others: tuple[Placement, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
