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


def boot_clock() -> float:
    """Seconds by a clock that nobody sets and that counts on while the machine is suspended, as the servers' do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ServerClock:
    """Thread-safe. ``wall``: our own clock, in seconds since the epoch. ``steady``: one as ``boot_clock``."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = boot_clock) -> None:
        self._wall, self._steady, self._lock = wall, steady, threading.Lock()
        self._said = ""
        # The server's time less that of the steady clock. Our wall clock may be set between an answer and a request.
        self._offset: float | None = None

    def note(self, date: str | None) -> None:
        """An answer has just come with this ``Date``; one that is the last one's says nothing new."""
        if not date or date == self._said:
            return
        try:
            moment = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        with self._lock:
            steady = self._steady()
            offset = moment + HALF - steady
            self._said = date
            # Our own clock is taken as long as the dates do not contradict it: it tells more than whole seconds.
            known = self._wall() - steady if self._offset is None else self._offset
            self._offset = offset if abs(offset - known) > TOLERANCE else known

    def now(self) -> float:
        """Seconds since the epoch at the API server, exact to about two seconds.

        It is our own time before the API server has answered.
        """
        with self._lock:
            return self._wall() if self._offset is None else self._steady() + self._offset
