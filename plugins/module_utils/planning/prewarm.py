# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that are attached ahead of any claim: how many idle ones each node of a group keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .device_info import BadSetting, known_keys
from .prewarm_schedule import Window, device_hours, idle_at, read_idle, read_schedule

KEYS = ("model", "idle", "node_selector", "schedule")
# Keys of earlier releases, and what takes their place.
FORMER = {"learn": "floors are no longer learned; use idle and schedule"}


@dataclass(frozen=True, slots=True)
class Floor:
    """So many devices of a model (as the CDI Manager calls it) stay attached and idle on the nodes that have all labels
    of ``node_selector``, together: ``idle``, or what the first window of ``schedule`` says that holds."""

    model: str
    idle: int
    node_selector: Mapping[str, str]
    schedule: tuple[Window, ...] = ()

    def idle_at(self, now: float) -> int:
        """Return how many they are at a moment, in seconds since the epoch."""
        return idle_at(self.idle, self.schedule, now)

    def device_hours(self) -> float:
        """Return what a week costs at most: idle device-hours."""
        return device_hours(self.idle, self.schedule)

    def holds_for(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is in the group."""
        return self.node_selector.items() <= labels.items()


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the group. ``idle``: devices that nobody has, on their way included; ``devices``: all of the model.

    ``room``: how many more could be attached; ``fabric``: that of its machine.
    """

    node: str
    fabric: int
    idle: int
    devices: int
    room: int


def shares(idle: int, places: Sequence[Place], available: Mapping[int, int],
           waiting: Collection[int]) -> dict[str, int]:
    """How many idle devices each node keeps, so that there are ``idle`` in all. Pure; the same for whoever asks.

    What is idle already counts first. The rest is attached where there are fewest devices, from those that the fabric
    has ``available``. On fabrics where somebody waits in vain (``waiting``) nothing is kept: those who wait go first.
    """
    able = sorted((p for p in places if p.fabric not in waiting), key=lambda p: p.node)
    found, missing = {}, idle
    for place in sorted(able, key=lambda p: (-p.idle, p.node)):
        found[place.node] = min(place.idle, missing)
        missing -= found[place.node]
    left = dict(available)
    while missing > 0:
        chosen = min((p for p in able if found[p.node] - p.idle < p.room and left.get(p.fabric, 0) > 0
                      and found[p.node] >= p.idle), default=None,
                     key=lambda p: (p.devices + found[p.node] - p.idle, p.node))
        if chosen is None:
            break
        found[chosen.node] += 1
        left[chosen.fabric] -= 1
        missing -= 1
    return found


def floors(rows: object, models: Collection[str]) -> tuple[Floor, ...]:
    """Check and read the setting ``prewarm``. Raises BadSetting for the first field that cannot be used."""
    if not isinstance(rows, list):
        raise BadSetting("prewarm", rows, f"must be a list of mappings with {', '.join(KEYS)}")
    return tuple(_floor(row, f"prewarm[{number}]", models) for number, row in enumerate(rows))


def _floor(row: object, where: str, models: Collection[str]) -> Floor:
    if not isinstance(row, Mapping):
        raise BadSetting(where, row, f"must be a mapping with {', '.join(KEYS)}")
    for key in FORMER.keys() & row.keys():
        raise BadSetting(f"{where}.{key}", row[key], FORMER[key])
    known_keys(row, KEYS, where)
    if row.get("model") not in models:
        raise BadSetting(f"{where}.model", row.get("model"), f"no such model, known are {', '.join(models)}")
    idle, selector = read_idle(row, where), row.get("node_selector", {})
    if not isinstance(selector, Mapping) or not all(isinstance(n, str) and isinstance(v, str) for n, v in
                                                    selector.items()):
        raise BadSetting(f"{where}.node_selector", selector, "must be a mapping of labels to values")
    return Floor(str(row["model"]), idle, dict(selector), read_schedule(row.get("schedule", []), f"{where}.schedule"))


def costs(settings: Sequence[Floor]) -> list[str]:
    """Return what each floor costs in a week, a sentence each, for logs."""
    return [_cost(floor) for floor in settings]


def _cost(floor: Floor) -> str:
    idle = sorted({floor.idle, *(window.idle for window in floor.schedule)})
    number = f"{idle[0]}" if len(idle) == 1 else f"{idle[0]} to {idle[-1]}"
    where = ", ".join(f"{name}={value}" for name, value in sorted(floor.node_selector.items()))
    return (f"prewarm keeps {number} x {floor.model} idle on {f'nodes with {where}' if where else 'any node'}: at most "
            f"{floor.device_hours():g} idle device-hours a week")
