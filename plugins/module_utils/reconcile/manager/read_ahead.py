# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read at intervals what plans of gated pods need, so that a new leader's first plan is fast, even
with thousands of nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...runtime.garbage import spare_collections
from ..gating.controller import GatingController
from ..runtime.event_reporter import EventReporter

# Seconds between two rounds, and how long one read may take at once.
ROUND_SECONDS, SLICE_SECONDS = 30.0, 0.05
# Seconds until it checks again whether every list was read.
READY_SECONDS = 1.0


class ReadAhead:
    """Reads in rounds once ``ready`` returns True, until ``stopping`` is set. Changes nothing."""

    def __init__(self, gating: GatingController, reporter: EventReporter, stopping: threading.Event,
                 ready: Callable[[], bool]) -> None:
        self._gating, self._reporter = gating, reporter
        self._stopping, self._ready = stopping, ready

    def run(self) -> None:
        """Read in rounds. After the first round, exempt its objects from garbage collection.

        Otherwise a collection could scan them during a plan.
        """
        spared = False
        while not self._stopping.wait(READY_SECONDS):
            if not self._ready():
                continue
            try:
                self._round()
                if not spared:
                    spare_collections()
                    spared = True
                self._reporter.once("read-ahead", "")
            except Exception as error:  # a plan would report the same error
                self._reporter.once("read-ahead", f"{type(error).__name__}: {error}")
            self._stopping.wait(ROUND_SECONDS)

    def _round(self) -> None:
        """Read for at most half of the time, in short slices, so that watches, workers and Leases
        go on."""
        began = time.monotonic()
        for _step in self._gating.read_ahead():
            worked = time.monotonic() - began
            if worked >= SLICE_SECONDS:
                if self._stopping.wait(worked):
                    return
                began = time.monotonic()
