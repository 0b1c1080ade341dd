# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A planned layout made true: all detaches at once, then all attaches, each with a result of its own."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from . import layout
from .ensure import attach_missing, detach_present
from .errors import FabricError
from .layout import LayoutPlan, Step
from .parallel import outcomes
from .types import Capabilities, Fabric

Json = dict[str, t.Any]
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Survey:
    """A plan with what is known of whether it can be carried out."""

    plan: LayoutPlan
    able: Capabilities
    shortages: list[str]
    problems: Mapping[str, str]

    def result(self, attach_seconds: float, detach_seconds: float) -> Json:
        """What a module returns of it."""
        return {"plan": [_row(s) | {"count": s.count, "device": s.device.uid if s.device else None, "reason": s.reason}
                         for s in self.plan.steps],
                "predicted_seconds": layout.predict(self.plan, self.able, attach_seconds, detach_seconds),
                "shortages": self.shortages, "problems": dict(self.problems),
                "diff": {"before": _plain(self.plan.before), "after": _plain(self.plan.after)}}


def survey(fabric: Fabric, wanted: t.Any, kinds: Mapping[str, str], empty_others: bool) -> Survey:
    """Read the fabric and plan. Raises FabricError."""
    asked = layout.read(wanted)
    snapshot = fabric.snapshot(dict.fromkeys(model for models in asked.values() for model, n in models.items() if n))
    found = layout.plan(tuple(snapshot.machines.values()), asked, empty_others=empty_others, kinds=kinds)
    return Survey(found, fabric.capabilities, layout.shortages(found, snapshot.free), snapshot.problems)


def carry_out(fabric: Fabric, found: LayoutPlan, settle: float, say: Say) -> Json:
    """Do all steps; what failed is told, what was done stays. ``settle``: see ``ensure``."""
    began, work = time.monotonic(), _Work(fabric, settle, say, len(found.steps))
    results = [row for action in (layout.DETACH, layout.ATTACH) for row in work.phase(found.moves(action))]
    done: Json = {"results": results, "seconds": round(time.monotonic() - began, 3),
                  "changed": any(not row["failed"] for row in results)}
    failed = [row for row in results if row["failed"]]
    if failed:
        done |= {"failed": True, "msg": f"{failed[0]['msg']} ({len(failed)} of {len(results)} steps failed)",
                 "error": failed[0]["error"]}
    return done


@dataclass(slots=True)
class _Work:
    fabric: Fabric
    settle: float
    say: Say
    total: int
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def phase(self, steps: Sequence[Step]) -> Iterator[Json]:
        for step, outcome in zip(steps, outcomes(self._timed, steps), strict=True):
            row = _row(step) | {"failed": isinstance(outcome, FabricError)}
            if isinstance(outcome, FabricError):
                yield row | {"msg": str(outcome), "error": type(outcome).__name__}
            else:
                yield row | {"seconds": outcome}

    def _timed(self, step: Step) -> float:
        began = time.monotonic()
        try:
            self._do(step)
        finally:
            with self.lock:
                self.done += 1
                self.say(f"{self.done} of {self.total} steps done after {time.monotonic() - self.began:.1f} s")
        return round(time.monotonic() - began, 3)

    def _do(self, step: Step) -> None:
        if step.device is not None:
            detach_present(self.fabric, step.machine.uid, step.device.uid, self.settle)
        else:
            attach_missing(self.fabric, step.machine.uid, step.model, step.total, self.settle, step.kind)


def _row(step: Step) -> Json:
    return {"action": step.action, "machine": step.machine.uid, "name": step.machine.name, "model": step.model}


def _plain(side: Mapping[str, Mapping[str, int]]) -> Json:
    return {machine: dict(models) for machine, models in side.items()}
