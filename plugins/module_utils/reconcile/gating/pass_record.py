# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether held pods are being planned: new pods may be held only while they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Seconds after which a pass that did not come counts as missing; a slow one has so many times its duration.
LONGEST, TIMES = 15.0, 3.0


class PassRecord:
    """When the last pass over held pods succeeded, and what went wrong since. Thread-safe.

    ``clock``: seconds of a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last: float | None = None
        self._took, self._error = 0.0, ""

    def succeeded(self, took: float) -> None:
        """A pass is over; it took so many seconds."""
        with self._lock:
            self._last, self._took, self._error = self._clock(), took, ""

    def failed(self, error: str) -> None:
        """A pass failed."""
        with self._lock:
            self._error = error

    def age(self) -> float:
        """Seconds since the last success, infinite before the first."""
        with self._lock:
            return float("inf") if self._last is None else self._clock() - self._last

    def problem(self) -> str:
        """Why new pods should not be held, empty when they may be."""
        age = self.age()
        with self._lock:
            if age <= max(LONGEST, TIMES * self._took):
                return ""
            since = "not planned yet" if self._last is None else f"last planned {age:.0f} s ago"
            return f"held pods were {since}" + (f": {self._error}" if self._error else "")
