# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of minimums of idle devices, and the claims that find one: constant and by schedule,
side by side.

Simulated: claims come at random on a virtual clock, more of them in working hours. A taken device
is replaced after the lead time. A returned device stays if the minimum lacks one, and otherwise
returns to the fabric at once. The code of the minimum is that of the controllers. No cluster and no
CDI Manager takes part.
"""

from __future__ import annotations

import heapq
import random
import sys
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm import IdleMinimum, idle_minimums

HOUR, WEEK_HOURS = 3600, 168
MODEL, SEED = "A100 40G", 16
BEGIN = 1_767_571_200.0
"""A Monday, 00:00 UTC, in epoch seconds."""
LEAD = 300.0
WEEKS = 8
OFFICE = [{"days": ["mon", "tue", "wed", "thu", "fri"], "from": "08:00", "to": "18:00", "idle": 4}]
ROWS: dict[str, dict[str, t.Any]] = {
    "none": {"idle": 0}, "constant 1": {"idle": 1}, "constant 2": {"idle": 2}, "constant 4": {"idle": 4},
    "schedule, 4 in working hours": {"idle": 0, "schedule": OFFICE}}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of the measured weeks: claims, claims that found an idle device, and idle
    device-hours a week.
    """

    claims: int
    hits: int
    idle_hours: float

    @property
    def share(self) -> float:
        """Return the share of the claims that found one."""
        return self.hits / self.claims if self.claims else 0.0


def claims_per_hour(now: float) -> float:
    """Return the rate of claims in working hours, evenings and nights, and weekends."""
    hour = int((now - BEGIN) // HOUR) % WEEK_HOURS
    if hour >= 5 * 24:
        return 0.3
    return 8.0 if 8 <= hour % 24 < 18 else 0.5


def arrivals(rng: random.Random, weeks: int) -> Iterator[tuple[float, int]]:
    """Yield (time, devices) of each claim: a Poisson process with a weekly rate. One in eight needs
    two devices.
    """
    highest, now = 8.0, BEGIN
    while now < BEGIN + weeks * WEEK_HOURS * HOUR:
        now += rng.expovariate(highest) * HOUR
        if rng.random() < claims_per_hour(now) / highest:
            yield now, 2 if rng.random() < 0.125 else 1


class _Fleet:
    """The devices of one minimum. Its time only goes forward."""

    def __init__(self, floor: IdleMinimum) -> None:
        self.floor = floor
        self.now, self.idle, self.coming = BEGIN, 0, 0
        self.idle_seconds = 0.0
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def until(self, when: float) -> None:
        """Let time pass, at most an hour at once, since the minimum changes with the hours."""
        while self.now < when:
            due = self._later[0][0] if self._later else when
            hour = (self.now // HOUR + 1) * HOUR
            nearest = min(due, hour, when)
            self.idle_seconds += self.idle * (nearest - self.now)
            self.now = nearest
            while self._later and self._later[0][0] <= self.now:
                heapq.heappop(self._later)[2]()
            self.level()

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Call a function after ``seconds``."""
        self._number += 1
        heapq.heappush(self._later, (self.now + seconds, self._number, what))

    def level(self) -> None:
        """Return surplus devices, and attach missing ones."""
        wanted = self.floor.idle_at(self.now)
        self.idle -= min(self.idle, max(0, self.idle + self.coming - wanted))
        while self.idle + self.coming < wanted:
            self.coming += 1
            self.later(LEAD, self._came)

    def _came(self) -> None:
        self.coming, self.idle = self.coming - 1, self.idle + 1

    def _released(self, devices: int) -> None:
        self.idle += devices

    def take(self, devices: int, seconds: float) -> bool:
        """Serve a claim, and attach missing devices for it. Return whether all its devices were
        idle.
        """
        served = self.idle >= devices
        self.idle -= min(self.idle, devices)
        self.level()
        self.later(seconds, lambda: self._released(devices))
        return served


def simulate(row: dict[str, t.Any], seed: int = SEED, weeks: int = WEEKS) -> Outcome:
    """Simulate one minimum over the weeks."""
    (floor,) = idle_minimums([{"model": MODEL, **row}], [MODEL])
    fleet, rng, claims, hits = _Fleet(floor), random.Random(seed), 0, 0
    for when, devices in arrivals(random.Random(seed + 1), weeks):
        fleet.until(when)
        claims, hits = claims + 1, hits + fleet.take(devices, rng.expovariate(1 / 1800))
    return Outcome(claims, hits, fleet.idle_seconds / HOUR / weeks)


def table(outcomes: dict[str, Outcome]) -> list[str]:
    """Return the rows of a page in Markdown."""
    return ["| IdleMinimum | Claims that found an idle device | Idle device-hours a week |", "|---|---|---|",
            *(f"| {name} | {each.share:.0%} of {each.claims:,} | {each.idle_hours:.0f} |"
              for name, each in outcomes.items())]


def main() -> int:
    """Print the table."""
    print("\n".join(table({name: simulate(row) for name, row in ROWS.items()})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
