# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeat the arrivals of the day before a capture: known claims exactly, and others by their
number.

A known claim comes at its recorded time. A claim that was only counted comes at a random time of
its hour, with devices like a known claim, of its own namespace if there are any.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....kube.api_resources import NAMESPACES
from ....planning.settings import Settings
from ..capture import Capture
from ..options import BadChange, Options
from ..past_arrivals import Came
from ..pod_changes import MorePods, read_add_pods

HOUR: t.Final = 3600.0
HOURS: t.Final = 24
ENOUGH: t.Final = 5
"""Number of known lifetimes that is enough. With fewer, ``lifetime`` is required."""
Shape = tuple[str, str, int]
"""Namespace, model and number of devices of a pod."""


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of the day.

    ``known`` has (seconds after its start, claim). ``counted`` has the number of further claims by
    namespace.
    """

    known: tuple[tuple[float, Came], ...]
    counted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Shapes:
    """Pods for arrivals: for ``known`` claims, and choices by namespace (``others``) for counted
    claims."""

    known: Mapping[Shape, MorePods]
    others: Mapping[str, tuple[MorePods, ...]]

    def pod(self, came: Came, rng: random.Random) -> MorePods:
        """Return the pod of an arrival."""
        own = self.known.get((came.namespace, came.model, came.devices))
        return own or rng.choice(self.others[came.namespace])


@dataclass(frozen=True, slots=True)
class Past:
    """The past day.

    ``hours`` are in order, the oldest first. ``lifetimes`` are the known ones. ``lifetime`` is the
    mean of an exponential lifetime if too few are known.
    """

    hours: tuple[Hour, ...]
    shapes: Shapes
    lifetimes: tuple[float, ...]
    lifetime: float

    def expected(self, hours: float) -> float:
        """Return the mean number of arrivals in ``hours`` hours."""
        whole = sum(len(each.known) + sum(each.counted.values()) for each in self.hours)
        return whole * hours / len(self.hours)

    def drawn(self, hours: float, rng: random.Random) -> Iterator[tuple[float, MorePods, float]]:
        """Yield (moment, pod, lifetime) of each arrival. A replay of more than a day repeats the
        day."""
        for number in range(int(-(-hours // 1))):
            hour = self.hours[number % len(self.hours)]
            for after, came in hour.known:
                yield number * HOUR + after, self.shapes.pod(came, rng), came.lifetime or self._life(rng)
            for namespace in sorted(hour.counted):
                for _each in range(hour.counted[namespace]):
                    at = number * HOUR + rng.uniform(0.0, HOUR)
                    yield at, self.shapes.pod(Came(0.0, namespace), rng), self._life(rng)

    def _life(self, rng: random.Random) -> float:
        return rng.choice(self.lifetimes) if len(self.lifetimes) >= ENOUGH else rng.expovariate(1.0 / self.lifetime)


def read_past_load(options: Options, capture: Capture, shape: Mapping[str, t.Any], lifetime: float | None) -> Past:
    """Return the load. ``shape`` describes pods that were only counted. Raise BadChange."""
    hours = _hours(capture)
    if not any(each.known or each.counted for each in hours):
        raise options.bad("captured", "the capture has no arrivals of the day before it")
    lifetimes = tuple(each.lifetime for each in capture.past.came if each.lifetime)
    if len(lifetimes) < ENOUGH and lifetime is None:
        raise BadChange(f"{options.where}.lifetime", None, f"the capture has only {len(lifetimes)} lifetimes, and "
                        f"{ENOUGH} are needed. Set lifetime")
    return Past(hours, _shapes(capture, options, shape), lifetimes, lifetime or 0.0)


def _hours(capture: Capture) -> tuple[Hour, ...]:
    """Return the 24 whole hours before the hour of the capture."""
    first = int(capture.taken // HOUR) - HOURS
    known: dict[int, list[tuple[float, Came]]] = {first + number: [] for number in range(HOURS)}
    for each in capture.past.came:
        if (hour := int(each.at // HOUR)) in known:
            known[hour].append((each.at - hour * HOUR, each))
    return tuple(Hour(tuple(found), _counted(capture, hour, found)) for hour, found in known.items())


def _counted(capture: Capture, hour: int, known: Sequence[tuple[float, Came]]) -> dict[str, int]:
    """Return how many served claims of an hour are not known, by namespace.

    The counts include known claims, so subtract these.
    """
    more = {namespace: count for (of, namespace), count in capture.past.served.items() if of == hour}
    for _after, came in known:
        if came.model and came.namespace in more:
            more[came.namespace] -= 1
    return {namespace: count for namespace, count in more.items() if count > 0}


def _shapes(capture: Capture, options: Options, given: Mapping[str, t.Any]) -> Shapes:
    spaces = {raw["metadata"]["name"] for raw in capture.of(NAMESPACES.plural)}
    models = {model.cdi_model_name for model in Settings.from_dict(capture.settings).models}
    came = [(each.namespace, each.model, each.devices) for each in capture.past.came if each.model in models]
    made: dict[Shape, MorePods] = {}

    def pod(namespace: str, model: str, devices: int) -> MorePods:
        key = (namespace, model, devices)
        if key not in made:
            shape = {"model": model, "devices_each": devices} if model else dict(given)
            where = {"namespace": namespace} if namespace in spaces and "like" not in shape else {}
            made[key] = read_add_pods(Options({**shape, **where, "count": 1}, options.where), capture)
        return made[key]

    everybody = {each.namespace for each in capture.past.came} | {namespace for _hour, namespace in capture.past.served}
    others = {}
    for namespace in sorted(everybody):
        own = [each for each in came if each[0] == namespace]
        like = own or ([("", "", 0)] if given or not came else came)
        others[namespace] = tuple(pod(namespace, model, devices) for _namespace, model, devices in like)
    return Shapes({each: pod(*each) for each in came}, others)
