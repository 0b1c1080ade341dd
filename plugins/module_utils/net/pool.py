# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep connections between requests, as a TLS handshake costs the CPU of ten requests."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .http1 import HttpConnection

# Servers close idle connections, the API server after 90 s, most others after 60 s. A change that
# is sent into a closing connection is uncertain. A closed connection is noticed before its use.
LONGEST_IDLE = 50.0


class ConnectionPool:
    """Keeps up to ``size`` idle connections and opens more on demand. Thread-safe."""

    def __init__(
        self,
        dial: Callable[[float], HttpConnection],
        size: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dial, self._size, self._clock = dial, size, clock
        self._lock = threading.Lock()
        self._idle: deque[tuple[HttpConnection, float]] = deque()
        self._closed = False

    def take(self, timeout: float) -> HttpConnection:
        """Return the last used connection that still works, or a new one. Raise NoResponse."""
        while kept := self._pop():
            connection, since = kept[0]
            if self._clock() - since < LONGEST_IDLE and connection.quiet():
                return connection
            connection.close()
        return self._dial(timeout)

    def give_back(self, connection: HttpConnection) -> None:
        """Keep the connection if it can be used again, or else close it."""
        now = self._clock()
        unwanted = [connection]
        with self._lock:
            if connection.reusable and not self._closed and len(self._idle) < self._size:
                self._idle.append((unwanted.pop(), now))
            while self._idle and now - self._idle[0][1] >= LONGEST_IDLE:
                unwanted.append(self._idle.popleft()[0])
        for old in unwanted:
            old.close()

    def close(self) -> None:
        """Close idle connections. Connections in use are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for connection, _unused in idle:
            connection.close()

    def _pop(self) -> list[tuple[HttpConnection, float]]:
        with self._lock:
            return [self._idle.pop()] if self._idle else []
