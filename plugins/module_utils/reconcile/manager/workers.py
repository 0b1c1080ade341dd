# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take keys from the queue and have their controllers reconcile them."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Sequence

from ...fabric.errors import FabricError
from ...kube.errors import ApiError
from ...runtime.progress import Progress
from ...runtime.threads import Stopped
from ...runtime.work_queue import WorkQueue
from ..controller import Controller
from ..keys import Key, Result
from ..runtime.event_reporter import EventReporter
from ..runtime.metrics import Metrics

SLOW_SECONDS = 1.0
# Seconds until a failed key is retried: after an error of the API server or the CDI Manager, and
# after any other error.
RETRY_SECONDS, RETRY_UNEXPECTED_SECONDS = 1.0, 5.0


class Workers:
    """The worker loop of an engine.

    ``clock`` returns seconds since the epoch. ``may_write`` returns whether this process may change
    anything now. A process that has lost its Lease may not, and ends within seconds.
    """

    def __init__(self, queue: WorkQueue[Key], controllers: Sequence[Controller], reporter: EventReporter,
                 metrics: Metrics, clock: Callable[[], float], may_write: Callable[[], bool]) -> None:
        self._queue, self._reporter, self._metrics, self._clock = queue, reporter, metrics, clock
        self._may_write = may_write
        self.reconcilers: dict[type, Callable[[t.Any], Result]] = {
            kind: reconcile for each in controllers for kind, reconcile in each.reconcilers.items()}
        self.progress = Progress()

    def run(self) -> None:
        """Handle one key at a time until the queue is closed."""
        with self.progress.worker():
            while (key := self._queue.get()) is not None:
                try:
                    with self.progress.at(key):
                        self.reconcile(key)
                finally:
                    self._queue.done(key)

    def reconcile(self, key: Key) -> None:
        """Work on a key and schedule its next turn. Never raise.

        A bad key harms no other key. Its problem is reported once, and the key is tried again
        later. While this process may not write, each try fails, and no problem is reported.
        """
        began = time.monotonic()
        try:
            result = self.reconcilers[type(key)](key)
            self._reporter.once(str(key), "")
        except Stopped:  # the engine is stopping, and the next engine does this work
            return
        except (ApiError, FabricError) as error:
            if self._may_write():
                self._reporter.once(str(key), str(error))
            result = Result(self._clock() + RETRY_SECONDS)
        except Exception as error:
            self._reporter.once(str(key), f"{type(error).__name__}: {error}")
            result = Result(self._clock() + RETRY_UNEXPECTED_SECONDS)
        if result.requeue_at is not None:
            self._queue.add_at(key, result.requeue_at)
        seconds = time.monotonic() - began
        self._metrics.observe("reconcile_duration_seconds", seconds, controller=key.controller)
        if seconds > SLOW_SECONDS:
            self._reporter.note("SlowReconcile", str(key), f"took {seconds:.2f} s", "Warning")
