# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A work queue of keys. Only one worker handles a key at a time, and many events for a key become
one turn.

Background keys are not urgent. They gather changes for a moment and are handled one at a time. They
wait while other keys are ready, but never for more than eight of them.
"""

from __future__ import annotations

import heapq
import threading
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Hashable

BACKGROUND_TURN = 8
# Seconds that a key waits for more echoes of this process's own writes, or for changes that decide
# nothing.
ECHO_SECONDS = 0.2
# Replaced appointments are dropped when there are this many, and more than two for each valid one.
MOST_REPLACED = 64
# A background key that is due within this many seconds gathers changes. A later one has an
# appointment.
SOON = 2.0

K = t.TypeVar("K", bound=Hashable)


def _wall() -> float:
    return time.time()


class WorkQueue(t.Generic[K]):
    """Coalescing queue with delayed keys. Thread-safe.

    ``gather_seconds(key)`` returns how long a background key gathers changes, or None for an urgent
    key. ``waited(key, seconds)`` is called with the time from when a key was ready, or requested
    again, until a worker took it. ``clock`` is the clock of ``add_at``, in seconds since the epoch.
    """

    def __init__(self, gather_seconds: Callable[[K], float | None] = lambda key: None,
                 waited: Callable[[K, float], None] = lambda key, seconds: None,
                 clock: Callable[[], float] = _wall) -> None:
        self._gather_seconds, self._waited, self._clock = gather_seconds, waited, clock
        self._priority: OrderedDict[K, float] = OrderedDict()
        self._background: OrderedDict[K, float] = OrderedDict()
        self._turn = 0
        self._working: set[K] = set()
        self._background_at_work = 0
        # One waiting worker wakes up for the next appointment, not all of them.
        self._timekeeper: object | None = None
        self._again: dict[K, float] = {}
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._echoes: dict[K, float] = {}
        self._changed = threading.Condition()
        self._count = 0
        self._closed = False

    def add(self, key: K) -> None:
        """Queue a key. If a worker handles it now, queue it once more."""
        with self._changed:
            if key in self._working:
                self._again.setdefault(key, time.monotonic())
            else:
                self._make_ready(key, time.monotonic())

    def add_change(self, key: K) -> None:
        """Queue a key after a change. A background key gathers changes first."""
        seconds = self._gather_seconds(key)
        if seconds:
            self.add_after(key, seconds)
        else:
            self.add(key)

    def add_echo(self, key: K) -> None:
        """Queue a key in a moment after the echo of this process's own write or a change that
        decides nothing.

        All that come until then cause one turn. A turn that begins before already knows the write.
        """
        with self._changed:
            if key in self._priority or key in self._background or key in self._again:
                return
            when = time.monotonic() + max(self._gather_seconds(key) or 0.0, ECHO_SECONDS)
            if self._due.get(key, float("inf")) > when:
                self._echoes[key] = when
                self._appoint(key, when)

    def add_at(self, key: K, when: float) -> None:
        """Queue a key at a time of ``clock``, converted to a delay at this moment.

        An earlier appointment is kept. The appointment does not move if the clock is set later,
        because a process must not be silent for as long as a clock was wrong.
        """
        self.add_after(key, when - self._clock())

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key in this many seconds. An earlier appointment is kept."""
        with self._changed:
            self._appoint(key, time.monotonic() + seconds)

    def _appoint(self, key: K, when: float) -> None:
        """Make an appointment. ``when`` is a time of ``time.monotonic()``, like all stored
        times."""
        with self._changed:
            if self._due.get(key, float("inf")) <= when:
                return
            self._due[key] = when
            self._count += 1
            heapq.heappush(self._later, (when, self._count, key))
            if self._later[0][1] == self._count:
                self._timekeeper = None  # that worker waits for a later appointment
                self._changed.notify()
            if len(self._later) > MOST_REPLACED + 2 * len(self._due):
                self._drop_replaced()

    def _drop_replaced(self) -> None:
        """Drop replaced appointments, which would otherwise stay until their time, maybe for
        minutes."""
        self._later = [each for each in self._later if self._due.get(each[2]) == each[0]]
        heapq.heapify(self._later)

    def get(self) -> K | None:
        """Wait for a key, or return None after the queue is closed. Call ``done`` when the work has
        ended."""
        with self._changed:
            while not self._closed:
                wait = self._promote()
                if found := self._next():
                    key, since = found
                    self._waited(key, time.monotonic() - since)
                    self._begin(key)
                    return key
                self._await_change(wait)
            return None

    def _begin(self, key: K) -> None:
        self._working.add(key)
        self._background_at_work += self._is_background(key)
        self._drop_echo(key)
        if self._later and self._timekeeper is None:
            self._changed.notify()  # a worker that still waits keeps the time from now on

    def _await_change(self, wait: float | None) -> None:
        """Wait until a key is ready, or until an appointment that no other worker wakes up for.

        Source: Java's DelayQueue.
        """
        if wait is None or self._timekeeper is not None:
            self._changed.wait()
            return
        me = self._timekeeper = object()
        self._changed.wait(wait)
        if self._timekeeper is me:
            self._timekeeper = None

    def _drop_echo(self, key: K) -> None:
        """Drop the echo of a key, because the work that begins now knows the write."""
        when = self._echoes.pop(key, None)
        if when is not None and self._due.get(key) == when:
            del self._due[key]

    def done(self, key: K) -> None:
        """End the work on a key. It becomes ready again if it was added meanwhile."""
        with self._changed:
            if key in self._working:
                self._working.discard(key)
                self._background_at_work -= self._is_background(key)
            if key in self._again:
                self._make_ready(key, self._again.pop(key))
            elif self._background:
                self._changed.notify()

    def close(self) -> None:
        """Wake all waiting workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def ready(self) -> list[K]:
        """Return the keys that wait for a worker."""
        with self._changed:
            self._promote()
            return [*self._priority, *self._background]

    def idle(self) -> bool:
        """Return whether no key is ready or worked on, no background key gathers changes, and no
        echo is due.

        Other appointments do not count, such as a later turn that a background key requested for
        itself.
        """
        with self._changed:
            self._promote()
            now = time.monotonic()
            gathers = any(key in self._echoes or (self._is_background(key) and when - now <= SOON)
                          for key, when in self._due.items())
            return not (self._priority or self._background or self._working or gathers)

    def gathering(self) -> list[K]:
        """Return the background keys that are ready or gather changes."""
        with self._changed:
            soon = time.monotonic() + SOON
            due = [key for key, when in self._due.items() if self._is_background(key) and when <= soon]
            return list(dict.fromkeys([*self._background, *filter(self._is_background, self._again), *due]))

    def _is_background(self, key: K) -> bool:
        return self._gather_seconds(key) is not None

    def _make_ready(self, key: K, since: float) -> None:
        lane = self._background if self._is_background(key) else self._priority
        if key not in lane:
            lane[key] = since
            self._changed.notify()

    def _next(self) -> tuple[K, float] | None:
        background = bool(self._background) and not self._background_at_work
        if not background and not self._priority:
            return None
        self._turn += 1
        if background and (not self._priority or self._turn % BACKGROUND_TURN == 0):
            return self._background.popitem(last=False)
        return self._priority.popitem(last=False)

    def _promote(self) -> float | None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            when, _unused, key = heapq.heappop(self._later)
            if self._due.get(key) != when:
                continue
            del self._due[key]
            self._echoes.pop(key, None)
            if key in self._working:
                self._again.setdefault(key, time.monotonic())
            else:
                self._make_ready(key, time.monotonic())
        return self._later[0][0] - now if self._later else None
