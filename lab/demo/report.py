# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the steps of each claim as a table: a column for each pod, a row for each step."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ansible_collections.composable.infra.lab.demo.device_lines import STEPS
from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes
from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.text import SIGNS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ENGINE,
    FABRIC,
    NODE,
    SCHEDULER,
    START,
    WORDS,
)


@dataclass(frozen=True, slots=True)
class _Step:
    """A row of the table.

    ``share`` is the part of the system that the step waits for. A ``rare`` step has a row only if a
    claim took it. A ``detail`` is only for verbose output.
    """

    words: str
    share: str
    moment: Callable[[ClaimTimes], float | None]
    rare: bool = False
    detail: bool = False


def _told(claim: ClaimTimes) -> float | None:
    return claim.condition or claim.opened


def _placed(claim: ClaimTimes) -> float | None:
    return claim.bound_at if claim.ready else claim.reallocated


STEPS_OF_A_CLAIM: t.Final = (
    _Step("node chosen by the provider", ENGINE, lambda claim: claim.called, rare=True),
    _Step("device of the pool allocated", SCHEDULER, lambda claim: claim.allocated, rare=True),
    _Step(WORDS["request"], ENGINE, lambda claim: claim.asked),
    _Step(WORDS["attach"], FABRIC, lambda claim: claim.attached),
    _Step(STEPS[evidence.ON_BUS], NODE, lambda claim: claim.on_bus, detail=True),
    _Step(STEPS[evidence.BOUND], NODE, lambda claim: claim.bound, detail=True),
    _Step(STEPS[evidence.TOUCHED], NODE, lambda claim: claim.touched, detail=True),
    _Step(STEPS[evidence.PLUGIN_RESTARTED], NODE, lambda claim: claim.plugin_restarted, detail=True),
    _Step(WORDS["slice"], NODE, lambda claim: None if claim.ready else claim.visible),
    _Step("gate removed, or condition written", ENGINE, _told),
    _Step("bound, or reallocated", SCHEDULER, _placed),
    _Step(WORDS[START], NODE, lambda claim: claim.running))
HEAD: t.Final = "seconds"
NOTE: t.Final = ("Seconds since the claim was created. A row's sign says who was waited for, as in"
                 "\nthe picture. The scheduler looks at conditions every 5 s: the ways direct and"
                 "\nreschedule wait for that.")


def table(claims: Iterable[ClaimTimes], *, verbose: bool = False) -> str:
    """Return the table with a note below. With ``verbose``, add the steps on the node."""
    shown = list(claims)
    rows = [(f"  {HEAD}", [claim.name for claim in shown]), ("  node", [claim.node for claim in shown]),
            ("  way", [_way(claim) for claim in shown])]
    for step in STEPS_OF_A_CLAIM:
        moments = [_since(step.moment(claim), claim.created or 0.0) for claim in shown]
        if (verbose or not step.detail) and not (step.rare and set(moments) <= {"-"}):
            rows.append((f"{SIGNS[step.share][0]} {step.words}", moments))
    label = max(len(words) for words, _cells in rows)
    widths = [max(len(cells[place]) for _words, cells in rows) for place in range(len(shown))]
    lines = [f"{words:<{label}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
             for words, cells in rows]
    return "\n".join([*lines, NOTE])


def _way(claim: ClaimTimes) -> str:
    """Return the handover of a claim.

    It is ``autoscaler`` if Cluster Autoscaler made the request, or ``idle device`` if one was
    there.
    """
    if claim.called:
        return "autoscaler"
    if claim.allocated is None:
        return "gated" if claim.opened else "idle device"
    return "direct" if claim.ready else "reschedule"


def _since(moment: float | None, start: float) -> str:
    return "-" if moment is None else f"{moment - start:.2f}"
