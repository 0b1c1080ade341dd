# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run an engine: watch, queue, reconcile, stop.

A module runs it until nothing is left to do, the controller for ever. Check mode only takes its
plan.
"""

from __future__ import annotations

import contextlib

from ...fabric.errors import FabricError
from ...kube.errors import ApiError
from ...planning.node.evaluate import OPERATOR, SCALER
from ..keys import GatesKey, NodeRecordsKey
from .engine import Engine
from .read_ahead import ReadAhead
from .workers import RETRY_SECONDS

# Seconds between two plans of gated pods when nothing happens.
PASS_SECONDS = 5.0
# Number of open connections to the API server, and seconds between uses that keep them open.
CONNECTIONS, WARM_SECONDS = 8, 15.0


class ControllerManager(Engine):
    """An engine to start, let run and stop. ``watch`` begins to read, ``work`` to act."""

    def gates_problem(self) -> str:
        """Return why new pods must not be gated now, or an empty string.

        If the last plan of gated pods is old, queue a new one.
        """
        if self.state.snapshot is None:
            said = self.state.fabric_problem
            return "no poll of the CDI Manager has succeeded yet" + (f": {said}" if said else "")
        if self.gating.passes.age() > PASS_SECONDS:
            self.queue.add(GatesKey())
        return self.gating.passes.problem()

    def watch(self) -> None:
        """Begin to watch the cluster and to poll the CDI Manager. Change nothing."""
        self.watches.start()
        if self.looks:
            self.threads.start(self.inventory_polls.run, "look")

    def read_ahead(self) -> None:
        """Begin to read at intervals what plans of gated pods need. Change nothing."""
        if self.gates:
            ahead = ReadAhead(self.gating, self.reporter, self.stopping, self.ready)
            self.threads.start(ahead.run, "read-ahead")

    def work(self) -> None:
        """Begin to act on everything that is known, after reading again what an earlier leader wrote,
        because a watch may be behind.

        Call this only when ``ready``. With half the data, a claim could fail because its node is
        unknown.
        """
        self.dispatch.begin()
        self.threads.start(self._begin, "begin")

    def _begin(self) -> None:
        self.state.rival.began()
        while not self.stopping.is_set():
            try:
                if self.roles & {SCALER, OPERATOR}:
                    self.writer.read_journal()
                if OPERATOR in self.roles:
                    self.writer.resources.read_taints()
                self.provisioning.restore()
                break
            except ApiError as error:
                self.reporter.once("journal", str(error))
                self.stopping.wait(RETRY_SECONDS)
        for number in range(self.config.workers):
            self.threads.start(self.workers.run, f"worker-{number}")
        self.threads.start(self._keep_warm, "warm")

    def quiesce(self) -> None:
        """Start no new work. Watches go on."""
        self.stopping.set()
        self.queue.close()
        self.operations.stop()

    def await_replies(self, seconds: float) -> None:
        """Start no new work, and wait up to ``seconds`` for the CDI Manager to answer requests in
        flight.

        Then write all records. The successor may be another program that knows only the records.
        """
        self.quiesce()
        late = self.operations.await_replies(seconds)
        for key in self.queue.gathering():
            if isinstance(key, NodeRecordsKey):
                with contextlib.suppress(ApiError, FabricError):
                    self.nodes.write_records(key)
        if late:
            self.reporter.once("replies", f"the CDI Manager has not answered within {seconds:g} s about "
                               f"{', '.join(late)}. The next controller of this collection finds the devices by their "
                               "records. CoHDI's operator would request others")

    def flush(self) -> None:
        """Send the Events so far. None is sent after leadership is given up."""
        if self.recorder:
            self.recorder.flush()

    def stop(self, patience: float = 5.0) -> None:
        """End watches and threads, and wait up to ``patience`` seconds for each.

        The next engine adopts attaches that the CDI Manager is still working on.
        """
        self.quiesce()
        self.inventory_polls.soon.set()
        self.watches.stop()
        self.threads.stop(patience)
        if self.recorder:
            self.recorder.close()

    def stuck(self) -> str:
        """Return in a sentence why no more work will be done, or an empty string while workers work
        or wait."""
        return "" if self.stopping.is_set() else self.workers.progress.stuck()

    def _keep_warm(self) -> None:
        """Keep connections open for a burst. To open one costs as much as ten requests."""
        while not self.stopping.wait(WARM_SECONDS):
            with contextlib.suppress(ApiError):
                self.client.warm(CONNECTIONS)
