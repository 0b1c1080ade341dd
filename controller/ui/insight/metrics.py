# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of devices by state."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily

from ansible_collections.composable.infra.controller.ui.insight.device_states import FREE, Counts
from ansible_collections.composable.infra.controller.ui.rows import STATES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    CONFIGURED,
    PREFIX,
    Metric,
)

DEVICES: t.Final = "devices"
GAUGES: t.Final[Mapping[str, Metric]] = {
    DEVICES: Metric("Devices by state, at most a minute old.",
                    {"state": (FREE, *STATES), "model": CONFIGURED, "fabric": CONFIGURED}),
}
MOST_SERIES: t.Final = 512


class InsightMetrics:
    """A collector of prometheus_client. ``counts``: returns the devices by state, model and fabric."""

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        family = GaugeMetricFamily(PREFIX + DEVICES, GAUGES[DEVICES].help, labels=[*GAUGES[DEVICES].labels])
        for (state, model, fabric), number in sorted(self._counts().items(), key=str)[:MOST_SERIES]:
            family.add_metric([state, model, str(fabric)], number)
        yield family
