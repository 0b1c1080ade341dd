# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent measures, as Prometheus reads it."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.agent.metrics import AgentMetrics
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    BOUND,
    NOT_ON_BUS,
    ON_BUS,
    PREPARING,
    READY,
    REASONS,
    TOUCHED,
    Evidence,
)

EVIDENCE = Evidence(PREPARING, "dev-1").with_step(ON_BUS, 1002.0)


def value(metrics: AgentMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"composable_agent_{name}", labels)


def test_a_step_takes_as_long_as_since_the_one_before_it() -> None:
    metrics = AgentMetrics()
    metrics.evidence(None, EVIDENCE, 1000.0)
    metrics.evidence(EVIDENCE, EVIDENCE.with_step(BOUND, 1002.5).with_step(TOUCHED, 1005.5), 1000.0)
    sums = [value(metrics, "step_duration_seconds_sum", step=step) for step in (ON_BUS, BOUND, TOUCHED)]
    assert sums == [2.0, 0.5, 3.0]


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    metrics = AgentMetrics()
    metrics.evidence(None, EVIDENCE, 2000.0)
    assert value(metrics, "step_duration_seconds_sum", step=ON_BUS) == 0.0


def test_a_trouble_is_counted_once() -> None:
    metrics, trouble = AgentMetrics(), EVIDENCE.with_trouble(NOT_ON_BUS, "it is not there", 1000.0)
    metrics.evidence(EVIDENCE, trouble, 0.0)
    metrics.evidence(trouble, trouble.with_step(BOUND, 1001.0), 0.0)
    assert value(metrics, "problems_total", reason=NOT_ON_BUS) == 1
    assert value(metrics, "troubles_total", reason=NOT_ON_BUS) == 1, "the former name"
    assert sum(value(metrics, "problems_total", reason=reason) or 0 for reason in REASONS) == 1


def test_xids_that_are_not_known_are_counted_together() -> None:
    metrics = AgentMetrics()
    for number in (79, 12345, 54321):
        metrics.xid(number)
    assert (value(metrics, "xids_total", xid="79"), value(metrics, "xids_total", xid="other")) == (1, 2)


def test_gauges_are_asked_at_each_scrape() -> None:
    metrics, devices = AgentMetrics(), {READY: 2}
    metrics.ask(lambda: devices, lambda: 1)
    assert value(metrics, "devices", phase=READY) == 2
    devices[READY] = 3
    assert value(metrics, "devices", phase=READY) == 3
    assert value(metrics, "devices", phase=PREPARING) == 0
    assert 'composable_agent_hung_removals 1.0' in metrics.text().decode().splitlines()
