# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read machines on separate threads, so that a slow CDI Manager blocks no worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

from ...fabric.api import FabricManager, Machine
from ...fabric.errors import FabricError, Unavailable
from ...runtime.threads import Stopped, Threads
from .planner import Reading, read_machine

# Number of parallel reads of one fabric. Another fabric has its own threads.
THREADS = 8
# `PATIENCE`: seconds that a worker waits for a read, so that a fast manager needs no second turn.
# `SLOW_SECONDS`: for how long no worker waits after a wait in vain.
PATIENCE, SLOW_SECONDS = 0.1, 10.0
# Seconds after which a result is too old to request devices by it.
FRESH_SECONDS = 2.0


class MachineReader:
    """Reads each machine once at a time. Thread-safe.

    ``on_read(node)`` is called when a result arrives that no caller waited for. The next ``read``
    returns that result once.
    """

    def __init__(self, fabric: FabricManager, threads: Threads, on_read: Callable[[str], object]) -> None:
        self._fabric, self._on_read = fabric, on_read
        self._executors = threads.of_fabrics(THREADS, "read")
        self._readings: dict[str, Future[Reading]] = {}
        self._slow_until = 0.0
        self._lock = threading.Lock()

    def read(self, node: str, machine: str, fabric: int | None) -> Machine | FabricError | None:
        """Return a machine (by its UID) as it is now, or the error of the manager, or None while it
        is being read."""
        with self._lock:
            future = self._readings.get(machine)
            if future is not None and future.done() and time.monotonic() - future.result().began > FRESH_SECONDS:
                future = None
            begun = future is None
            if future is None:
                try:
                    future = self._executors.submit(fabric, read_machine, self._fabric, machine)
                    self._readings[machine] = future
                except Stopped:
                    return Unavailable("this process is stopping")
        if begun and time.monotonic() >= self._slow_until:
            self._await(future)
        with self._lock:
            if future.done():
                self._readings.pop(machine, None)
                return future.result().machine
        if begun:
            future.add_done_callback(lambda _future: self._on_read(node))
        return None

    def __len__(self) -> int:
        """Return how many machines are being read."""
        with self._lock:
            return sum(not future.done() for future in self._readings.values())

    def _await(self, future: Future[Reading]) -> None:
        try:
            future.result(PATIENCE)
        except NotYet:
            self._slow_until = time.monotonic() + SLOW_SECONDS
