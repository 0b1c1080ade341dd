# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics that a test can read. A name, a label or a value that the tables do not have is an error here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    CONFIGURED,
    COUNTERS,
    HISTOGRAMS,
    Metric,
)

Series = tuple[str, tuple[tuple[str, str], ...]]


class RecordedMetrics:
    """Thread-safe."""

    def __init__(self) -> None:
        self._counts: Counter[Series] = Counter()
        self._observed: dict[Series, list[float]] = {}
        self._lock = threading.Lock()

    def count(self, name: str, **labels: str) -> None:
        with self._lock:
            self._counts[_series(COUNTERS, name, labels)] += 1

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        with self._lock:
            self._observed.setdefault(_series(HISTOGRAMS, name, labels), []).append(seconds)

    def get(self, name: str, **labels: str) -> int:
        """How often something was counted."""
        with self._lock:
            return self._counts[_series(COUNTERS, name, labels)]

    def observed(self, name: str, **labels: str) -> list[float]:
        """Every measurement of a histogram, oldest first."""
        with self._lock:
            return list(self._observed.get(_series(HISTOGRAMS, name, labels), ()))


def _series(table: Mapping[str, Metric], name: str, labels: Mapping[str, str]) -> Series:
    assert labels.keys() == table[name].labels.keys(), (name, labels)
    for label, value in labels.items():
        assert table[name].labels[label] == CONFIGURED or value in table[name].labels[label], (name, label, value)
    return name, tuple(sorted(labels.items()))
