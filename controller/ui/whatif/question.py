# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A question of the page.

It has one change and a load of pods, which are checked before a process is started for it.

The module fabric_whatif allows more. The child process runs the module's own checks on the capture.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

ADD_DEVICES, ADD_PODS, HOLD = "add_devices", "add_pods", "hold"
KINDS: t.Final = (ADD_DEVICES, ADD_PODS, HOLD)
SEEDS: t.Final = 3
DAY, WEEK, LONGEST_NAME = 24, 7 * 24 * 3600, 200
# The smallest and the largest value of each number.
BOUNDS: t.Final[Mapping[str, tuple[int, int]]] = {
    "fabric": (0, 1_000_000), "count": (1, 1000), "devices_each": (1, 32), "seconds": (0, WEEK),
    "hours": (1, DAY), "per_hour": (0, 1000), "lifetime": (1, WEEK)}
FIELDS: t.Final = ("change", "model", *BOUNDS)
# Pods of one replay. There are two replays for each seed, and a time limit for all of them.
MOST_PODS: t.Final = 2000


class BadQuestion(Exception):
    """The question is not allowed.

    The message names the field, its value and the allowed values.
    """


@dataclass(frozen=True, slots=True)
class Question:
    """A question. ``changes`` and ``simulate`` are arguments of the module fabric_whatif.

    ``simulate``: None if no pods arrive.
    """

    changes: tuple[Json, ...]
    simulate: Json | None

    def as_dict(self) -> Json:
        """Return the question for the child process."""
        return {"changes": list(self.changes), "simulate": self.simulate}


def read_question(query: Mapping[str, str]) -> Question:
    """Read a question from the parameters of an address. Raises BadQuestion."""
    for name, value in query.items():
        if name not in FIELDS:
            raise BadQuestion(f"{name[:64]}: {value[:64]!r} is not allowed. The fields of a question are "
                              f"{', '.join(FIELDS)}")
    model = query.get("model") or None
    if model and len(model) > LONGEST_NAME:
        raise BadQuestion(f"model: {model[:64]!r} is not allowed. It may have at most {LONGEST_NAME} characters")
    numbers = {name: _number(query, name) for name in BOUNDS}
    return Question((_change(query.get("change") or "", model, numbers),), _simulate(model, numbers))


def _number(query: Mapping[str, str], name: str) -> int | None:
    """Return the number, None if it is not given. Raises BadQuestion."""
    text, (least, most) = query.get(name) or "", BOUNDS[name]
    if not text:
        return None
    value = int(text) if len(text) <= 9 and text.isascii() and text.isdecimal() else -1
    if not least <= value <= most:
        raise BadQuestion(f"{name}: {text[:64]!r} is not allowed. It must be a whole number from {least} to {most}")
    return value


def _change(kind: str, model: str | None, numbers: Mapping[str, int | None]) -> Json:
    if kind == ADD_DEVICES:
        return {"change": ADD_DEVICES, "model": model, "fabric": numbers["fabric"], "count": _needed(numbers, "count")}
    if kind == ADD_PODS:
        return {"change": ADD_PODS, "model": model, "devices_each": numbers["devices_each"] or 1,
                "count": _needed(numbers, "count")}
    if kind == HOLD:
        return {"change": "settings", "settings": {"device_no_removal_duration": _needed(numbers, "seconds")}}
    raise BadQuestion(f"change: {kind[:64]!r} is not allowed. It must be one of {', '.join(KINDS)}")


def _needed(numbers: Mapping[str, int | None], name: str) -> int:
    if (value := numbers[name]) is None:
        raise BadQuestion(f"{name} is required for this change")
    return value


def _simulate(model: str | None, numbers: Mapping[str, int | None]) -> Json | None:
    per_hour, hours = numbers["per_hour"] or 0, numbers["hours"] or 4
    if not per_hour:
        return None
    if per_hour * hours > MOST_PODS:
        raise BadQuestion(f"per_hour: {per_hour} is not allowed. On this page, a replay of {hours} h may have at most "
                          f"{MOST_PODS} pods. The module fabric_whatif allows more")
    load = {"model": model, "devices_each": numbers["devices_each"] or 1, "per_hour": per_hour,
            "lifetime": numbers["lifetime"] or 600}
    return {"hours": float(hours), "seeds": SEEDS, "load": [load]}
