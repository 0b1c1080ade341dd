# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remember the number of devices in each state for a day.

The memory is a ring of samples with a fixed length for each series, and the number of series is
limited.
"""

from __future__ import annotations

import threading
import typing as t
from array import array
from collections.abc import Mapping

from ansible_collections.composable.infra.controller.ui.insight.span import DAY, Points, Series, Span

SAMPLE_SECONDS: t.Final = 60.0
LENGTH: t.Final = int(DAY / SAMPLE_SECONDS)
MOST_SERIES: t.Final = 512
_NONE: t.Final = -1
Place = tuple[str, str, "int | None"]
"""State, model and fabric."""
ATTACHES, FAILURES = ("attaches", "", None), ("failures", "", None)
"""Places for the number of attaches since the sample before."""


class Ring:
    """The samples of the last day. Thread-safe.

    ``cut``: places that were left out, because there are too many.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times = array("d", [0.0] * LENGTH)
        self._series: dict[Place, array[int]] = {}
        self._number = 0
        self.cut = 0

    def add(self, at: float, counts: Mapping[Place, int]) -> None:
        """Add a sample of the time ``at``, in seconds since the epoch."""
        with self._lock:
            place = self._number % LENGTH
            self._number += 1
            self._times[place] = at
            for series in self._series.values():
                series[place] = _NONE
            cut = 0
            for key, count in counts.items():
                if key not in self._series and len(self._series) >= MOST_SERIES:
                    cut += 1
                    continue
                self._series.setdefault(key, array("i", [_NONE] * LENGTH))[place] = count
            self.cut = cut

    @property
    def since(self) -> float:
        """The time of the oldest sample, 0.0 if there is none."""
        with self._lock:
            return self._times[self._order()[0]] if self._number else 0.0

    def _order(self) -> list[int]:
        first = max(0, self._number - LENGTH)
        return [number % LENGTH for number in range(first, self._number)]

    def of(self, place: Place) -> Points:
        """Return the samples of one place, oldest first."""
        with self._lock:
            values = self._series.get(place)
            if values is None:
                return []
            return [(self._times[at], values[at]) for at in self._order() if values[at] != _NONE]

    def series(self, span: Span) -> list[Series]:
        """Return the states of devices in a span, sorted."""
        with self._lock:
            places = [place for place in self._series if place not in (ATTACHES, FAILURES)]
        found = (Series(*place, span.last_of_steps(self.of(place)))
                 for place in sorted(places, key=lambda each: (each[1], each[2] or 0, each[0])))
        return [each for each in found if each.points]
