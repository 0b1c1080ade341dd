# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time at the API server, for values that it compares with its own clock. Clocks of hosts may
differ.

Source: the header ``Date`` (RFC 9110, section 6.6.1) in each answer of the API server, in whole
seconds.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

# A date is the beginning of its second.
SECOND = 1.0
# Within this tolerance, times that processes of one host write and read stay in order.
TOLERANCE = 0.5


def boot_clock() -> float:
    """Return seconds by a clock that is never set and that continues while the machine is
    suspended.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ServerClock:
    """Estimates the API server's time. Thread-safe.

    Each answer bounds the difference of the clocks: the server wrote the date between the request and
    the arrival of the answer. So the date of a slow answer says little, and moves nothing.
    ``wall``: local clock in epoch seconds. ``steady``: a clock as ``boot_clock``.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = boot_clock) -> None:
        self._wall, self.steady, self._lock = wall, steady, threading.Lock()
        self._said = ""
        # The server's time minus that of the steady clock: the estimate and its bounds. The local clock
        # may be set between an answer and a request.
        self._offset: float | None = None
        self._low, self._high = -math.inf, math.inf

    def note(self, date: str | None, requested: float) -> None:
        """Record the header ``Date`` of a new answer. Ignore the same header again.

        ``requested``: ``steady()`` before the request was sent.
        """
        if not date or date == self._said:
            return
        try:
            moment = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        with self._lock:
            steady = self.steady()
            low, high = moment - steady, moment + SECOND - requested
            if low <= self._high and high >= self._low:
                low, high = max(low, self._low), min(high, self._high)
            self._said, self._low, self._high = date, low, high  # alone, if the server's clock was set
            # Use the local clock as long as the dates do not contradict it, because it is more
            # precise.
            known = self._wall() - steady if self._offset is None else self._offset
            agrees = low - TOLERANCE <= known <= high + TOLERANCE
            self._offset = known if agrees else (low + high) / 2

    def now(self) -> float:
        """Return the API server's time in epoch seconds, exact to about a second.

        Return local time before the first answer.
        """
        with self._lock:
            return self._wall() if self._offset is None else self.steady() + self._offset
