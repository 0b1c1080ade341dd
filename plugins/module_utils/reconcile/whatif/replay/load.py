# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the arrivals of a replay with their claims and lifetimes, from a rate or from a record."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....kube.objects import pods
from ....planning.scheduling.snapshot import GatedPod
from ..capture import Capture
from ..options import BadChange, Options
from ..pod_changes import MorePods, read_add_pods
from .past_load import Past, read_past_load

HOUR: t.Final = 3600.0
MOST: t.Final = 1_000_000
"""Largest number of arrivals in a replay."""
SHAPE: t.Final = ("like", "namespace", "model", "devices_each", "cpu", "memory")
FIELDS: t.Final = (*SHAPE, "per_hour", "burst", "lifetime", "arrivals", "captured")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that comes ``at`` seconds after the start and ends ``lifetime`` seconds after it began
    to run."""

    at: float
    pods: MorePods
    lifetime: float

    def gated(self, number: int, began: float) -> GatedPod:
        """Return the pod for the planner. ``began`` is the start of the replay in seconds since the
        epoch."""
        pod, claims = self.pods.one(f"replay-{number}", began + self.at)
        held = {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": pods.GATE}]}}
        return GatedPod(held, dict(zip(self.pods.claims, claims, strict=True)), began + self.at)


@dataclass(frozen=True, slots=True)
class Rate:
    """Random arrivals of one kind of pod (a Poisson process).

    ``per_hour`` is the mean number of pods per hour, which come in groups of ``burst``. Lifetimes
    are exponential with the mean ``lifetime``, in seconds.
    """

    pods: MorePods
    per_hour: float
    burst: int
    lifetime: float

    def arrivals(self, hours: float, rng: random.Random) -> Iterator[Arrival]:
        """Yield the arrivals of ``hours`` hours."""
        at = rng.expovariate(self.per_hour / self.burst / HOUR)
        while at < hours * HOUR:
            for _unused in range(self.burst):
                yield Arrival(at, self.pods, rng.expovariate(1.0 / self.lifetime))
            at += rng.expovariate(self.per_hour / self.burst / HOUR)

    def expected(self, hours: float) -> float:
        """Return the mean number of arrivals."""
        return self.per_hour * hours


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded arrivals of one kind of pod, as (moment, lifetime) in seconds."""

    pods: MorePods
    moments: tuple[tuple[float, float], ...]

    def arrivals(self, hours: float, rng: random.Random) -> Iterator[Arrival]:
        """Yield the arrivals of ``hours`` hours. Nothing is random."""
        return (Arrival(at, self.pods, lifetime) for at, lifetime in self.moments if at < hours * HOUR)

    def expected(self, hours: float) -> float:
        """Return the number of arrivals."""
        return len(self.moments)


@dataclass(frozen=True, slots=True)
class Captured:
    """The arrivals of the day before the capture, repeated."""

    past: Past

    def arrivals(self, hours: float, rng: random.Random) -> Iterator[Arrival]:
        """Yield the arrivals of ``hours`` hours."""
        return (Arrival(*each) for each in self.past.drawn(hours, rng) if each[0] < hours * HOUR)

    def expected(self, hours: float) -> float:
        """Return the mean number of arrivals."""
        return self.past.expected(hours)


Load = t.Sequence["Rate | Recorded | Captured"]


def drawn(load: Load, hours: float, rng: random.Random) -> list[Arrival]:
    """Return all arrivals of a replay in order."""
    return sorted((each for part in load for each in part.arrivals(hours, rng)), key=lambda each: each.at)


def read_load(given: t.Any, capture: Capture, where: str, hours: float) -> Load:
    """Return the load. Raise BadChange."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise BadChange(where, given, "must be a list of at least one load")
    load = [_read(each, capture, f"{where}[{number}]") for number, each in enumerate(given)]
    expected = sum(each.expected(hours) for each in load)
    if expected > MOST:
        raise BadChange(where, f"{expected:.0f} pods", f"a replay has {MOST} pods at most")
    return load


def _read(given: t.Any, capture: Capture, where: str) -> Rate | Recorded | Captured:
    if not isinstance(given, Mapping):
        raise BadChange(where, given, f"must be a mapping with some of {', '.join(FIELDS)}")
    options = Options(given, where)
    options.only("a load", FIELDS)
    shape = {key: value for key, value in options.given.items() if key in SHAPE}
    if options.given.get("captured"):
        options.only("a load with captured", (*SHAPE, "lifetime", "captured"))
        lifetime = _positive(options, "lifetime") if "lifetime" in options.given else None
        return Captured(read_past_load(options, capture, shape, lifetime))
    made = read_add_pods(Options({**shape, "count": 1}, where), capture)
    if "arrivals" in options.given:
        options.only("a load with arrivals", (*SHAPE, "arrivals"))
        return Recorded(made, tuple(_moment(options, each) for each in _list(options)))
    return Rate(made, _positive(options, "per_hour"), options.count("burst", 1, 1000), _positive(options, "lifetime"))


def _list(options: Options) -> list[t.Any]:
    value = options.given["arrivals"]
    if not isinstance(value, list):
        raise options.bad("arrivals", "must be a list of [moment, lifetime], in seconds")
    return value


def _moment(options: Options, pair: t.Any) -> tuple[float, float]:
    numbers = pair if isinstance(pair, (list, tuple)) and len(pair) == 2 else ()
    if not numbers or not all(type(each) in (int, float) and each >= 0 for each in numbers):
        raise BadChange(f"{options.where}.arrivals", pair, "each must be [moment, lifetime], in seconds from 0")
    return float(numbers[0]), float(numbers[1])


def _positive(options: Options, field: str) -> float:
    value = options.given.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise options.bad(field, "must be a number above 0")
    return float(value)
