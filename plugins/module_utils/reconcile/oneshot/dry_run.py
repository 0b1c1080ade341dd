# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecast the first actions of apply with the planners that apply uses. Write nothing."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from functools import partial

from ...planning import actions as act
from ...planning.pool.plan import PoolPlan
from ...planning.scheduling.plan import plan_placements
from ...planning.scheduling.snapshot import SchedulingPlan
from ..gating.planner import plan_gated_pods
from ..manager.engine import Engine
from ..pool.controller import plan as plan_pool
from ..pool.controller import pool_keys
from ..prewarm.minimums import idle_minimums
from ..state.reservations import RESERVED


@dataclass(frozen=True, slots=True)
class Forecast:
    """The pools to write, the actions in order, and why each claim waits."""

    pools: tuple[PoolPlan, ...]
    actions: tuple[act.Action, ...]
    wait_reasons: tuple[act.WaitReason, ...]

    def as_dicts(self) -> list[dict[str, t.Any]]:
        """Return all pools and actions as data."""
        pools = [{"action": "WritePool", "pool": p.pool, "devices": list(p.devices), "reason": p.reason}
                 for p in self.pools]
        return [*pools, *(a.as_dict() for a in self.actions)]


def forecast(engine: Engine) -> Forecast:
    """Plan all gated pods, pools and nodes of an engine that is ready.

    Work on a copy of the engine's state, with the planners of the controllers. Change neither the
    state nor the cluster, even while the engine is at work.
    """
    state = engine.state.copy()
    names = sorted(state.nodes.names())
    state.note_uses(names)
    place = partial(plan_placements, cache=engine.gating.copy_cache())
    gates = plan_gated_pods(state, place) if engine.gates else SchedulingPlan()
    state.reservations.add(gates.placements, RESERVED)
    state.gated_pods_planned = True
    state.idle_minimums.replace(idle_minimums(state, state.now()))
    pools = [plan for key in sorted(pool_keys(state)) if (plan := plan_pool(state, key)) and not plan.empty]
    planner = engine.planner.of(state)
    plans = [planner.plan(name)[1] for name in names]
    actions: list[act.Action] = [
        *(act.Reserve(p.node, p.reason, p.pod, p.needs) for p in gates.placements),
        *(act.ReleaseGate("", release.reason, release.pod, release.unschedulable) for release in gates.releases),
        *(action for plan in plans for action in plan.actions)]
    reasons = [*gates.wait_reasons, *(reason for plan in plans for reason in plan.wait_reasons)]
    return Forecast(tuple(pools), tuple(actions), tuple(reasons))


def difference(forecast: Forecast) -> dict[str, dict[str, t.Any]]:
    """Return sizes, labels, conditions and pools before and after, for --diff."""
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for pool in forecast.pools:
        after[f"pool {pool.pool}"] = list(pool.devices)
    for action in forecast.actions:
        if isinstance(action, act.SetSize):
            before[f"{action.node} {action.model}"] = action.before or 0
            after[f"{action.node} {action.model}"] = action.size
        elif isinstance(action, act.LabelNode):
            after[f"{action.node} labels"] = {**after.get(f"{action.node} labels", {}), **action.labels}
        elif isinstance(action, act.Reserve):
            after[f"pod {action.pod.namespace}/{action.pod.name}"] = f"node {action.node}"
        elif isinstance(action, (act.OpenGate, act.ReleaseGate)):
            after[f"pod {action.pod.namespace}/{action.pod.name} gate"] = "removed"
        elif isinstance(action, act.MarkClaim):
            after[f"claim {action.namespace}/{action.name}"] = action.condition
    return {"before": before, "after": after}
