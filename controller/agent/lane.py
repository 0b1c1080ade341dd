# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lane of a node, which takes all its work. If the kernel blocks the bus, another worker goes on."""

from __future__ import annotations

import enum
import logging
import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.plugins.module_utils.runtime.progress import STUCK_SECONDS
from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import WorkQueue

log = logging.getLogger("composable.infra")
OVERDUE_SECONDS = 5.0
MOST_WORKERS = 8
# Seconds until work that failed is done again, on the bus and elsewhere.
BUS_RETRY_SECONDS, RETRY_SECONDS = 5.0, 1.0


class Duty(enum.Enum):
    """Work that is not for one ComposableResource. ``DEAD`` takes dead devices off the bus."""

    DEAD = "dead devices"
    WRITE = "write"
    PLUGIN = "plugin"
    LEASE = "lease"
    TICK = "tick"

    def __str__(self) -> str:
        return self.value


# A duty, or the name of a ComposableResource for the work on its device.
Key: t.TypeAlias = str | Duty


class _Track:
    """Keys that one worker handles one after the other. The last of ``workers`` is in charge.

    ``at``: the key that it works on, and since when. ``retry``: seconds until work that failed is
    done again.
    """

    def __init__(self, name: str, retry: float) -> None:
        self.name, self.retry = name, retry
        self.queue: WorkQueue[Key] = WorkQueue()
        self.workers: list[threading.Thread] = []
        self.at: tuple[Key, float] | None = None

    def late(self, now: float, seconds: float) -> str:
        """Return the key that its worker has worked on for more than so many seconds, or empty."""
        return str(self.at[0]) if self.at and now - self.at[1] > seconds else ""


class Lane:
    """The work of a node. Thread-safe.

    Two workers never work on one key at the same time. One worker is at the keys of the bus, which
    are devices and ``Duty.DEAD``. Another is at the other duties, which never wait for the bus.
    ``clock``: returns seconds.
    """

    def __init__(self, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._node, self._clock = node, clock
        self._bus, self._others = _Track("bus", BUS_RETRY_SECONDS), _Track("agent", RETRY_SECONDS)
        self._lock = threading.Lock()

    def add(self, key: Key, seconds: float = 0.0) -> None:
        """Queue a key in this many seconds, also if a worker handles it now. An earlier appointment
        is kept.
        """
        track = self._bus if isinstance(key, str) or key is Duty.DEAD else self._others
        track.queue.add_after(key, seconds)

    def start(self, work: Callable[[str], float | None], duties: Mapping[Duty, Callable[[], float | None]]) -> None:
        """Start the workers.

        ``work(name)``, and each of the ``duties``, return in how many seconds to do that again,
        None for never.
        """
        self._work, self._duties = work, duties
        with self._lock:
            self._put_in_charge(self._bus)
            self._put_in_charge(self._others)

    def relieve(self) -> bool:
        """Start another worker if that of the bus has been at one key for more than
        OVERDUE_SECONDS.

        Return whether a worker was started. The late worker ends after its key.
        """
        with self._lock:
            late = self._bus.late(self._clock(), OVERDUE_SECONDS)
            if not late or sum(worker.is_alive() for worker in self._bus.workers) >= MOST_WORKERS:
                return False
            self._put_in_charge(self._bus)
        log.warning("the bus of node %s does not answer. The agent works on other devices meanwhile", self._node)
        return True

    def stuck(self) -> str:
        """Return why the duties beside the bus are stuck, in a sentence. Empty while they go on.

        Work on the bus has deadlines of its own.
        """
        with self._lock:
            if any(not worker.is_alive() for worker in self._others.workers):
                return "no worker is left"
        late = self._others.late(self._clock(), STUCK_SECONDS)
        return late and f"the worker has worked on one key for {STUCK_SECONDS:g} s: {late}"

    def stop(self, patience: float = 5.0) -> None:
        """Take no more keys.

        Wait at most ``patience`` seconds for the workers of the bus that are at a key, and as long
        for the other.
        """
        tracks = (self._bus, self._others)
        for track in tracks:
            track.queue.close()
        with self._lock:
            workers = [list(track.workers) for track in tracks]
        for each in workers:
            deadline = time.monotonic() + patience
            for worker in each:
                worker.join(max(0.0, deadline - time.monotonic()))

    def _put_in_charge(self, track: _Track) -> None:
        worker = threading.Thread(target=self._serve, args=(track,), name=f"{track.name}-{self._node}", daemon=True)
        track.workers, track.at = [*filter(threading.Thread.is_alive, track.workers), worker], None
        worker.start()

    def _serve(self, track: _Track) -> None:
        while (key := track.queue.get()) is not None:
            track.at = (key, self._clock())
            try:
                again = self._duties[key]() if isinstance(key, Duty) else self._work(key)
            except Exception:
                log.exception("the work on %s failed on node %s. The agent tries again in %g s", key, self._node,
                              track.retry)
                again = track.retry
            if again is not None:
                track.queue.add_after(key, again)
            track.queue.done(key)
            with self._lock:
                if track.workers[-1] is not threading.current_thread():
                    return
                track.at = None
