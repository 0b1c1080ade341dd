# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide when to restart the vendor's plugin, once for all devices that arrive together.

No input or output.

A restart takes seconds, and during it no claim of the node is prepared. So the restart waits for
devices that are about to come, but never long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Seconds after the last step in which a device on the bus is awaited. A first touch takes seconds.
ON_BUS_SECONDS = 10.0
# Seconds after the last arrival in which devices are awaited that the bus does not show yet.
COMING_SECONDS = 1.0
PREPARING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the node that decides on a restart of the plugin.

    Moments are seconds of ``time.monotonic()``.

    ``waiting``: devices are ready for the plugin, or left and are still in its slice. ``on_bus``:
    others are being brought up and the bus shows them. ``coming``: others are being attached, or
    attached and not on the bus yet.
    """

    waiting: bool
    on_bus: bool = False
    coming: bool = False
    last_step: float = 0.0
    last_arrival: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to restart the plugin now, and otherwise when to decide again.

    ``until`` is in seconds, or None if nothing is to be done.
    """

    restart: bool = False
    until: float | None = None


class RestartPolicy:
    """Decide for one plugin of one node.

    It remembers since when it waits only for pods being prepared.
    """

    def __init__(self) -> None:
        self._gathered = 0.0

    def decide(self, now: float, seen: Situation, preparing: Callable[[], bool]) -> Decision:
        """Decide whether to restart the plugin at the moment ``now``.

        ``preparing``: returns whether a pod of the node waits for a claim of the plugin's driver.
        It is called last.
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
