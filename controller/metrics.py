# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's measurements for Prometheus, by prometheus_client; modules and rulebook do without that library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    PREFIX,
    Metric,
)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
OTHER = "other"


class PrometheusMetrics:
    """The metrics of one engine, in a registry of its own. Every series is there from the beginning, at zero."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = {name: Counter(PREFIX + name, metric.help, [*metric.labels], registry=self.registry)
                          for name, metric in COUNTERS.items()}
        self._histograms = {name: Histogram(PREFIX + name, metric.help, [*metric.labels], buckets=metric.buckets,
                                            registry=self.registry)
                            for name, metric in HISTOGRAMS.items()}
        self._deprecated = {name: Summary(PREFIX + metric.replaces, f"Deprecated, use {PREFIX}{name}. {metric.help}",
                                          registry=self.registry)
                            for name, metric in HISTOGRAMS.items() if metric.replaces}
        for name, metric in [*COUNTERS.items(), *HISTOGRAMS.items()]:
            for values in product(*metric.labels.values()) if metric.labels else ():
                (self._counters.get(name) or self._histograms[name]).labels(*values)

    def count(self, name: str, **labels: str) -> None:
        """One more of the counter ``name``, a key of COUNTERS."""
        counter, bounded = self._counters[name], _bounded(COUNTERS[name], labels)
        (counter.labels(**bounded) if bounded else counter).inc()

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """One measurement of the histogram ``name``, a key of HISTOGRAMS, and of the name that it had before."""
        histogram, bounded = self._histograms[name], _bounded(HISTOGRAMS[name], labels)
        (histogram.labels(**bounded) if bounded else histogram).observe(seconds)
        if name in self._deprecated:
            self._deprecated[name].observe(seconds)

    def ask(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        """Have ``gauges`` asked at each scrape; it answers with the value now of each key of GAUGES."""
        def value_of(name: str) -> Callable[[], float]:
            return lambda: gauges()[name]

        for name, metric in GAUGES.items():
            Gauge(PREFIX + name, metric.help, registry=self.registry).set_function(value_of(name))

    def text(self) -> bytes:
        """Everything as Prometheus reads it, in the format that CONTENT_TYPE names."""
        return generate_latest(self.registry)


def _bounded(metric: Metric, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, with OTHER for a value that the metric does not name: no input makes series without end."""
    return {name: labels[name] if labels.get(name) in values else OTHER for name, values in metric.labels.items()}
