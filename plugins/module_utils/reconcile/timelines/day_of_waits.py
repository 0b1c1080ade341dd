# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how long the claims of the last day waited, by hour, namespace and step of the timeline.

Counts of several processes can be added. A wait counts below the next of EDGES, so a median or
other quantile is given as that edge. Each row also has its longest wait with the exact value.
"""

from __future__ import annotations

import json
import math
import typing as t
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .histogram import BOUNDS, TOTAL, Waits
from .timeline import SHARES, Timeline

HOUR: t.Final = 3600.0
HOURS: t.Final = 24
VERSION: t.Final = 1
MOST_NAMESPACES: t.Final = 30
"""Namespaces counted by name. Claims of further namespaces count only in the total."""
OTHERS: t.Final = ""
EDGES: t.Final = tuple(float(f"{digits}e{power}") for power in range(-3, 5)
                       for digits in (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8))
STEPS: t.Final = (*SHARES, TOTAL)
Place = tuple[int, str, str]
"""Hour since the epoch, namespace, step of the timeline."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Waits of a row.

    ``counts`` is the number of waits up to each of EDGES (by its index) and above the edge before.
    ``longest`` is in seconds.
    """

    counts: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0

    def plus(self, other: Counted) -> Counted:
        """Return the sum of both."""
        return Counted(self.counts + other.counts, max(self.longest, other.longest))

    def as_waits(self, step: str) -> Waits:
        """Return the counts as a row of a histogram."""
        count = self.counts.total()
        spread = Counter[int]()
        for edge, n in self.counts.items():
            spread[bisect_left(BOUNDS, EDGES[edge] if edge < len(EDGES) else math.inf)] += n
        return Waits(step, count, self._quantile(0.5), self._quantile(0.95), self.longest,
                     tuple(spread[place] for place in range(len(BOUNDS) + 1)))

    def _quantile(self, share: float) -> float:
        wanted, seen = math.ceil(share * self.counts.total()), 0
        for edge in sorted(self.counts):
            seen += self.counts[edge]
            if seen >= wanted:
                return min(EDGES[edge], self.longest) if edge < len(EDGES) else self.longest
        return self.longest


Rows = Mapping[Place, Counted]


def counted(timeline: Timeline) -> Rows:
    """Return the waits of one claim."""
    if not timeline.spans:
        return {}
    hour, namespace = int(timeline.ended // HOUR), timeline.claim.partition("/")[0]
    waited = {**{span.step: span.seconds for span in timeline.merged()}, TOTAL: timeline.seconds}
    return {(hour, namespace, step): Counted(Counter({bisect_left(EDGES, seconds): 1}), seconds)
            for step, seconds in waited.items()}


def together(*tables: Rows) -> Rows:
    """Return the sum of all tables. Keep the first MOST_NAMESPACES namespaces by name."""
    found: dict[Place, Counted] = {}
    names: set[str] = set()
    for (hour, namespace, step), row in (each for table in tables for each in table.items()):
        if namespace not in names and len(names) >= MOST_NAMESPACES:
            namespace = OTHERS
        elif namespace != OTHERS:
            names.add(namespace)
        place = (hour, namespace, step)
        found[place] = found[place].plus(row) if place in found else row
    return found


def last_day(table: Rows, now: float) -> Rows:
    """Return the rows of the current hour and of the HOURS before it."""
    since = int(now // HOUR) - HOURS
    return {place: row for place, row in table.items() if place[0] >= since}


def waits_of(table: Rows, namespace: str | None = None) -> list[Waits]:
    """Return the waits of a namespace, or of all, in the order of the steps and then the total."""
    found: dict[str, Counted] = {}
    for (_hour, of, step), row in table.items():
        if namespace is None or of == namespace != OTHERS:
            found[step] = found.get(step, Counted()).plus(row)
    return [found[step].as_waits(step) for step in STEPS if step in found]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored table. ``number`` counts the tables that ``writer`` has written."""

    table: Rows = field(default_factory=dict)
    writer: str = ""
    number: int = 0

    def text(self) -> str:
        """Return the table as JSON."""
        hours: dict[str, t.Any] = {}
        for (hour, namespace, step), row in sorted(self.table.items()):
            pairs = [number for pair in sorted(row.counts.items()) for number in pair]
            hours.setdefault(str(hour), {}).setdefault(namespace, {})[step] = [round(row.longest, 3), pairs]
        return json.dumps({"version": VERSION, "writer": self.writer, "number": self.number, "hours": hours},
                          separators=(",", ":"))


def of_text(text: str) -> Stored:
    """Return the table in a text, or an empty one for an empty text.

    Raise ValueError for a text that ``Stored.text`` did not write.
    """
    if not text:
        return Stored()
    try:
        told = json.loads(text)
        if told["version"] != VERSION:
            raise ValueError(f"its version is {told['version']!r}")
        return Stored(dict(_rows(told["hours"])), str(told["writer"]), int(told["number"]))
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(f"it has no table of waits: {type(error).__name__}: {error}") from None


def _rows(hours: Mapping[str, t.Any]) -> Iterable[tuple[Place, Counted]]:
    """Yield the rows and omit unknown steps. Raise ValueError and others."""
    for hour, namespaces in hours.items():
        for namespace, claim_steps in namespaces.items():
            for step, (longest, pairs) in claim_steps.items():
                counts = Counter(dict(zip(map(int, pairs[::2]), map(int, pairs[1::2]), strict=True)))
                if any(not 0 <= edge <= len(EDGES) or n < 1 for edge, n in counts.items()):
                    raise ValueError("counts must be above 0 and belong to a known bound")
                if step in STEPS:
                    yield (int(hour), str(namespace), step), Counted(counts, float(longest))
