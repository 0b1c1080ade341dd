# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how long claims have devices, beside an engine. A process that stands by counts, too."""

from __future__ import annotations

import time
from functools import partial

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.planning.node.evaluate import SCALER
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.keeper import UsageKeeper
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.ledger import Ledger
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.moments import Moments
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.engine import Engine

# Seconds between two readings of changed claims and devices, and between two writes of the sums.
READ_SECONDS, KEEP_SECONDS = 1.0, 60.0


class Accounting:
    """The accounting of an engine, which from now on notes claims and devices as it sees them."""

    def __init__(self, engine: Engine) -> None:
        self._engine, clock = engine, engine.client.server_time
        moments = Moments(engine.config.usage_label, clock)
        ledger = Ledger(engine.state, moments, clock)
        self.keeper = UsageKeeper(engine.writer.client, engine.config.lease_namespace, ledger, moments,
                                  partial(engine.watches.version, CLAIMS), partial(engine.reporter.once, "usage"),
                                  enabled=SCALER in engine.roles, clock=clock)
        engine.writer.resources.uses = self.keeper
        engine.dispatch.listeners.append(moments.object_changed)

    def start(self) -> None:
        """Begin to count. The leader stores the sums."""
        self._engine.threads.start(self._run, "usage")

    def _run(self) -> None:
        engine, begun, kept = self._engine, False, 0.0
        while not engine.stopping.wait(READ_SECONDS):
            if not engine.watches.synced():
                continue
            try:
                (self.keeper.update if begun else self.keeper.begin)()
                begun, now = True, time.monotonic()
                if now >= kept + KEEP_SECONDS and engine.fence.required and engine.fence.open:
                    kept = now
                    self.keeper.keep()
                engine.reporter.once("accounting", "")
            except Exception as error:  # the controllers serve claims all the same
                engine.reporter.once("accounting", f"{type(error).__name__}: {error}")

    def end(self) -> None:
        """Store the sums if this process still leads."""
        if self._engine.fence.required and self._engine.fence.open:
            self.keeper.keep()
