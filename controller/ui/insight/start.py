# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History and usage of an engine."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.ui.insight.device_states import DeviceStates
from ansible_collections.composable.infra.controller.ui.insight.history import History, Sources
from ansible_collections.composable.infra.controller.ui.insight.prometheus import Prometheus
from ansible_collections.composable.infra.controller.ui.insight.usage import UsageAnswers
from ansible_collections.composable.infra.plugins.module_utils.net.tls import BadAuthority
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import Rates
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.keeper import UsageKeeper
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.engine import Engine


def history_of(engine: Engine, metrics: PrometheusMetrics) -> History:
    """Return the history of an engine, which takes no sample yet. ``metrics``: those of the engine."""
    def attempts() -> tuple[int, int]:
        """Return the attaches that succeeded and that failed."""
        return (int(metrics.total("attaches_total", outcome="succeeded")),
                int(metrics.total("attaches_total", outcome="failed")))

    return History(Sources(engine.ready, DeviceStates(engine.state).read, lambda: len(engine.wait_reasons()), attempts,
                           engine.waits.known, engine.state.clock), _prometheus(engine.config))


def _prometheus(config: EngineConfig) -> Prometheus | None:
    """Return the Prometheus of the configuration, None if none is set. Raise BadConfig."""
    try:
        return Prometheus(config.prometheus_url) if config.prometheus_url else None
    except BadAuthority as error:
        raise BadConfig(f"{config.source}: prometheus_url: {error}") from None


def usage_of(config: EngineConfig, keeper: UsageKeeper) -> UsageAnswers:
    """Return the answers about the usage that a process counts."""
    return UsageAnswers(keeper.known, lambda: keeper.problem, Rates(config.usage_rates, config.usage_currency),
                        config.usage_label)
