# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer what devices and claims did over time, from the memory of this process."""

from __future__ import annotations

import logging
import threading
import time
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from ansible_collections.composable.infra.controller.ui.insight.device_states import Counts
from ansible_collections.composable.infra.controller.ui.insight.memory import (
    ATTACHES,
    FAILURES,
    LENGTH,
    SAMPLE_SECONDS,
    Ring,
)
from ansible_collections.composable.infra.controller.ui.insight.prometheus import NotReadable, Prometheus
from ansible_collections.composable.infra.controller.ui.insight.span import DAY, HOUR, Points, Series, Span
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import Rows, waits_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import TOTAL

MEMORY, PROMETHEUS = "memory", "prometheus"
UNREAD: t.Final = "Prometheus cannot be read. "
WAITS_OF_A_DAY: t.Final = "The waits are those of the last day."
CUT: t.Final = "{0} combinations of state, model and fabric are left out."
WAITING: t.Final = "waiting"
log = logging.getLogger("composable.infra")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a sample.

    ``ready``: whether the process knows the cluster. ``states``: devices by state. ``waiting``: the
    number of waiting claims. ``attempts``: attaches that succeeded and that failed since the process
    began. ``waits``: how long the claims of the last day waited. ``clock``: the API server's time.
    """

    ready: Callable[[], bool]
    states: Callable[[], Counts]
    waiting: Callable[[], int]
    attempts: Callable[[], tuple[int, int]]
    waits: Callable[[], Rows]
    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Answer:
    """A history. Its fields are those of the endpoint. Times are seconds since the epoch."""

    source: str
    span: str
    since: float
    until: float
    step_s: float
    bounded: str
    series: list[Series] = field(default_factory=list)
    waits: Mapping[str, Points] = field(default_factory=dict)
    attaches: Points = field(default_factory=list)
    failures: Points = field(default_factory=list)
    gpu: list[Json] = field(default_factory=list)

    def told(self) -> Json:
        """Return the answer as JSON."""
        return asdict(self)


class History:
    """Samples of the last day, and the answers from them or from Prometheus. Thread-safe.

    ``prometheus``: None if none is set.
    """

    def __init__(self, sources: Sources, prometheus: Prometheus | None = None) -> None:
        self._sources, self._ring, self._prometheus = sources, Ring(), prometheus
        self._before: tuple[int, int] | None = None
        self.now: Counts = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        """Begin to take samples."""
        self._thread.start()

    def stop(self) -> None:
        """End the samples."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        wait = 1.0
        while not self._stopping.wait(wait):
            wait = 1.0
            if self._sources.ready():
                wait = SAMPLE_SECONDS
                try:
                    self.sample()
                except Exception as problem:
                    log.warning("cannot take a sample for the history: %s", type(problem).__name__)

    def sample(self) -> None:
        """Take a sample."""
        source = self._sources
        self.now = source.states()
        attempts = source.attempts()
        before, self._before = self._before or attempts, attempts
        self._ring.add(source.clock(), {
            **self.now, (WAITING, "", None): source.waiting(),
            ATTACHES: attempts[0] - before[0], FAILURES: attempts[1] - before[1]})

    def answer(self, name: str, scope: Scope) -> Answer:
        """Return the history of a span by its name. Raise BadQuery for an unknown name.

        A namespace's reader gets the sums of the devices and the waits of the namespace.
        """
        span = Span.read(name, self._sources.clock())
        said = ""
        if self._prometheus:
            try:
                return self._recorded(self._prometheus, span, scope)
            except NotReadable as error:
                said = f"Prometheus cannot be read: {error}. " if scope.namespace is None else UNREAD
        since = self._ring.since
        said += self._bounds(span, since)
        return Answer(
            MEMORY, span.name, max(since or span.until, span.since), span.until, span.step, said,
            self._ring.series(span), waits(self._sources.waits(), scope.namespace, span),
            span.sums_of_steps(self._ring.of(ATTACHES)), span.sums_of_steps(self._ring.of(FAILURES)))

    def _recorded(self, prometheus: Prometheus, span: Span, scope: Scope) -> Answer:
        """Return the history as Prometheus has it. The waits are those of the last day."""
        found = prometheus.read(span, gpu=scope.namespace is None)
        times = [at for series in found.series for at, _value in series.points]
        said = [WAITS_OF_A_DAY] if span.until - span.since > DAY else []
        if found.cut:
            said.append(CUT.format(found.cut))
        return Answer(PROMETHEUS, span.name, min(times, default=span.until), span.until, span.step, " ".join(said),
                      found.series, waits(self._sources.waits(), scope.namespace, span), found.attaches,
                      found.failures, found.gpu)

    def _bounds(self, span: Span, since: float) -> str:
        """Return in sentences what is cut off, empty if nothing is."""
        found = []
        if not since:
            found.append("This process has no sample yet.")
        elif since > span.since + SAMPLE_SECONDS:
            most, began = LENGTH * SAMPLE_SECONDS / HOUR, datetime.fromtimestamp(since, UTC)
            found.append(f"This process keeps samples of at most {most:.0f} h, and has samples since "
                         f"{began:%Y-%m-%d %H:%M} UTC. For a longer history, set prometheus_url.")
        if self._ring.cut:
            found.append(CUT.format(self._ring.cut))
        return " ".join(found)


def waits(rows: Rows, namespace: str | None, span: Span) -> dict[str, Points]:
    """Return median and 95th percentile of the claims' total waits, one point an hour.

    ``namespace``: None for all claims.
    """
    found: dict[str, Points] = {"p50": [], "p95": []}
    hours = {hour for hour, _namespace, _hop in rows if span.since < (hour + 1) * HOUR and hour * HOUR <= span.until}
    for hour in sorted(hours):
        of_hour = {place: row for place, row in rows.items() if place[0] == hour}
        for row in waits_of(of_hour, namespace):
            if row.step == TOTAL:
                found["p50"].append((hour * HOUR, row.median))
                found["p95"].append((hour * HOUR, row.p95))
    return found
