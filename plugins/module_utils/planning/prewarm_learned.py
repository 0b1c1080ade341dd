# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Floors of idle devices that are learned: from how many devices claims took within one lead time, hour by hour.

A floor is an order-up-to level: what is taken is attached anew, which takes the lead time. So the devices that are
taken within one lead time are what has to be idle at its beginning. Weeks repeat themselves more than days do: an hour
is compared with the same hour, in UTC, of the weeks before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .device_info import BadSetting, known_keys

KEYS = ("weeks", "quantile", "most", "lead")
HOUR, WEEK_HOURS = 3600, 168
MOST_WEEKS, MOST_LEARNED, LONGEST_LEAD = 12, 100, 3600
Peaks = Mapping[int, int]
"""By hour since the epoch: the most devices that claims took within one lead time that ended in it. An hour in which
nobody watched is not there."""


@dataclass(frozen=True, slots=True)
class Learn:
    """``weeks``: how many are looked back on. ``quantile``: which part of them the floor would have been enough for.
    ``most``: what it never exceeds. ``lead``: seconds from the moment that a device is taken until another one is
    attached in its place, a return to the fabric included where devices are scarce."""

    weeks: int = 4
    quantile: float = 0.95
    most: int = 8
    lead: float = 300.0

    def idle_at(self, now: float, peaks: Peaks) -> int | None:
        """The floor at a moment, in seconds since the epoch, ready for what comes within the lead time; None where
        nothing is known of these hours."""
        hours = range(int(now // HOUR), int((now + self.lead) // HOUR) + 1)
        return max((n for hour in hours if (n := self.of_hour(hour, peaks)) is not None), default=None)

    def of_hour(self, hour: int, peaks: Peaks) -> int | None:
        """The quantile, by nearest rank, of what is known of this hour of the week; None where that is nothing."""
        before = (hour - week * WEEK_HOURS for week in range(1, self.weeks + 1))
        seen = sorted(peaks[each] for each in before if each in peaks)
        return min(self.most, seen[math.ceil(self.quantile * len(seen)) - 1]) if seen else None

    def device_hours(self, now: float, peaks: Peaks, unlearned: Callable[[float], int]) -> float:
        """Idle device-hours of the week that begins now; ``unlearned``: the floor where nothing is known."""
        starts = (now + hour * HOUR for hour in range(WEEK_HOURS))
        learned = ((start, self.of_hour(int(start // HOUR), peaks)) for start in starts)
        return float(sum(unlearned(start) if n is None else n for start, n in learned))

    def kept(self, now: float, peaks: Peaks) -> dict[int, int]:
        """What of the peaks is still looked at, or will be."""
        last = int(now // HOUR)
        return {hour: n for hour, n in peaks.items() if last - self.weeks * WEEK_HOURS <= hour <= last}


def read_learn(row: object, where: str) -> Learn | None:
    """Check and read ``learn`` of a floor. Raises BadSetting for the first field that cannot be used."""
    if row is None:
        return None
    if not isinstance(row, Mapping):
        raise BadSetting(where, row, f"must be a mapping with some of {', '.join(KEYS)}")
    known_keys(row, KEYS, where)
    return Learn(_whole(row, "weeks", where, 4, MOST_WEEKS), _quantile(row, where),
                 _whole(row, "most", where, 8, 1000), _lead(row, where))


def _whole(row: Mapping[str, object], key: str, where: str, default: int, most: int) -> int:
    value = row.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadSetting(f"{where}.{key}", value, f"must be a whole number from 1 to {most}")
    return value


def _quantile(row: Mapping[str, object], where: str) -> float:
    value = row.get("quantile", 0.95)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= 1:
        raise BadSetting(f"{where}.quantile", value, "must be a number above 0, at most 1")
    return float(value)


def _lead(row: Mapping[str, object], where: str) -> float:
    value = row.get("lead", 300)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1 <= value <= LONGEST_LEAD:
        raise BadSetting(f"{where}.lead", value, f"must be a number of seconds from 1 to {LONGEST_LEAD}")
    return float(value)
