# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History and usage of an engine."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.ui.insight.device_states import DeviceStates
from ansible_collections.composable.infra.controller.ui.insight.history import History, Sources
from ansible_collections.composable.infra.controller.ui.insight.usage import UsageAnswers
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.report import Rates
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)


def history_of(engine: ControllerManager, metrics: PrometheusMetrics) -> History:
    """Return the history of an engine, which takes no sample yet. ``metrics``: those of the engine."""
    def attempts() -> tuple[int, int]:
        """Return the attaches that succeeded and that failed."""
        return (int(metrics.total("attaches_total", outcome="succeeded")),
                int(metrics.total("attaches_total", outcome="failed")))

    return History(Sources(engine.ready, DeviceStates(engine.state).read, lambda: len(engine.wait_reasons()), attempts,
                           engine.waits.known, engine.state.clock))


def usage_of(engine: ControllerManager) -> UsageAnswers:
    """Return the answers about the usage that an engine counts."""
    config, usage = engine.config, engine.usage
    return UsageAnswers(usage.known, lambda: usage.problem, Rates(config.usage_rates, config.usage_currency),
                        config.usage_label)
