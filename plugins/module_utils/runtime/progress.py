# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the workers make progress. If all are stuck, the process does no more work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# No call of a worker may take this long. Attaches and detaches have their own threads.
STUCK_SECONDS = 300.0


class Progress:
    """Key of each worker and its start time. ``clock`` returns seconds. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._begun: dict[int, tuple[str, float] | None] = {}
        self._ended = 0

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Register the calling thread as a worker until the end of the block."""
        me = threading.get_ident()
        with self._lock:
            self._begun[me] = None
        try:
            yield
        finally:
            with self._lock:
                del self._begun[me]
                self._ended += 1

    @contextmanager
    def at(self, key: object) -> Iterator[None]:
        """Record that the calling worker handles a key until the end of the block."""
        me = threading.get_ident()
        with self._lock:
            self._begun[me] = (str(key), self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._begun[me] = None

    def stuck(self) -> str:
        """Return in a sentence why no more work will be done, or an empty string.

        It is empty while a worker is idle or makes progress, and before the first worker has
        started.
        """
        with self._lock:
            begun, ended = list(self._begun.values()), self._ended
        if not begun:
            return "no worker is left" if ended else ""
        since = [each for each in begun if each is not None]
        if len(since) < len(begun) or self._clock() - max(when for _key, when in since) < STUCK_SECONDS:
            return ""
        keys = ", ".join(sorted({key for key, _when in since}))
        return f"all {len(begun)} workers have worked on one key for {STUCK_SECONDS:g} s: {keys}"
