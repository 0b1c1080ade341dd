# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit of requests of a process to the API server: a token bucket, as client-go's
``flowcontrol``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TokenBucket:
    """``qps`` requests a second, and up to ``burst`` at once after a pause. Thread-safe.

    Requests are served in their order: each takes a token at once, and waits until it is due.
    ``clock`` returns seconds.

    Source: ``Reserve`` of ``golang.org/x/time/rate``, which client-go wraps.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.qps, self.burst = qps, burst
        self._clock, self._lock = clock, threading.Lock()
        self._tokens, self._at = float(burst), clock()

    def reserve(self, longest: float) -> float | None:
        """Take a token, and return the seconds until it is due.

        Return None and take no token if that is more than ``longest`` seconds.
        """
        with self._lock:
            now = self._clock()
            self._tokens = min(float(self.burst), self._tokens + max(0.0, now - self._at) * self.qps)
            self._at = now
            due = max(0.0, 1.0 - self._tokens) / self.qps
            if due > longest:
                return None
            self._tokens -= 1.0
            return due
