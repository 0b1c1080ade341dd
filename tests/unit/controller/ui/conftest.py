# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the page's tests: a cluster state with one node, and a view of it that somebody looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.composable.infra.controller.ui.insight.device_states import DeviceStates
from ansible_collections.composable.infra.controller.ui.insight.history import History
from ansible_collections.composable.infra.controller.ui.insight.history import Sources as HistorySources
from ansible_collections.composable.infra.controller.ui.insight.insight import Insight
from ansible_collections.composable.infra.controller.ui.insight.usage import UsageAnswers
from ansible_collections.composable.infra.controller.ui.rows import ProcessRow
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.controller.ui.story import Stories
from ansible_collections.composable.infra.controller.ui.view import Sources, View
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import Rates
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import Stored
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.recorder import TimelineRecorder
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.waits_keeper import WaitsKeeper
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench, kind_of

PROCESS = ProcessRow("1.0.0", "fm", "gated", 600.0, True, True, ("pod-a",), ("the CDI Manager of node-0 is down",))
EVERYTHING, MINE = Scope(), Scope("mine")


@dataclass
class Looked:
    """A bench, and a view of its cluster state. ``reasons``: what claims wait for."""

    bench: Bench
    reasons: dict[str, WaitReason] = field(default_factory=dict)
    process: ProcessRow = PROCESS
    stored: Stored = field(default_factory=Stored)

    def __post_init__(self) -> None:
        self.waits = WaitsKeeper(self.bench.api.client, "composable-infra", lambda said: None, enabled=False)
        self.recorder = TimelineRecorder(counted=self.waits.count)
        self.view = View(Sources(self.bench.state, lambda: dict(self.reasons), lambda: self.process))
        self.stories = Stories(self.bench.state, self.recorder, self.waits.known)

    def insight(self) -> Insight:
        """History and usage of the bench."""
        states = DeviceStates(self.bench.state, lambda seconds: None)
        return Insight(History(HistorySources(lambda: True, states.read, lambda: 0, lambda: (0, 0), self.waits.known)),
                       UsageAnswers(lambda: self.stored, lambda: "node-0 is down", Rates({A100: 2.0}, "EUR"), "team"))

    def put(self, *raws: objects.Json) -> None:
        """The watches have seen these."""
        self.bench.put(*raws)
        for raw in raws:
            self.view.object_changed("MODIFIED", kind_of(raw), self.bench.seen(raw), None)


@pytest.fixture
def looked() -> Iterator[Looked]:
    """A node with a machine on fabric 1, and a page that is open."""
    bench = Bench()
    bench.build()
    bench.put(objects.node())
    bench.look()
    made = Looked(bench)
    made.view.open()
    yield made
    bench.close()


def elsewhere(raw: objects.Json, namespace: str) -> objects.Json:
    """An object in another namespace."""
    meta = raw["metadata"]
    return {**raw, "metadata": {**meta, "namespace": namespace, "uid": f"{namespace}-{meta['name']}"}}
