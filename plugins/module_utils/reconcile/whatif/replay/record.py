# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record of a replay: waits of pods, and how many devices were used, idle and attached."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field

from .node import Counts

HOUR: t.Final = 3600.0


@dataclass(slots=True)
class Guest:
    """A pod of a replay, with times in seconds since its start, or -1.0 for an event that did not
    happen.

    ``let_go`` says that its gate was removed without devices. ``unfit`` says why no plan can ever
    serve it.
    """

    name: str
    namespace: str
    came: float
    ran: float = -1.0
    let_go: bool = False
    unfit: str = ""

    def waited(self, end: float) -> float:
        """Return the seconds until the pod ran, or until ``end``."""
        return (self.ran if self.ran >= 0.0 else end) - self.came


@dataclass(slots=True)
class Devices:
    """Number of devices that are used, that are idle on nodes, and in all, by model."""

    used: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)

    def count(self, counts: Counts, change: int) -> None:
        """Add (1) or subtract (-1) the devices of a node."""
        for into, by_model in ((self.used, counts.used), (self.idle, counts.idle)):
            for model, n in by_model.items():
                into[model] += change * n


@dataclass(slots=True)
class Record:
    """Record of one replay.

    ``used``, ``idle`` and ``total`` are device-seconds by model. ``attaches`` is by model.
    ``plans`` is the number of plans of the queue. ``end`` is the duration in seconds.
    """

    end: float
    guests: list[Guest] = field(default_factory=list)
    used: dict[str, float] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)
    total: dict[str, float] = field(default_factory=dict)
    attaches: Counter[str] = field(default_factory=Counter)
    plans: int = 0

    def pass_time(self, seconds: float, devices: Devices) -> None:
        """Add ``seconds`` in which the devices did not change."""
        for into, counts in ((self.used, devices.used), (self.idle, devices.idle), (self.total, devices.total)):
            for model, n in counts.items():
                into[model] = into.get(model, 0.0) + n * seconds
