# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A work queue of keys: one key is worked on by one worker at a time, and many events become one pass.

Keys of tidying (``cold``) are worked on one at a time, and wait until nothing urgent is ready, but never longer than
eight urgent keys.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

COLD_TURN = 8


class KeyQueue:
    """Coalescing queue with delayed keys. All methods are thread-safe; times are seconds."""

    def __init__(self, cold: Callable[[Hashable], bool] = lambda key: False) -> None:
        self._is_cold = cold
        self._hot: OrderedDict[Hashable, None] = OrderedDict()
        self._cold: OrderedDict[Hashable, None] = OrderedDict()
        self._turn = 0
        self._working: set[Hashable] = set()
        self._again: set[Hashable] = set()
        self._later: list[tuple[float, int, Hashable]] = []
        self._due: dict[Hashable, float] = {}
        self._changed = threading.Condition()
        self._count = 0
        self._closed = False

    def add(self, key: Hashable) -> None:
        """Have a key worked on soon; once more if it is being worked on right now."""
        with self._changed:
            if key in self._working:
                self._again.add(key)
            else:
                self._make_ready(key)

    def add_at(self, key: Hashable, when: float) -> None:
        """Have a key worked on at a time of ``time.time()``; an earlier appointment is kept."""
        with self._changed:
            if self._due.get(key, float("inf")) <= when:
                return
            self._due[key] = when
            self._count += 1
            heapq.heappush(self._later, (when, self._count, key))
            if self._later[0][1] == self._count:
                self._changed.notify()

    def get(self) -> Hashable | None:
        """Wait for a key; None once the queue is closed. Call ``done`` when its work has ended."""
        with self._changed:
            while not self._closed:
                wait = self._promote()
                key = self._next()
                if key is not None:
                    self._working.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def done(self, key: Hashable) -> None:
        """The work on a key has ended; it becomes ready again when it was added meanwhile."""
        with self._changed:
            self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._make_ready(key)
            elif self._cold:
                self._changed.notify()

    def close(self) -> None:
        """Let every waiting worker go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def idle(self) -> bool:
        """True when nothing is ready or being worked on and no tidying is due; other appointments do not count."""
        with self._changed:
            self._promote()
            tidying = any(self._is_cold(key) for key in self._due)
            return not (self._hot or self._cold or self._working or tidying)

    def _make_ready(self, key: Hashable) -> None:
        lane = self._cold if self._is_cold(key) else self._hot
        if key not in lane:
            lane[key] = None
            self._changed.notify()

    def _next(self) -> Hashable | None:
        cold = bool(self._cold) and not any(self._is_cold(key) for key in self._working)
        if not cold and not self._hot:
            return None
        self._turn += 1
        if cold and (not self._hot or self._turn % COLD_TURN == 0):
            return self._cold.popitem(last=False)[0]
        return self._hot.popitem(last=False)[0]

    def _promote(self) -> float | None:
        now = time.time()
        while self._later and self._later[0][0] <= now:
            when, _unused, key = heapq.heappop(self._later)
            if self._due.get(key) != when:
                continue
            del self._due[key]
            if key in self._working:
                self._again.add(key)
            else:
                self._make_ready(key)
        return self._later[0][0] - now if self._later else None
