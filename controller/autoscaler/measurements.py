# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of the provider, by prometheus_client. Their names are in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind
from ansible_collections.composable.infra.controller.build import BuildInfo

PREFIX = "composable_infra_autoscaler_"
COUNTERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "calls_total": ("Calls of NodeGroupIncreaseSize, by result.", "result", ("begun", "refused")),
    "decisions_total": ("Decisions for waiting pods, which are attach, node or refuse.", "decision",
                        ("attach", "node", "refuse")),
    "failures_total": ("Calls that were started and failed, by reason.", "reason",
                       ("Timeout", "AttachFailed", "NoNode")),
    "scale_down_total": ("Nodes that Cluster Autoscaler wanted to delete, by decision.", "decision",
                         ("remove", "keep")),
    "requests_total": ("Calls of Cluster Autoscaler by gRPC status code.", "code",
                       ("OK", *(kind.name for kind in Kind), "INTERNAL")),
}
BUCKETS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200)
GAUGES: Mapping[str, str] = {
    "target_size": "Target size of each group, as reported to Cluster Autoscaler.",
    "nodes_left_out": "Nodes that are hidden from Cluster Autoscaler, by group.",
    "spare_watts": "Watts that idle devices and removed nodes save, as configured.",
}


class Measurements:
    """The metrics, in a registry of their own. Every series exists from the beginning, at zero."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = {name: Counter(PREFIX + name, text, [label], registry=self.registry)
                          for name, (text, label, _values) in COUNTERS.items()}
        for name, (_text, _label, values) in COUNTERS.items():
            for value in values:
                self._counters[name].labels(value)
        self._serve = Histogram(f"{PREFIX}serve_seconds",
                                "Seconds from a call until the devices of its pods are in ResourceSlices.",
                                buckets=BUCKETS, registry=self.registry)
        self.registry.register(BuildInfo())

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add ``amount`` to the counter ``name``, a key of COUNTERS."""
        if amount:
            self._counters[name].labels(**labels).inc(amount)

    def observe(self, _name: str, seconds: float) -> None:
        """Add a measurement of the time from a call to its devices, in seconds."""
        self._serve.observe(seconds)

    def ask(self, observed: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        """Call ``observed`` at each scrape. It returns the value of each gauge by group."""
        self.registry.register(_Asked(observed))

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


class _Asked:
    """A collector of prometheus_client."""

    def __init__(self, observed: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        self._observed = observed

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current gauges."""
        found = self._observed()
        for name, text in GAUGES.items():
            family = GaugeMetricFamily(PREFIX + name, text, labels=("group",))
            for group, value in found.get(name, {}).items():
                family.add_metric((group,), value)
            yield family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the names without values, so that registration does not call ``observed``."""
        yield from (GaugeMetricFamily(PREFIX + name, text, labels=("group",)) for name, text in GAUGES.items())
