# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's metrics for Prometheus, by prometheus_client. Modules and rulebook do not need it.

The number of series is bounded. A label has only the values that its metric or the configuration
names, and ``other``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from ansible_collections.composable.infra.controller.build import BuildInfo
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    COUNTERS,
    FORMER_LABELS,
    GAUGES,
    HISTOGRAMS,
    PREFIX,
    READ_COUNTERS,
    Metric,
)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
OTHER = "other"
Labels = dict[str, str]
Observed = Mapping[str, "float | Mapping[str, float]"]
Known = Mapping[str, tuple[str, ...]]


class PrometheusMetrics:
    """The metrics of one engine, in a registry of its own.

    Every series exists from the beginning, at zero. If a metric has a label for the cause of a
    problem, only the series for no problem does.

    ``manager``: the CDI Manager's kind in the configuration. ``models``: names of its device_info.
    """

    def __init__(self, manager: str = "", models: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        self._known = {"manager": (manager,), "model": tuple(dict.fromkeys(models))}
        self._counters = {name: Counter(PREFIX + name, metric.help, [*metric.labels], registry=self.registry)
                          for name, metric in COUNTERS.items()}
        self._histograms = {name: Histogram(PREFIX + name, metric.help, [*metric.labels], buckets=metric.buckets,
                                            registry=self.registry)
                            for name, metric in HISTOGRAMS.items()}
        self._deprecated = {name: _former(name, metric, self.registry)
                            for name, metric in HISTOGRAMS.items() if metric.replaces}
        self.registry.register(BuildInfo())
        for name, metric in [*COUNTERS.items(), *HISTOGRAMS.items()]:
            for values in _at_first(metric, self._known):
                (self._counters.get(name) or self._histograms[name]).labels(*values)

    def count(self, name: str, **labels: str) -> None:
        """Add 1 to the counter ``name``, a key of COUNTERS."""
        counter, bounded = self._counters[name], _bounded(COUNTERS[name], self._known, labels)
        (counter.labels(**bounded) if bounded else counter).inc()

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a measurement to the histogram ``name``, a key of HISTOGRAMS.

        It is added to the former name of the metric too. ``seconds``: the measured time.
        """
        histogram, bounded = self._histograms[name], _bounded(HISTOGRAMS[name], self._known, labels)
        (histogram.labels(**bounded) if bounded else histogram).observe(seconds)
        if name in self._deprecated:
            former = self._deprecated[name]
            (former.labels(*bounded.values()) if bounded else former).observe(seconds)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the counter ``name`` over all series with these labels."""
        return sum(sample.value for family in self._counters[name].collect() for sample in family.samples
                   if sample.name == PREFIX + name and labels.items() <= sample.labels.items())

    def ask(self, observed: Callable[[], Observed]) -> None:
        """Register ``observed``, which is called once at each scrape.

        It returns the current value of each key of GAUGES and READ_COUNTERS. A value is a number,
        or numbers by the value of the metric's only label.
        """
        self.registry.register(_Asked(observed, self._known))

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus that CONTENT_TYPE names."""
        return generate_latest(self.registry)


def _former(name: str, metric: Metric, registry: CollectorRegistry) -> Summary | Histogram:
    """Return the metric with its former name, which has the measurements of ``metric``, too."""
    said = f"Deprecated. Use {PREFIX}{name}. {metric.help}"
    if not metric.labels:
        return Summary(PREFIX + metric.replaces, said, registry=registry)
    labels = [FORMER_LABELS.get(label, label) for label in metric.labels]
    return Histogram(PREFIX + metric.replaces, said, labels, buckets=metric.buckets, registry=registry)


class _Asked:
    """A collector that gets all values in one call."""

    def __init__(self, observed: Callable[[], Observed], known: Known) -> None:
        self._observed, self._known = observed, known

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the names without values, so that registration does not call ``observed``."""
        for name, metric in GAUGES.items():
            yield GaugeMetricFamily(PREFIX + name, metric.help, labels=[*metric.labels])
        for name, metric in READ_COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, metric.help, labels=[*metric.labels])

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the current values."""
        now, tables = self._observed(), {**GAUGES, **READ_COUNTERS}
        for family in self.describe():
            name = family.name.removeprefix(PREFIX) + ("_total" if isinstance(family, CounterMetricFamily) else "")
            for values, number in _series(tables[name], self._known, now.get(name, 0.0)).items():
                family.add_metric(values, number)
            yield family


def _series(metric: Metric, known: Known, now: float | Mapping[str, float]) -> dict[tuple[str, ...], float]:
    if not metric.labels:
        return {(): now if isinstance(now, (int, float)) else 0.0}
    (label,) = metric.labels
    found: dict[tuple[str, ...], float] = {}
    for value, number in now.items() if isinstance(now, Mapping) else ():
        bounded = (_bounded(metric, known, {label: value})[label],)
        found[bounded] = found.get(bounded, 0.0) + number
    return found


def _at_first(metric: Metric, known: Known) -> Iterator[tuple[str, ...]]:
    """Return the label values of the series that exist before the first measurement."""
    if not metric.labels:
        return iter(())
    configured = any(not values for values in metric.labels.values())
    return product(*((values[:1] if configured else values) or known[label] for label, values in metric.labels.items()))


def _bounded(metric: Metric, known: Known, labels: Mapping[str, str]) -> Labels:
    """Return the labels, with OTHER in place of each unknown value."""
    return {name: labels[name] if labels.get(name) in (values or known[name]) else OTHER
            for name, values in metric.labels.items()}
