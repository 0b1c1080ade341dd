# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a node agent, by prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ansible_collections.composable.infra.controller.build import BuildInfo
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PHASES,
    REASONS,
    STEPS_DOWN,
    STEPS_OF_MEMORY,
    STEPS_UP,
    Evidence,
    Step,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import PREFIX

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
# Xids about the device rather than a program (NVIDIA's table). All others are counted together.
XIDS = (31, 43, 45, 48, 61, 62, 63, 64, 69, 74, 79, 92, 94, 95, 119, 120, 154)
OTHER = "other"


class AgentMetrics:
    """The metrics of one agent, in a registry of its own.

    Every series exists from the beginning, at zero.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(BuildInfo())
        self.steps = Histogram(f"{PREFIX}agent_step_duration_seconds", "Seconds from the previous step on the "
                               "node, or from the request, to this step.", ["step"], buckets=BUCKETS,
                               registry=registry)
        self.problems = Counter(f"{PREFIX}agent_problems_total", "Problems on the node, by reason.", ["reason"],
                                registry=registry)
        self._troubles = Counter(f"{PREFIX}agent_troubles_total", f"Deprecated. Use {PREFIX}agent_problems_total. "
                                 "Problems on the node, by reason.", ["reason"], registry=registry)
        self.restarts = Counter(f"{PREFIX}agent_plugin_restarts_total", "Pods of a vendor's DRA plugin that the agent "
                                "restarted.", registry=registry)
        self.xids = Counter(f"{PREFIX}agent_xids_total", "Xids in the node's kernel log since the agent started.",
                            ["xid"], registry=registry)
        steps = dict.fromkeys((*STEPS_UP, *STEPS_DOWN, *STEPS_OF_MEMORY))
        for labels, metric in ((steps, self.steps), (REASONS, self.problems), (REASONS, self._troubles)):
            for value in labels:
                metric.labels(value)
        for xid in (*map(str, XIDS), OTHER):
            self.xids.labels(xid)

    def ask(self, devices: Callable[[], Mapping[str, int]], hung: Callable[[], int]) -> None:
        """Register gauges that are read at each scrape.

        ``devices``: returns the number of devices by phase. ``hung``: returns the number of
        removals that hang.
        """
        gauge = Gauge(f"{PREFIX}agent_devices", "Devices of the fabric on this node, by phase.",
                      ["phase"], registry=self.registry)

        def count_of(phase: str) -> Callable[[], float]:
            return lambda: devices().get(phase, 0)

        for phase in PHASES:
            gauge.labels(phase).set_function(count_of(phase))
        Gauge(f"{PREFIX}agent_hung_removals", "Removals of devices that the kernel has not finished.",
              registry=self.registry).set_function(hung)

    def evidence(self, before: Evidence | None, now: Evidence, asked: float) -> None:
        """Count new steps and problems.

        ``asked``: when the first step was requested, in seconds since the epoch.
        """
        for step, began, ended in new_steps(before, now, asked):
            self.steps.labels(step).observe(max(0.0, ended - began))
        if now.trouble and now.trouble != (before.trouble if before else None):
            self.problems.labels(now.trouble.reason).inc()
            self._troubles.labels(now.trouble.reason).inc()

    def xid(self, number: int) -> None:
        """Count an Xid."""
        self.xids.labels(str(number) if number in XIDS else OTHER).inc()

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


def new_steps(before: Evidence | None, now: Evidence, asked: float) -> Iterator[tuple[str, float, float]]:
    """Yield (step, start, end) of each new step, in seconds since the epoch.

    A step starts at the end of the step before it. The first step starts at ``asked``, when it was
    requested.
    """
    known = before.steps if before else ()
    previous = max(asked, parse_time(known[-1].at) if known else 0.0)
    for step in now.steps[_common(known, now.steps):]:
        at = parse_time(step.at)
        yield step.step, previous, at
        previous = at


def _common(one: tuple[Step, ...], other: tuple[Step, ...]) -> int:
    """Return how many steps both begin with."""
    return next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                min(len(one), len(other)))
