# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker of a node's bus. If the kernel blocks it for too long, another worker takes over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import WorkQueue

log = logging.getLogger("composable.infra")
OVERDUE_SECONDS = 5.0
MOST_WORKERS = 8
RETRY_SECONDS = 5.0


class BusLane:
    """Work on names of ComposableResources, one after the other. Thread-safe.

    Two workers never work on one name at the same time. ``work(name)`` returns when to work on the
    name again, in seconds since the epoch, None for never.
    """

    def __init__(self, name: str, work: Callable[[str], float | None],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._name, self._work, self._clock = name, work, clock
        self._turns: dict[int, float] = {}
        self._relieved: set[int] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._count = 0

    def start(self) -> None:
        """Start a worker."""
        with self._lock:
            self._count += 1
            thread = threading.Thread(target=self._run, args=(self._count,), name=f"bus-{self._name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def relieve(self) -> bool:
        """Start another worker if a worker has been at one device for more than OVERDUE_SECONDS.

        Return whether a worker was started. The late worker ends after its device.
        """
        with self._lock:
            stuck = [w for w, since in self._turns.items() if self._clock() - since > OVERDUE_SECONDS]
            fresh = set(stuck) - self._relieved
            if not fresh or len(self._turns) >= MOST_WORKERS:
                return False
            self._relieved |= fresh
        self.start()
        return True

    def stop(self, patience: float = 5.0) -> None:
        """Take no more names.

        Wait at most ``patience`` seconds in all for workers that are at a device.
        """
        self.queue.close()
        deadline = time.monotonic() + patience
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, worker: int) -> None:
        while (name := self.queue.get()) is not None:
            with self._lock:
                self._turns[worker] = self._clock()
            try:
                again = self._work(name)
            except Exception:
                log.exception("the work on %s failed. The agent tries again in %g s", name, RETRY_SECONDS)
                again = time.time() + RETRY_SECONDS
            if again is not None:
                self.queue.add_at(name, again)
            self.queue.done(name)
            with self._lock:
                del self._turns[worker]
                if worker in self._relieved:
                    self._relieved.discard(worker)
                    return
