# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather things that come in bursts: handle them when no more come, but do not wait for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Batcher:
    """A batch of arrivals. Thread-safe.

    It ends ``quiet`` seconds after the last arrival, and at the latest ``longest`` seconds after
    the first.
    """

    def __init__(self, quiet: float, longest: float, clock: Callable[[], float] = time.time) -> None:
        self._quiet, self._longest, self._clock = quiet, longest, clock
        self._first = self._newest = 0.0
        self._lock = threading.Lock()

    def note(self) -> float:
        """Note an arrival. Return the earliest end of the batch."""
        with self._lock:
            self._newest = self._clock()
            self._first = self._first or self._newest
            return self._end()

    def lasts_until(self) -> float:
        """Return when to check again, or 0.0 if the batch has ended. The next arrival begins a new
        batch."""
        with self._lock:
            if self._first and self._clock() < self._end():
                return self._end()
            self._first = 0.0
            return 0.0

    def _end(self) -> float:
        return min(self._newest + self._quiet, self._first + self._longest)
