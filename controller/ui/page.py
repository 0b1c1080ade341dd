# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of one engine, with the sources of its rows, the option ``--ui``, and its metrics."""

from __future__ import annotations

import argparse
import time
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.build import documentation, version
from ansible_collections.composable.infra.controller.ui.docs_pages import address
from ansible_collections.composable.infra.controller.ui.endpoint import Ui
from ansible_collections.composable.infra.controller.ui.insight.insight import Insight
from ansible_collections.composable.infra.controller.ui.past.audit import Audit
from ansible_collections.composable.infra.controller.ui.past.records import Records
from ansible_collections.composable.infra.controller.ui.rows import ProcessRow
from ansible_collections.composable.infra.controller.ui.story import Stories
from ansible_collections.composable.infra.controller.ui.view import Sources, View
from ansible_collections.composable.infra.controller.ui.whatif.captured import what_if_of
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.engine import Engine
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import as_planned
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import PREFIX

OFF, READ_ONLY = "off", "read-only"
# The shortest time in seconds until wait reasons are read again, and the factor to the time that
# the last reading took.
SHORTEST, TIMES = 0.5, 20.0
METRICS: t.Final = {
    "ui_streams": "Open pages, which receive changes.",
    "ui_streams_dropped_total": "Pages that were dropped because they read too slowly.",
}


def add_ui_option(it: argparse.ArgumentParser) -> None:
    """Add the option ``--ui``."""
    it.add_argument("--ui", choices=(OFF, READ_ONLY), default=OFF,
                    help="serve a web page about fabric, nodes, devices and claims at /ui/ (default: %(default)s)")


def page(engine: Engine, access: Access, refusals: Mapping[int, str],
         leaders: Callable[[], Sequence[str]], insight: Insight | None = None) -> Ui:
    """Return the page of an engine, which from now on gets each watched change.

    ``leaders``: returns the identities of the leading processes. ``insight``: history and usage.
    """
    sources = Sources(engine.state, Paced(partial(as_planned, engine)),
                      partial(process_row, engine, leaders, version(), address(documentation())))
    view = View(sources)
    history = partial(tuple, engine.reporter.history)
    audit = Audit(engine.state, history, engine.client.server_time)
    engine.dispatch.listeners += [view.object_changed, audit.object_changed]
    stories = Stories(engine.state, engine.claim_steps.timelines, engine.waits.known)
    records = Records(engine.state, engine.client, history)
    return Ui(view, stories, access, refusals, what_if_of(engine.state, engine.config), insight, (audit, records))


def process_row(engine: Engine, leaders: Callable[[], Sequence[str]], build: str,
                docs: str = "") -> ProcessRow:
    """Return the row of the process as it is now."""
    settings = engine.config.settings
    troubles = engine.troubles()
    read, old_after = engine.inventory_polls.last_read() if engine.looks else (0.0, 0.0)
    return ProcessRow(build, engine.config.fabric.manager, settings.handover, settings.device_no_removal_duration,
                      engine.ready(), engine.fence.required and engine.fence.open, tuple(leaders()),
                      tuple(troubles), docs, round(read, 1), round(old_after, 1), tuple(troubles.values()))


class Paced:
    """Read wait reasons so rarely that this takes at most 1/TIMES of one processor."""

    def __init__(self, ask: Callable[[], dict[str, WaitReason]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._clock = ask, clock
        self._known: dict[str, WaitReason] = {}
        self._due = 0.0

    def __call__(self) -> dict[str, WaitReason]:
        """Return the wait reasons of the last reading, or read them again if that is due."""
        began = self._clock()
        if began >= self._due:
            self._known = self._ask()
            ended = self._clock()
            self._due = ended + max(SHORTEST, TIMES * (ended - began))
        return self._known


class UiMetrics:
    """A collector of prometheus_client. ``ui``: None if no page is served.

    Then all values are 0.
    """

    def __init__(self, ui: Ui | None) -> None:
        self._ui = ui

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the metrics."""
        broadcaster = self._ui.broadcaster if self._ui else None
        now, dropped = METRICS
        yield GaugeMetricFamily(PREFIX + now, METRICS[now], value=broadcaster.open if broadcaster else 0)
        yield CounterMetricFamily(PREFIX + dropped, METRICS[dropped], value=broadcaster.dropped if broadcaster else 0)
