# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that are attached ahead of any claim: how many idle ones each node of a group keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from .device_info import BadSetting, known_keys
from .prewarm_learned import HOUR, MOST_LEARNED, WEEK_HOURS, Learn, Peaks, read_learn
from .prewarm_schedule import Window, device_hours, idle_at, read_idle, read_schedule

KEYS = ("model", "idle", "node_selector", "schedule", "learn")


@dataclass(frozen=True, slots=True)
class Floor:
    """So many devices of a model (as the CDI Manager calls it) stay attached and idle on the nodes that have all labels
    of ``node_selector``, together: what was learned of the hour (``learn``), and where nothing was, ``idle``, or what
    the first window of ``schedule`` says that holds."""

    model: str
    idle: int
    node_selector: Mapping[str, str]
    schedule: tuple[Window, ...] = ()
    learn: Learn | None = None

    @property
    def key(self) -> str:
        """By what it is known where its arrivals are kept: the model and the labels."""
        return "|".join((self.model, *(f"{name}={value}" for name, value in sorted(self.node_selector.items()))))

    def idle_at(self, now: float, peaks: Peaks | None = None) -> int:
        """How many they are at a moment, in seconds since the epoch. ``peaks``: what is known of the last weeks."""
        learned = self.learn.idle_at(now, peaks or {}) if self.learn else None
        return idle_at(self.idle, self.schedule, now) if learned is None else learned

    def device_hours(self, now: float, peaks: Peaks | None = None) -> float:
        """What the week that begins now costs at most: idle device-hours."""
        if self.learn is None:
            return device_hours(self.idle, self.schedule)
        return self.learn.device_hours(now, peaks or {}, lambda start: idle_at(self.idle, self.schedule, start))

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
    found = tuple(_floor(row, f"prewarm[{number}]", models) for number, row in enumerate(rows))
    learned = [floor.key for floor in found if floor.learn]
    if len(learned) > MOST_LEARNED:
        raise BadSetting("prewarm", f"{len(learned)} rows with learn", f"at most {MOST_LEARNED} can be learned")
    for number, floor in enumerate(found):
        if learned.count(floor.key) > 1:
            raise BadSetting(f"prewarm[{number}].learn", floor.key, "two rows with this model and these labels learn")
    return found


def _floor(row: object, where: str, models: Collection[str]) -> Floor:
    if not isinstance(row, Mapping):
        raise BadSetting(where, row, f"must be a mapping with {', '.join(KEYS)}")
    known_keys(row, KEYS, where)
    if row.get("model") not in models:
        raise BadSetting(f"{where}.model", row.get("model"), f"no such model, known are {', '.join(models)}")
    idle, selector = read_idle(row, where), row.get("node_selector", {})
    if not isinstance(selector, Mapping) or not all(isinstance(n, str) and isinstance(v, str) for n, v in
                                                    selector.items()):
        raise BadSetting(f"{where}.node_selector", selector, "must be a mapping of labels to values")
    schedule = read_schedule(row.get("schedule", []), f"{where}.schedule")
    return Floor(str(row["model"]), idle, dict(selector), schedule, read_learn(row.get("learn"), f"{where}.learn"))


def costs(settings: Sequence[Floor], now: float, peaks: Callable[[str], Peaks] = lambda key: {}) -> list[str]:
    """What each floor costs in the week that begins now, a sentence each, for logs. ``peaks``: by a floor's key."""
    return [_cost(floor, now, peaks(floor.key)) for floor in settings]


def _cost(floor: Floor, now: float, peaks: Peaks) -> str:
    idle = sorted({floor.idle_at(now + hour * HOUR, peaks) for hour in range(WEEK_HOURS)} if floor.learn else
                  {floor.idle, *(window.idle for window in floor.schedule)})
    number = f"{idle[0]}" if len(idle) == 1 else f"{idle[0]} to {idle[-1]}"
    where = ", ".join(f"{name}={value}" for name, value in sorted(floor.node_selector.items()))
    said = (f"prewarm keeps {number} x {floor.model} idle on {f'nodes with {where}' if where else 'any node'}: at most "
            f"{floor.device_hours(now, peaks):g} idle device-hours a week")
    if floor.learn is None:
        return said
    return (f"{said}, as learned from {len(peaks)} hours of claims; never more than {floor.learn.most} at once, "
            f"{floor.learn.most * WEEK_HOURS} a week")
