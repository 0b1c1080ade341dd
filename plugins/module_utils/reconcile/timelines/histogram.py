# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how long claims waited in each step of the timeline, below upper bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .timeline import SHARES, Timeline

BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits in one step, or in all (TOTAL), in seconds.

    ``counts`` is the number of waits up to each of BOUNDS and above the bound before. The last one
    counts waits above all bounds.
    """

    step: str
    count: int
    median: float
    p95: float
    longest: float
    counts: tuple[int, ...]


def waits(timelines: Iterable[Timeline]) -> list[Waits]:
    """Return the waits of each step in their order, then the total. Omit steps that no claim took.

    Each claim counts once.
    """
    known = {timeline.uid: timeline for timeline in timelines if timeline.spans}
    found: dict[str, list[float]] = {step: [] for step in SHARES}
    for timeline in known.values():
        for span in timeline.merged():
            found[span.step].append(span.seconds)
    found[TOTAL] = [timeline.seconds for timeline in known.values()]
    return [_waits(step, sorted(each)) for step, each in found.items() if each]


def _waits(step: str, seconds: Sequence[float]) -> Waits:
    counts = [0] * (len(BOUNDS) + 1)
    for each in seconds:
        counts[next((place for place, bound in enumerate(BOUNDS) if each <= bound), len(BOUNDS))] += 1
    return Waits(step, len(seconds), quantile(seconds, 0.5), quantile(seconds, 0.95), seconds[-1], tuple(counts))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed (nearest
    rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
