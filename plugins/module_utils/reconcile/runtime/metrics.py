# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine measures, and to whom it says so.

A stock execution environment has no metrics library. So the engine knows only names and this interface; the controller
brings the implementation, and a module measures nothing.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX: t.Final = "composable_"
# Upper bounds in seconds: what a CDI Manager takes, and what the engine itself takes.
MANAGER_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0)
ENGINE_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """Help text and, by name, the values that each label can have: the number of series is bounded and known.

    ``buckets``: upper bounds of a histogram, in seconds. ``replaces``: the older name of a histogram, a summary.
    """

    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()
    replaces: str = ""


CONTROLLERS = {"controller": ("node", "node-records", "pool", "request", "gates", "nominations")}
COUNTERS: t.Final[Mapping[str, Metric]] = {
    "gate_opened_total": Metric("Pods whose scheduling gate was removed because their devices are on the node."),
    "gate_released_total": Metric("Pods whose scheduling gate was removed without devices.",
                                  {"reason": ("unserved", "not_judged")}),
    "gate_misjudged_total": Metric("Pods that the scheduler did not place where their devices are.",
                                   {"reason": ("elsewhere", "unschedulable")}),
}
HISTOGRAMS: t.Final[Mapping[str, Metric]] = {
    "attach_duration_seconds": Metric("Time from asking the CDI Manager to its answer, for each attached device.",
                                      buckets=MANAGER_BUCKETS, replaces="attach_seconds"),
    "detach_duration_seconds": Metric("Time from asking the CDI Manager to its answer, for each detached device.",
                                      buckets=MANAGER_BUCKETS, replaces="detach_seconds"),
    "queue_duration_seconds": Metric("Time that a key of the work queue is ready before a worker takes it.",
                                     CONTROLLERS, ENGINE_BUCKETS),
    "reconcile_duration_seconds": Metric("Time that a worker takes for a key of the work queue.",
                                         CONTROLLERS, ENGINE_BUCKETS),
}
# True at the moment of asking: see ControllerManager.gauges.
GAUGES: t.Final[Mapping[str, Metric]] = {
    "gated_pods": Metric("Pods that the scheduling gate holds now."),
    "claims_waiting": Metric("ResourceClaims that wait for devices now."),
}


class Metrics(t.Protocol):
    """Takes measurements, from any thread. A label value that the tables do not name is recorded as ``other``."""

    def count(self, name: str, **labels: str) -> None:
        """One more of the counter ``name``, a key of COUNTERS."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """One measurement of the histogram ``name``, a key of HISTOGRAMS."""


class NoMetrics:
    """Measurements that nobody asks for."""

    def count(self, name: str, **labels: str) -> None:
        """Nothing."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Nothing."""
