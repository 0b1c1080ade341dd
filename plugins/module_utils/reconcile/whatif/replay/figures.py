# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the figures of replays: the median and the range over several replays of the same
load."""

from __future__ import annotations

import statistics
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...timelines.histogram import quantile
from .load import HOUR
from .record import Guest, Record

MOST_NAMED: t.Final = 5
FIGURES: t.Final[Mapping[str, str]] = {
    "came": "pods that came", "ran": "pods that ran", "waiting": "pods waiting at the end",
    "let_go": "pods first released without devices", "unfit": "pods that no plan can serve",
    "wait_p50": "wait, half of the pods, s", "wait_p95": "wait, 95% of the pods, s",
    "wait_p99": "wait, 99% of the pods, s", "wait_longest": "longest wait, s", "utilisation": "devices in use, %",
    "attaches_per_hour": "attaches per hour", "idle_device_hours": "device-hours attached and idle",
    "idle_kwh": "energy of idle attached devices, kWh"}
"""Figures with their names for people."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several seeds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value."""
        return cls(*(round(each, 2) for each in (statistics.median(values), min(values), max(values))))

    def __str__(self) -> str:
        return f"{self.median:g} ({self.low:g} to {self.high:g})" if self.low != self.high else f"{self.median:g}"


def figures(record: Record, watts: float) -> dict[str, float]:
    """Return the figures by the names of FIGURES.

    A waiting pod counts with its wait so far. ``watts`` is the power of an idle device.
    """
    guests, hours = record.guests, record.end / HOUR
    waited = waits(guests, record.end)
    idle, total = sum(record.idle.values()) / HOUR, sum(record.total.values())
    return {"came": len(guests), "ran": sum(each.ran >= 0.0 for each in guests),
            "waiting": sum(each.ran < 0.0 and not each.unfit for each in guests),
            "let_go": sum(each.let_go for each in guests), "unfit": sum(bool(each.unfit) for each in guests),
            "wait_p50": quantile(waited, 0.5), "wait_p95": quantile(waited, 0.95), "wait_p99": quantile(waited, 0.99),
            "wait_longest": waited[-1], "utilisation": 100.0 * sum(record.used.values()) / total if total else 0.0,
            "attaches_per_hour": sum(record.attaches.values()) / hours, "idle_device_hours": idle,
            "idle_kwh": idle * watts / 1000.0}


def waits(guests: Sequence[Guest], end: float) -> list[float]:
    """Return the waits of pods in seconds, the shortest first, or [0.0] if there are none."""
    return sorted(each.waited(end) for each in guests if not each.unfit) or [0.0]


def by_namespace(records: Sequence[Record]) -> list[dict[str, t.Any]]:
    """Return the waits by namespace, the longest first.

    For each namespace give medians over the replays: the p95 of the waits, the number of waiting
    pods, and the number of pods that no plan can serve. The latter do not count as waiting.
    """
    found = []
    for namespace in sorted({guest.namespace for record in records for guest in record.guests}):
        own = [[guest for guest in record.guests if guest.namespace == namespace] for record in records]
        p95 = [quantile(waits(guests, record.end), 0.95) for guests, record in zip(own, records, strict=True)]
        left = [sum(guest.ran < 0.0 and not guest.unfit for guest in guests) for guests in own]
        unfit = [sum(bool(guest.unfit) for guest in guests) for guests in own]
        found.append({"namespace": namespace, "wait_p95": Spread.of(p95).median, "waiting": Spread.of(left).median,
                      "unfit": Spread.of(unfit).median})
    return sorted(found, key=lambda each: (-each["wait_p95"], each["namespace"]))


def longest(record: Record) -> list[dict[str, t.Any]]:
    """Return the pods of a replay that waited longest."""
    ordered = sorted((each for each in record.guests if not each.unfit), key=lambda each: -each.waited(record.end))
    return [{"pod": each.name, "waited": round(each.waited(record.end), 1), "runs": each.ran >= 0.0}
            for each in ordered[:MOST_NAMED]]
