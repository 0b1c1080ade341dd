# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that are attached before any claim needs them: the minimum of idle devices of a group of
nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .device_info import BadSetting, known_keys
from .prewarm_schedule import Window, device_hours, idle_at, read_idle, read_schedule

KEYS = ("model", "idle", "node_selector", "schedule")
# Keys of earlier releases, with the advice for the message.
FORMER = {"learn": "minimums of idle devices are no longer learned. Use idle and schedule"}


@dataclass(frozen=True, slots=True)
class IdleMinimum:
    """The minimum of idle devices of a model on all nodes with the labels of ``node_selector``
    together.

    ``model``: name at the CDI Manager. The number is that of the first window of ``schedule`` that
    is active, else ``idle``.
    """

    model: str
    idle: int
    node_selector: Mapping[str, str]
    schedule: tuple[Window, ...] = ()

    def idle_at(self, now: float) -> int:
        """Return the minimum at ``now``, in epoch seconds."""
        return idle_at(self.idle, self.schedule, now)

    def device_hours(self) -> float:
        """Return the idle device-hours that a week costs at most."""
        return device_hours(self.idle, self.schedule)

    def holds_for(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is in the group."""
        return self.node_selector.items() <= labels.items()


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the group.

    ``idle``: idle devices, including those that are being attached. ``devices``: all devices of the
    model. ``room``: how many more can be attached. ``fabric``: fabric of the node's machine.
    """

    node: str
    fabric: int
    idle: int
    devices: int
    room: int


def shares(idle: int, places: Sequence[Place], available: Mapping[int, int],
           waiting: Collection[int]) -> dict[str, int]:
    """Return how many idle devices each node keeps, so that the group has ``idle`` in all. Pure.

    Idle devices count first. The other devices are attached to the nodes with the fewest devices,
    from the devices that each fabric has ``available``. Fabrics in ``waiting``, where pods wait for
    devices in vain, keep no idle devices, because those pods have precedence.
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


def idle_minimums(rows: object, models: Collection[str]) -> tuple[IdleMinimum, ...]:
    """Check and read the setting ``prewarm``. Raise BadSetting for the first invalid field."""
    if not isinstance(rows, list):
        raise BadSetting("prewarm", rows, f"must be a list of mappings with {', '.join(KEYS)}")
    return tuple(_minimum(row, f"prewarm[{number}]", models) for number, row in enumerate(rows))


def _minimum(row: object, where: str, models: Collection[str]) -> IdleMinimum:
    if not isinstance(row, Mapping):
        raise BadSetting(where, row, f"must be a mapping with {', '.join(KEYS)}")
    for key in FORMER.keys() & row.keys():
        raise BadSetting(f"{where}.{key}", row[key], FORMER[key])
    known_keys(row, KEYS, where)
    if row.get("model") not in models:
        raise BadSetting(f"{where}.model", row.get("model"), f"no such model. Known models are {', '.join(models)}")
    idle, selector = read_idle(row, where), row.get("node_selector", {})
    if not isinstance(selector, Mapping) or not all(isinstance(n, str) and isinstance(v, str) for n, v in
                                                    selector.items()):
        raise BadSetting(f"{where}.node_selector", selector, "must be a mapping of labels to values")
    schedule = read_schedule(row.get("schedule", []), f"{where}.schedule")
    return IdleMinimum(str(row["model"]), idle, dict(selector), schedule)


def costs(settings: Sequence[IdleMinimum]) -> list[str]:
    """Return the weekly cost of each minimum of idle devices, one sentence each, for logs."""
    return [_cost(minimum) for minimum in settings]


def _cost(minimum: IdleMinimum) -> str:
    idle = sorted({minimum.idle, *(window.idle for window in minimum.schedule)})
    number = f"{idle[0]}" if len(idle) == 1 else f"{idle[0]} to {idle[-1]}"
    selector = ", ".join(f"{name}={value}" for name, value in sorted(minimum.node_selector.items()))
    where = f"nodes with {selector}" if selector else "any node"
    return (f"prewarm keeps {number} x {minimum.model} idle on {where}: at most "
            f"{minimum.device_hours():g} idle device-hours a week")
