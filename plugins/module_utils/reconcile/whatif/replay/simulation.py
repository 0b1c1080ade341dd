# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The question for a replay, and its answer as data and as a table."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ....model.value import Json
from ..capture import Capture
from ..comparison import aligned
from ..options import BadChange, Options
from .durations import Durations, durations_of
from .figures import FIGURES, Spread, by_namespace, figures, longest
from .load import Load, drawn, read_load
from .record import Record
from .replay import Replay
from .start import start_of

WHERE: t.Final = "simulate"
FIELDS: t.Final = ("hours", "seeds", "seed", "watts", "load", "steps")
MOST_HOURS, MOST_SEEDS = 24.0 * 31, 100


@dataclass(frozen=True, slots=True)
class Question:
    """Simulate ``hours``, once for each of ``seeds``. ``watts`` is the power of an attached idle
    device."""

    hours: float
    seeds: tuple[int, ...]
    watts: float
    load: t.Any
    steps: Mapping[str, t.Any]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Replays of a capture, one for each seed. ``durations`` says where those of the steps come
    from."""

    records: tuple[Record, ...]
    spreads: Mapping[str, Spread]
    durations: Mapping[str, str]

    def as_result(self) -> Json:
        """Return the answer as data. The longest waits are those of the first seed."""
        return {"figures": {name: asdict(spread) for name, spread in self.spreads.items()},
                "namespaces": by_namespace(self.records), "longest": longest(self.records[0]),
                "durations": dict(self.durations)}


def read_question(given: Mapping[str, t.Any]) -> Question:
    """Return the question. Raise BadChange."""
    options = Options(given, WHERE)
    options.only(WHERE, FIELDS)
    count, first = options.count("seeds", 3, MOST_SEEDS), options.given.get("seed", 1)
    if isinstance(first, bool) or not isinstance(first, int):
        raise options.bad("seed", "must be a whole number")
    return Question(_number(options, "hours", 8.0, MOST_HOURS), tuple(range(first, first + count)),
                    _number(options, "watts", 60.0, 10_000.0), options.given.get("load"),
                    options.given.get("steps") or {})


def _number(options: Options, field: str, default: float, most: float) -> float:
    value = options.given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise options.bad(field, f"must be a number above 0, {most:g} at most")
    return float(value)


def simulated(capture: Capture, question: Question) -> Simulated:
    """Replay the hours after a capture. Raise BadChange and BadSetting.

    The same seeds draw the same arrivals, even if the capture was changed.
    """
    load = read_load(question.load, capture, f"{WHERE}.load", question.hours)
    durations = durations_of(capture, question.steps, WHERE)
    records = tuple(_replayed(capture, question, load, durations, seed) for seed in question.seeds)
    each = [figures(record, question.watts) for record in records]
    return Simulated(records, {name: Spread.of([run[name] for run in each]) for name in FIGURES}, durations.told())


def _replayed(capture: Capture, question: Question, load: Load, durations: Durations, seed: int) -> Record:
    arrivals = drawn(load, question.hours, random.Random(f"{seed} arrivals"))
    return Replay(start_of(capture), arrivals, durations, random.Random(f"{seed} durations"), question.hours).run()


def table(before: Simulated, after: Simulated, question: Question) -> list[str]:
    """Return a table of both answers for people."""
    seeds = f"{len(question.seeds)} seeds: median (lowest to highest)" if len(question.seeds) > 1 else "1 seed"
    rows = [[f"{question.hours:g} h simulated", "BEFORE", "AFTER"],
            *([words, str(before.spreads[name]), str(after.spreads[name])] for name, words in FIGURES.items())]
    return [*aligned(rows), seeds, *_namespaces(after)]


def _namespaces(after: Simulated) -> Sequence[str]:
    rows = [[each["namespace"], f"{each['wait_p95']:g}", f"{each['waiting']:g}"]
            for each in by_namespace(after.records)]
    return ["", *aligned([["NAMESPACE (after)", "wait, 95% of its pods, s", "waiting at the end"], *rows])]


def compared(before: Capture, after: Capture, given: Mapping[str, t.Any]) -> Json:
    """Return replays of a capture before and after changes, as the result of a module. Raise
    BadChange."""
    question = read_question(given)
    if question.load is None:
        raise BadChange(f"{WHERE}.load", None, "must be a list of loads, which describe the pods that arrive")
    one, other = simulated(before, question), simulated(after, question)
    return {"before": one.as_result(), "after": other.as_result(), "table": table(one, other, question)}
