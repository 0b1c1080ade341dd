# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Minimums of idle devices that change with the time of the week, and their cost in idle
device-hours.

The time of day is local time in the window's time zone. A window is therefore an hour shorter or
longer on the day on which daylight saving time begins or ends.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from .device_info import BadSetting, known_keys

KEYS = ("days", "from", "to", "timezone", "idle")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY, WEEK = 24 * 60, 7 * 24 * 60
MOST_DEVICES, MOST_WINDOWS = 1000, 100
# A Monday, 00:00 UTC, of a week without a change of daylight saving time.
A_WEEK = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


@dataclass(frozen=True, slots=True)
class Window:
    """``idle`` devices on ``days`` (0 is Monday), from minute ``begin`` of the day until before
    minute ``end``.

    If ``end`` is not after ``begin``, the window ends on the next day. It then belongs to the day
    of its beginning.
    """

    days: frozenset[int]
    begin: int
    end: int
    zone: tzinfo
    idle: int

    def holds(self, now: float) -> bool:
        """Return whether ``now``, in epoch seconds, is in the window."""
        local = datetime.fromtimestamp(now, self.zone)
        minute, today = local.hour * 60 + local.minute, local.weekday()
        if self.begin < self.end:
            return today in self.days and self.begin <= minute < self.end
        return (today in self.days and minute >= self.begin) or ((today - 1) % 7 in self.days and minute < self.end)


def idle_at(idle: int, schedule: Sequence[Window], now: float) -> int:
    """Return the number of the first active window, else ``idle``. ``now`` is in epoch seconds."""
    return next((window.idle for window in schedule if window.holds(now)), idle)


@functools.lru_cache(256)
def device_hours(idle: int, schedule: tuple[Window, ...]) -> float:
    """Return the idle device-hours of a week in which the minimum is always met."""
    if not schedule:
        return idle * WEEK / 60
    return sum(idle_at(idle, schedule, A_WEEK + minute * 60) for minute in range(WEEK)) / 60


def read_schedule(rows: object, where: str) -> tuple[Window, ...]:
    """Check and read the key ``schedule`` of ``prewarm``. Raise BadSetting for the first invalid
    field.
    """
    if not isinstance(rows, list) or len(rows) > MOST_WINDOWS:
        raise BadSetting(where, rows, f"must be a list of at most {MOST_WINDOWS} mappings with {', '.join(KEYS)}")
    return tuple(_window(row, f"{where}[{number}]") for number, row in enumerate(rows))


def read_idle(row: Mapping[str, object], where: str) -> int:
    """Read a number of idle devices. Raise BadSetting if it is invalid."""
    idle = row.get("idle")
    if not isinstance(idle, int) or isinstance(idle, bool) or not 0 <= idle <= MOST_DEVICES:
        raise BadSetting(f"{where}.idle", idle, f"must be a whole number from 0 to {MOST_DEVICES}")
    return idle


def _window(row: object, where: str) -> Window:
    if not isinstance(row, Mapping):
        raise BadSetting(where, row, f"must be a mapping with {', '.join(KEYS)}")
    known_keys(row, KEYS, where)
    begin, end = _minute(row, "from", where), _minute(row, "to", where)
    if begin == end:
        raise BadSetting(f"{where}.to", row["to"],
                         "must differ from the time of from. For a whole day, set 00:00 to 24:00")
    return Window(_days(row.get("days", list(DAYS)), f"{where}.days"), begin, end,
                  _zone(row.get("timezone", "UTC"), f"{where}.timezone"), read_idle(row, where))


def _days(value: object, where: str) -> frozenset[int]:
    if not isinstance(value, list) or not value:
        raise BadSetting(where, value, f"must be a list with some of {', '.join(DAYS)}")
    for day in value:
        if day not in DAYS:
            raise BadSetting(where, day, f"must contain only {', '.join(DAYS)}")
    return frozenset(DAYS.index(day) for day in value)


def _minute(row: Mapping[str, object], key: str, where: str) -> int:
    """Return a time of day in minutes. YAML reads 18:00 without quotes as a number, which is
    refused.
    """
    value = row.get(key)
    if not isinstance(value, str) or not TIME.fullmatch(value) or (key == "from" and value == "24:00"):
        last = "24:00" if key == "to" else "23:59"
        raise BadSetting(f"{where}.{key}", value, f"must be a time of day in quotes, from '00:00' to '{last}'")
    return int(value[:2]) * 60 + int(value[3:])


def _zone(value: object, where: str) -> tzinfo:
    """Return the time zone. UTC works without a time zone database."""
    if value == "UTC":
        return UTC
    try:
        return ZoneInfo(value if isinstance(value, str) else "")
    except (KeyError, ValueError, OSError):
        raise BadSetting(where, value, "must be the name of a time zone that this machine knows, such as Europe/Berlin "
                         "or UTC") from None
