# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the vendor's plugin is told to look again: once for all devices that arrive together; pure.

A restart costs seconds, and while the plugin is away no claim of the node is prepared. So devices that are on their way
are waited for, but never long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# How long after the last step a device that is on the bus is waited for: a first touch takes seconds.
ON_BUS_SECONDS = 10.0
# How long after the last arrival devices are waited for that the bus does not show yet.
COMING_SECONDS = 1.0
PREPARING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the node that decides on a restart of the plugin. Moments are seconds of ``time.monotonic()``.

    ``waiting``: devices are ready for the plugin, or left and are still in its slice. ``on_bus``: others are being
    brought up and the bus shows them. ``coming``: others are being attached, or attached and not on the bus yet.
    """

    waiting: bool
    on_bus: bool = False
    coming: bool = False
    last_step: float = 0.0
    last_arrival: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """``restart`` now; else look again at ``until`` (seconds), None when nothing is to be done."""

    restart: bool = False
    until: float | None = None


class RestartPolicy:
    """Decides for one plugin of one node; it remembers since when only a pod that is being prepared is waited for."""

    def __init__(self) -> None:
        self._gathered = 0.0

    def decide(self, now: float, seen: Situation, preparing: Callable[[], bool]) -> Decision:
        """Whether to restart the plugin at the moment ``now``.

        ``preparing``: whether a pod of the node waits for a claim of the plugin's driver; it is asked last.
        """
        if not seen.waiting:
            self._gathered = 0.0
            return Decision()
        until = max(seen.last_step + ON_BUS_SECONDS if seen.on_bus else 0.0,
                    seen.last_arrival + COMING_SECONDS if seen.coming else 0.0)
        if now < until:
            return Decision(until=until)
        self._gathered = self._gathered or now
        if now < self._gathered + PREPARING_SECONDS and preparing():
            return Decision(until=self._gathered + PREPARING_SECONDS)
        self._gathered = 0.0
        return Decision(restart=True)
