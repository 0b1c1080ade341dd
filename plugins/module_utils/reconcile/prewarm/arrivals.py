# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What claims took lately, for each floor that is learned: the table from which it is."""

from __future__ import annotations

import json
import threading
import typing as t
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping

from ...planning.prewarm import Floor
from ...planning.prewarm_learned import HOUR, Learn, Peaks

MOST_CLAIMS: t.Final = 20_000
"""Claims that are remembered as counted; the oldest are forgotten first."""
LARGEST: t.Final = 10_000
Table = Mapping[str, Peaks]
"""By the key of a floor."""


class _LeadTime:
    """What was taken within the last ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lately, self._sum = seconds, deque[tuple[float, int]](), 0

    def add(self, devices: int, now: float) -> int:
        """Take it down; how many they are together."""
        self._lately.append((now, devices))
        self._sum += devices
        while self._lately[0][0] <= now - self._seconds:
            self._sum -= self._lately.popleft()[1]
        return self._sum


class Arrivals:
    """Counts claims and gives the peaks of their hours. Thread-safe."""

    def __init__(self, floors: Iterable[Floor] = ()) -> None:
        self._learned: dict[str, Learn] = {floor.key: floor.learn for floor in floors if floor.learn}
        self._peaks: dict[str, dict[int, int]] = {key: {} for key in self._learned}
        self._lately = {key: _LeadTime(learn.lead) for key, learn in self._learned.items()}
        self._counted: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        """Whether any floor is learned."""
        return bool(self._learned)

    def took(self, claim: str, devices: Mapping[str, int], now: float) -> None:
        """A claim, by what it is known for, was allocated devices (by the key of a floor); each claim counts once."""
        with self._lock:
            if claim in self._counted:
                return
            self._counted[claim] = None
            if len(self._counted) > MOST_CLAIMS:
                self._counted.popitem(last=False)
            for key in self._learned.keys() & devices.keys():
                self._count(key, devices[key], now)

    def _count(self, key: str, devices: int, now: float) -> None:
        peaks, hour = self._peaks[key], int(now // HOUR)
        peaks[hour] = max(peaks.get(hour, 0), min(LARGEST, self._lately[key].add(devices, now)))

    def watched(self, now: float) -> None:
        """Somebody watches in this hour: that nothing came is known, too."""
        with self._lock:
            for peaks in self._peaks.values():
                peaks.setdefault(int(now // HOUR), 0)

    def peaks(self, key: str) -> Peaks:
        """Those of a floor at this moment."""
        with self._lock:
            return dict(self._peaks.get(key) or {})

    def table(self, now: float) -> dict[str, dict[int, int]]:
        """All that is still looked at."""
        with self._lock:
            for key, learn in self._learned.items():
                self._peaks[key] = learn.kept(now, self._peaks[key])
            return {key: dict(peaks) for key, peaks in self._peaks.items()}

    def merge(self, table: Table) -> None:
        """What others counted; of two counts of an hour the larger one holds."""
        with self._lock:
            for key in self._learned.keys() & table.keys():
                mine = self._peaks[key]
                mine.update({hour: max(n, mine.get(hour, 0)) for hour, n in table[key].items()})


def as_text(table: Table) -> str:
    """A table as JSON: for each floor its first hour, and the peaks from there on, null where nobody watched."""
    return json.dumps({key: _row(peaks) for key, peaks in sorted(table.items()) if peaks}, separators=(",", ":"))


def _row(peaks: Peaks) -> dict[str, t.Any]:
    first = min(peaks)
    return {"first": first, "peaks": [peaks.get(hour) for hour in range(first, max(peaks) + 1)]}


def of_text(text: str) -> dict[str, dict[int, int]]:
    """The table in a text. Raises ValueError for one that ``as_text`` did not write."""
    try:
        return {str(key): _peaks(int(row["first"]), row["peaks"]) for key, row in json.loads(text or "{}").items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it holds no table of peaks: {type(error).__name__}: {error}") from None


def _peaks(first: int, listed: list[t.Any]) -> dict[int, int]:
    """Raises TypeError or ValueError."""
    found = {first + number: int(n) for number, n in enumerate(listed) if n is not None}
    if any(not 0 <= n <= LARGEST for n in found.values()):
        raise ValueError(f"counts must be from 0 to {LARGEST}")
    return found
