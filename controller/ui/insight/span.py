# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spans of a history, and values over time."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

HOUR: t.Final = 3600.0
DAY: t.Final = 24 * HOUR
SPANS: t.Final[t.Mapping[str, tuple[float, float]]] = {
    "1h": (HOUR, 60.0), "24h": (DAY, 300.0), "7d": (7 * DAY, HOUR), "30d": (30 * DAY, 4 * HOUR)}
"""Length and distance of two points in seconds, by the name of a span."""
Points = list[tuple[float, float]]
"""Times in seconds since the epoch, each with a value."""


class BadQuery(Exception):
    """A query is not usable. The message names field, value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span that ends at ``until``. Times and durations are in seconds."""

    name: str
    since: float
    until: float
    step: float

    @classmethod
    def read(cls, name: str, now: float) -> Span:
        """Return the span with this name that ends now. Raise BadQuery for another name."""
        if name not in SPANS:
            raise BadQuery(f"span: {name[:64]!r} is not allowed. It must be one of {', '.join(SPANS)}")
        length, step = SPANS[name]
        return cls(name, now - length, now, step)

    def last_of_steps(self, points: Iterable[tuple[float, float]]) -> Points:
        """Return the last value of each step. A point has the time at which its step begins."""
        found: dict[float, float] = {}
        for at, value in points:
            if self.since <= at <= self.until:
                found[at // self.step * self.step] = value
        return [*found.items()]

    def sums_of_steps(self, points: Iterable[tuple[float, float]]) -> Points:
        """Return the sum of the values of each step."""
        found: dict[float, float] = {}
        for at, value in points:
            if self.since <= at <= self.until:
                step = at // self.step * self.step
                found[step] = found.get(step, 0.0) + value
        return [*found.items()]


@dataclass(frozen=True, slots=True)
class Series:
    """Devices over time. ``state``: of rows.STATES, ``free`` or ``waiting``.

    ``fabric``: None if it is unknown. Waiting claims have neither model nor fabric.
    """

    state: str
    model: str
    fabric: int | None
    points: Points
