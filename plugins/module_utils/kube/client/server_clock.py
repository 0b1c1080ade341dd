# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time at the API server, for what it compares with its own: clocks of hosts may differ by any amount.

Source: the header ``Date`` (RFC 9110, section 6.6.1) that the API server gives with each answer, in whole seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

# A second is told by its beginning, so that half of one is added.
HALF = 0.5
# Dates tell no more than whole seconds. Times that one process writes and reads stay in their order.
TOLERANCE = 1.0


class ServerClock:
    """Thread-safe. ``wall`` is our own clock, in seconds since the epoch."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall, self._lock = wall, threading.Lock()
        self._said, self._offset = "", 0.0

    def note(self, date: str | None) -> None:
        """An answer has just come with this ``Date``; one that is the last one's says nothing new."""
        if not date or date == self._said:
            return
        try:
            moment = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        with self._lock:
            offset = moment + HALF - self._wall()
            self._said = date
            if abs(offset - self._offset) > TOLERANCE:
                self._offset = offset

    def now(self) -> float:
        """Seconds since the epoch at the API server, exact to about two seconds.

        It is our own time before the API server has answered.
        """
        with self._lock:
            return self._wall() + self._offset
