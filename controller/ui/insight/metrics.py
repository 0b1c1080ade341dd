# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of devices by state and of usage.

The stored sums have a bounded number of namespaces and labels, and so have the series.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ansible_collections.composable.infra.controller.ui.insight.device_states import FREE, Counts
from ansible_collections.composable.infra.controller.ui.rows import STATES
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import Stored
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    CONFIGURED,
    PREFIX,
    Metric,
)

Values = dict[tuple[str, ...], float]
DEVICES, USED, IDLE, ATTACHES = "devices", "used_seconds_total", "idle_seconds_total", "namespace_attaches_total"
GAUGES: t.Final[Mapping[str, Metric]] = {
    DEVICES: Metric("Devices by state, at most a minute old.",
                    {"state": (FREE, *STATES), "model": CONFIGURED, "fabric": CONFIGURED}),
}
COUNTERS: t.Final[Mapping[str, Metric]] = {
    USED: Metric("Seconds for which claims have had devices.",
                 {"namespace": CONFIGURED, "model": CONFIGURED, "label": CONFIGURED}),
    IDLE: Metric("Seconds for which attached devices were idle.", {"model": CONFIGURED}),
    ATTACHES: Metric("Devices that were attached for claims of a namespace.",
                     {"namespace": CONFIGURED, "model": CONFIGURED}),
}
MOST_SERIES: t.Final = 512
# All sums are read again after this time in seconds, because that takes long with many devices.
READ_SECONDS: t.Final = 15.0


class InsightMetrics:
    """A collector of prometheus_client.

    ``counts``: returns the devices by state, model and fabric. ``usage``: returns all sums up to
    now. ``clock``: seconds.
    """

    def __init__(self, counts: Callable[[], Counts], usage: Callable[[], Stored],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._counts, self._usage, self._clock = counts, usage, clock
        self._known, self._due = Stored(), 0.0

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the metrics without values."""
        for name, metric in GAUGES.items():
            yield GaugeMetricFamily(PREFIX + name, metric.help, labels=[*metric.labels])
        for name, metric in COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, metric.help, labels=[*metric.labels])

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the metrics. The sums of usage outlive the process, so all processes yield the same
        sums."""
        if self._clock() >= self._due:
            self._known, self._due = self._usage(), self._clock() + READ_SECONDS
        used, idle, attaches = self._sums()
        devices: Values = {(state, model, str(fabric)): float(number)
                           for (state, model, fabric), number in self._counts().items()}
        for family, values in zip(self.describe(), (devices, used, idle, attaches), strict=True):
            for labels, number in sorted(values.items())[:MOST_SERIES]:
                family.add_metric([*labels], number)
            yield family

    def _sums(self) -> tuple[Values, Values, Values]:
        used, idle, attaches = (dict[tuple[str, ...], float]() for _each in range(3))
        for place, row in self._known.table.items():
            if row.used:
                _add(used, (place.namespace, place.model, place.label), row.used)
            if row.idle:
                _add(idle, (place.model,), row.idle)
            if row.attaches:
                _add(attaches, (place.namespace, place.model), row.attaches)
        return used, idle, attaches


def _add(values: Values, labels: tuple[str, ...], number: float) -> None:
    values[labels] = values.get(labels, 0.0) + number
