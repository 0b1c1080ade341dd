# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle nodes now or at a later time, several at once, each by one worker."""

from __future__ import annotations

import heapq
import queue
import threading
import time
import zlib
from collections.abc import Callable


class Appointments:
    """Calls `look` with a node when it is due. Calls for the same node never overlap.

    A few threads serve any number of nodes.
    """

    def __init__(self, look: Callable[[str], None], workers: int) -> None:
        self._look = look
        self._due: list[tuple[float, str]] = []
        self._changed = threading.Condition()
        self._queues: list[queue.SimpleQueue[str]] = [queue.SimpleQueue() for _worker in range(workers)]

    def start(self) -> None:
        """Start the threads."""
        threading.Thread(target=self._keep_time, name="appointments", daemon=True).start()
        for number, mine in enumerate(self._queues):
            threading.Thread(target=self._work, args=(mine,), name=f"plugins-{number}", daemon=True).start()

    def make(self, node: str, seconds: float = 0.0) -> None:
        """Handle the node after `seconds`."""
        if seconds <= 0:
            self._hand_over(node)
            return
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, node))
            self._changed.notify()

    def _hand_over(self, node: str) -> None:
        self._queues[zlib.crc32(node.encode()) % len(self._queues)].put(node)

    def _keep_time(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                _when, node = heapq.heappop(self._due)
            self._hand_over(node)

    def _work(self, mine: queue.SimpleQueue[str]) -> None:
        while True:
            self._look(mine.get())
