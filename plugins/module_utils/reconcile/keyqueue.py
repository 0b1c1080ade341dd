# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A work queue of keys: one key is worked on by one worker at a time, and many events become one pass."""

from __future__ import annotations

import heapq
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable


class KeyQueue:
    """Coalescing queue with delayed keys. All methods are thread-safe; times are seconds."""

    def __init__(self) -> None:
        self._ready: OrderedDict[Hashable, None] = OrderedDict()
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
            elif key not in self._ready:
                self._ready[key] = None
                self._changed.notify()

    def add_at(self, key: Hashable, when: float) -> None:
        """Have a key worked on at a time of ``time.time()``; an earlier appointment is kept."""
        with self._changed:
            if self._due.get(key, float("inf")) <= when:
                return
            self._due[key] = when
            self._count += 1
            heapq.heappush(self._later, (when, self._count, key))
            self._changed.notify()

    def get(self) -> Hashable | None:
        """Wait for a key; None once the queue is closed. Call ``done`` when its work has ended."""
        with self._changed:
            while not self._closed:
                wait = self._promote()
                if self._ready:
                    key, _ = self._ready.popitem(last=False)
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
                self._ready[key] = None
            self._changed.notify_all()

    def close(self) -> None:
        """Let every waiting worker go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def idle(self) -> bool:
        """True when nothing is ready or being worked on; delayed keys do not count."""
        with self._changed:
            self._promote()
            return not self._ready and not self._working

    def _promote(self) -> float | None:
        now = time.time()
        while self._later and self._later[0][0] <= now:
            when, _, key = heapq.heappop(self._later)
            if self._due.get(key) != when:
                continue
            del self._due[key]
            if key in self._working:
                self._again.add(key)
            else:
                self._ready.setdefault(key)
        return self._later[0][0] - now if self._later else None
