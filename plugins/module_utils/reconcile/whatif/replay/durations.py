# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the duration of each step in a replay, from captured timelines or from assumed bounds."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ....kube.api_resources import COMPOSABLE_RESOURCES
from ...timelines.timeline import START, Timeline, of_resource
from ..capture import Capture
from ..options import BadChange

REQUEST, GATE, LEAVE, DETACH = "request", "gate", "leave", "detach"
DEFAULTS: t.Final[Mapping[str, tuple[float, float]]] = {
    REQUEST: (0.01, 0.1), "attach": (5.0, 15.0), "slice": (1.0, 5.0), GATE: (0.01, 0.1), "bind": (0.1, 1.0),
    "handover": (0.0, 5.0), START: (1.0, 3.0), LEAVE: (1.0, 5.0), DETACH: (3.0, 10.0)}
"""Shortest and longest, in seconds. The steps are those of a timeline, then ``leave`` (the node
releases a device) and ``detach`` (the fabric takes it back)."""
ENOUGH: t.Final = 5
"""Number of samples that a step needs. With fewer, use the bounds."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Samples in seconds by step (``samples``), and ``bounds`` for steps without samples."""

    samples: Mapping[str, tuple[float, ...]]
    bounds: Mapping[str, tuple[float, float]]

    def draw(self, step: str, rng: random.Random) -> float:
        """Return the seconds that the step takes this time."""
        known = self.samples.get(step)
        return rng.choice(known) if known else rng.uniform(*self.bounds[step])

    def told(self) -> dict[str, str]:
        """Return in words where the durations of each step come from."""
        return {step: f"{len(self.samples[step])} measured" if step in self.samples
                else "{:g} to {:g} s, assumed".format(*self.bounds[step]) for step in DEFAULTS}


def durations_of(capture: Capture, given: Mapping[str, t.Any], where: str) -> Durations:
    """Return the durations of a capture. Raise BadChange.

    ``given`` has bounds by step, which take precedence over the capture.
    """
    bounds = {step: _bounds(step, value, where) for step, value in given.items()}
    known = measured(each for raw in capture.of(COMPOSABLE_RESOURCES.plural) for each in of_resource(raw))
    return Durations({step: found for step, found in known.items() if step not in bounds}, {**DEFAULTS, **bounds})


def measured(timelines: Iterable[Timeline]) -> dict[str, tuple[float, ...]]:
    """Return the samples by step, for steps with enough samples. Each claim counts once."""
    found: dict[str, list[float]] = {}
    for timeline in {each.uid: each for each in timelines}.values():
        for span in timeline.merged():
            found.setdefault(span.step, []).append(span.seconds)
    return {step: tuple(each) for step, each in found.items() if step in DEFAULTS and len(each) >= ENOUGH}


def _bounds(step: str, value: t.Any, where: str) -> tuple[float, float]:
    if step not in DEFAULTS:
        raise BadChange(f"{where}.steps.{step}", value, f"no such step. Known steps are {', '.join(DEFAULTS)}")
    numbers = value if isinstance(value, (list, tuple)) and len(value) == 2 else ()
    if not numbers or not all(type(each) in (int, float) for each in numbers) or not 0 <= numbers[0] <= numbers[1]:
        raise BadChange(f"{where}.steps.{step}", value, "must be [shortest, longest], in seconds")
    return float(numbers[0]), float(numbers[1])
