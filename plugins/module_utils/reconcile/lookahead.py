# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apply would do first, from the very planners that apply uses; nothing is written."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..scaling import actions as act
from ..scaling.compose import plan_compose, uncertain
from ..scaling.gating.view import GatePlan
from ..scaling.pools import PoolPlan
from ..scaling.scale import after, plan_device_labels, plan_fabric_label, plan_node
from ..scaling.view import NodeView
from . import publish
from .bookings import RESERVED
from .engine import Engine


@dataclass(frozen=True, slots=True)
class Forecast:
    """Pools to write, actions in order, and what each claim waits for."""

    pools: tuple[PoolPlan, ...]
    actions: tuple[act.Action, ...]
    verdicts: tuple[act.Verdict, ...]

    def as_dicts(self) -> list[dict[str, t.Any]]:
        """Everything that would be done, as data."""
        pools = [{"action": "WritePool", "pool": p.pool, "devices": list(p.devices), "reason": p.reason}
                 for p in self.pools]
        return [*pools, *(a.as_dict() for a in self.actions)]


def forecast(engine: Engine) -> Forecast:
    """Plan every held pod, every pool and every node of an engine that is ready and has not begun to work."""
    plan = engine.gating.plan() if engine.gates else GatePlan()
    actions: list[act.Action] = _of_gates(plan)
    verdicts = list(plan.verdicts)
    engine.world.bookings.add(plan.bookings, RESERVED)
    try:
        return _forecast(engine, actions, verdicts)
    finally:
        for booking in plan.bookings:
            engine.world.bookings.drop(booking.pod.uid)


def _forecast(engine: Engine, actions: list[act.Action], verdicts: list[act.Verdict]) -> Forecast:
    """Pools and nodes, after the gates."""
    pools = [publish.plan(engine.world, key) for key in sorted(publish.pool_keys(engine.world))]
    for node in sorted(n["metadata"]["name"] for n in engine.world.nodes.list()):
        planned, said = _node(engine, node)
        actions += planned
        verdicts += said
    return Forecast(tuple(p for p in pools if p and not p.empty), tuple(actions), tuple(verdicts))


def _of_gates(plan: GatePlan) -> list[act.Action]:
    return [*(act.Book(b.node, b.reason, b.pod, b.needs) for b in plan.bookings),
            *(act.ReleaseGate("", r.reason, r.pod, r.judged) for r in plan.releases)]


def _node(engine: Engine, name: str) -> tuple[list[act.Action], tuple[act.Verdict, ...]]:
    settings, view = engine.config.settings, _view(engine, name)
    scale = plan_node(view, settings)
    labels = [*plan_fabric_label(view, settings), *plan_device_labels(view, settings)]
    compose = plan_compose(after(view, scale.actions), engine.config.fabric.attach_timeout)
    return [*labels, *scale.actions, *compose.actions], scale.verdicts


def _view(engine: Engine, name: str) -> NodeView:
    view = engine.world.node_view(name)
    return engine.passes.read_again(view) if uncertain(view) and view.machine else view


def difference(forecast: Forecast) -> dict[str, dict[str, t.Any]]:
    """Before and after of sizes, labels, conditions and pools, for --diff."""
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
        elif isinstance(action, act.Book):
            after[f"pod {action.pod.namespace}/{action.pod.name}"] = f"node {action.node}"
        elif isinstance(action, (act.OpenGate, act.ReleaseGate)):
            after[f"pod {action.pod.namespace}/{action.pod.name} gate"] = "removed"
        elif isinstance(action, act.MarkClaim):
            after[f"claim {action.namespace}/{action.name}"] = action.condition
    return {"before": before, "after": after}
