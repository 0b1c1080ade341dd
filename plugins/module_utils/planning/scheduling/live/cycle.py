# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cycle that is kept from plan to plan, for thousands of plans of a cluster with few changes.

This corresponds to kube-scheduler's cache, which updates its snapshot by the nodes that changed.
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
"""Number of changes after which the cycle is rebuilt, so that it does not grow without limit."""
MOST_KEPT: t.Final = 32
"""Number of kept results after which a resident process rebuilds the cycle. Most have an entry for each
node, and tenants may create any number of different pods."""
FORGETTING: t.Final = 64
"""Number of plans after which parsed objects that are gone are forgotten."""


class LiveCycle:
    """Plans as ``plan_placements`` does, but evaluates only nodes that changed since the last plan.

    A node has changed if its NodeFacts or placements are other objects, or if a plan took or
    withheld something there. If nodes came or went, or if namespaces, DeviceClasses or the common
    attributes of devices changed, the cycle is rebuilt. ``cycles`` counts the rebuilds. More than
    ``most_kept`` results for different pods are not kept.
    """

    def __init__(self, most_kept: int = MOST_CHANGES) -> None:
        self.cache, self._most_kept = ParseCache(), most_kept
        self._reader: DemandReader | None = None
        self._feasibility: FeasibilityCheck | None = None
        self._last = SchedulingSnapshot(0.0, {})
        self._seen = self.cycles = self.plans = 0

    def plan(self, snapshot: SchedulingSnapshot, settings: SchedulingSettings,
             line: SchedulingQueue | None = None) -> SchedulingPlan:
        """Return the plan.

        ``line``: a queue of the waiting pods that the caller keeps. The waiting pods of the
        snapshot are not read then. With a ``LaneQueue`` the plan has no wait reason for each pod.
        """
        reader = self.cache.demand_reader(snapshot, settings)
        feasibility = self._renewed(snapshot, reader, settings.allocation_policy)
        queue = line if line is not None else build_queue(snapshot, self.cache, reader)
        self._feasibility = None  # a plan that raises leaves no cycle
        plan = QueuePlanner(snapshot, settings, feasibility, queue).plan()
        self._feasibility = feasibility
        self.plans += 1
        if self.plans % FORGETTING == 0:
            self.cache.forget(snapshot)
        return plan

    def judge(self, pod: GatedPod, snapshot: SchedulingSnapshot, settings: SchedulingSettings) -> QueuedPod | str:
        """Return a pod with its demand for the line, or why it is released."""
        return judge(pod, self.cache, self.cache.demand_reader(snapshot, settings))

    def _renewed(self, snapshot: SchedulingSnapshot, reader: DemandReader, policy: str) -> FeasibilityCheck:
        feasibility = self._feasibility
        if (feasibility is not None and reader is self._reader and feasibility.policy == policy
                and self._is_like(snapshot, feasibility)):
            self._renew(snapshot, feasibility)
        else:
            self.cycles += 1
            state = CycleState(snapshot, self.cache)
            feasibility = FeasibilityCheck(state, Supplier(state, reader.catalogue), policy)
        self._reader, self._last = reader, snapshot
        self._seen = len(feasibility.state.changed)
        return feasibility

    def _is_like(self, snapshot: SchedulingSnapshot, feasibility: FeasibilityCheck) -> bool:
        state = feasibility.state
        return (len(state.changed) < MOST_CHANGES and feasibility.kept <= self._most_kept
                and snapshot.namespaces == self._last.namespaces and snapshot.nodes.keys() == state.nodes.keys())

    def _renew(self, snapshot: SchedulingSnapshot, feasibility: FeasibilityCheck) -> None:
        state, totals = feasibility.state, feasibility.state.totals.copy()
        placements, taken = placements_by_node(snapshot), {*state.changed[self._seen:]}
        before, now = self._last.last_placed, snapshot.last_placed
        for name, facts in snapshot.nodes.items():
            node, here = state.nodes[name], placements.get(name, ())
            if (facts is not node.facts or name in taken or not _same(here, node.placements)
                    or now.get(name) != before.get(name)):
                state.replace_node(facts, here, now.get(name, 0.0), self.cache)
                if facts.node is not node.facts.node:
                    feasibility.node_changed(name)
        state.renew_fabric(snapshot)
        feasibility.forget(simple=totals != state.totals)


def _same(some: tuple[Placement, ...], others: tuple[Placement, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
