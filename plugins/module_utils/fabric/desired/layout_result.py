# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a fabric and plan a layout, and the module results of plan and execution."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..api import Capabilities, FabricManager
from . import layout
from .executor import Executor, Say
from .layout import LayoutPlan
from .step import Step, StepOutcome

Json = dict[str, t.Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """A plan with its ``shortages`` as sentences and the ``problems`` of counts by pool."""

    plan: LayoutPlan
    able: Capabilities
    shortages: list[str]
    problems: Mapping[str, str]

    def result(self, attach_seconds: float, detach_seconds: float) -> Json:
        """Return the result of a module. The arguments are expected seconds of an operation."""
        return {"plan": [_step_row(s) | {"count": s.count, "device": s.device.uid if s.device else None,
                                         "reason": s.reason} for s in self.plan.steps],
                "predicted_seconds": layout.predict(self.plan, self.able, attach_seconds, detach_seconds),
                "shortages": self.shortages, "problems": dict(self.problems),
                "diff": {"before": _plain(self.plan.before), "after": _plain(self.plan.after)}}


def survey(fabric: FabricManager, wanted: t.Any, kinds: Mapping[str, str], empty_others: bool) -> Survey:
    """Read the fabric and plan a layout. Request no change.

    ``wanted`` is a user's layout (``layout.read``). ``kinds`` and ``empty_others`` are as in
    ``layout.plan``. Raise FabricError, and BadConfiguration for a wrong layout.
    """
    asked = layout.read(wanted)
    snapshot = fabric.snapshot(dict.fromkeys(model for models in asked.values() for model, n in models.items() if n))
    found = layout.plan(tuple(snapshot.machines.values()), asked, empty_others=empty_others, kinds=kinds)
    return Survey(found, fabric.capabilities, layout.shortages(found, snapshot.free), snapshot.problems)


def carry_out(fabric: FabricManager, found: LayoutPlan, attach_deadline: float, say: Say) -> Json:
    """Do all steps and return the result of a module. Failed steps undo nothing.

    ``attach_deadline`` and ``say`` are as in ``executor.Executor``. Raise no FabricError. The
    result has ``failed`` instead.
    """
    began = time.monotonic()
    outcomes = Executor(fabric, attach_deadline, say=say, said_of_each="steps done").carry_out(found.steps)
    rows = [_outcome_row(step, outcome) for step, outcome in zip(found.steps, outcomes, strict=True)]
    done: Json = {"results": rows, "seconds": round(time.monotonic() - began, 3),
                  "changed": any(not row["failed"] for row in rows)}
    failed = [row for row in rows if row["failed"]]
    if failed:
        done |= {"failed": True, "msg": f"{failed[0]['msg']} ({len(failed)} of {len(rows)} steps failed)",
                 "error": failed[0]["error"]}
    return done


def _step_row(step: Step) -> Json:
    return {"action": step.action, "machine": step.machine.uid, "name": step.machine.name, "model": step.model}


def _outcome_row(step: Step, outcome: StepOutcome) -> Json:
    row = _step_row(step) | {"seconds": outcome.seconds}
    if outcome.error is None:
        return row | {"failed": False}
    return row | {"failed": True, "msg": str(outcome.error), "error": type(outcome.error).__name__}


def _plain(side: Mapping[str, Mapping[str, int]]) -> Json:
    return {machine: dict(models) for machine, models in side.items()}
