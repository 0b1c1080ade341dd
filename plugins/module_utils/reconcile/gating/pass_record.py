# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record whether gated pods are being planned.

The admission policy may gate new pods only while they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# A pass is missing after `LONGEST` seconds, or after `TIMES` its own duration if that is longer.
LONGEST, TIMES = 15.0, 3.0


class PassRecord:
    """Time of the last successful plan of gated pods, and the error since. Thread-safe.

    ``clock`` returns seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last: float | None = None
        self._took, self._error = 0.0, ""

    def succeeded(self, took: float) -> None:
        """Record a successful pass that took ``took`` seconds."""
        with self._lock:
            self._last, self._took, self._error = self._clock(), took, ""

    def failed(self, error: str) -> None:
        """Record the error of a failed pass."""
        with self._lock:
            self._error = error

    def age(self) -> float:
        """Return the seconds since the last success, or infinity before the first."""
        with self._lock:
            return float("inf") if self._last is None else self._clock() - self._last

    def problem(self) -> str:
        """Return why new pods should not be gated, or an empty string if they may be."""
        age = self.age()
        with self._lock:
            if age <= max(LONGEST, TIMES * self._took):
                return ""
            since = "not planned yet" if self._last is None else f"last planned {age:.0f} s ago"
            return f"gated pods were {since}" + (f": {self._error}" if self._error else "")
