# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the page share: a cluster that is made up, shown by the page as it is shipped."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.health import REFUSALS, HealthServer
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.ui.endpoint import Ui
from ansible_collections.composable.infra.controller.ui.insight.device_states import DeviceStates
from ansible_collections.composable.infra.controller.ui.insight.history import History
from ansible_collections.composable.infra.controller.ui.insight.history import Sources as HistorySources
from ansible_collections.composable.infra.controller.ui.insight.insight import Insight
from ansible_collections.composable.infra.controller.ui.insight.usage import UsageAnswers
from ansible_collections.composable.infra.controller.ui.past.audit import Audit
from ansible_collections.composable.infra.controller.ui.past.records import Records
from ansible_collections.composable.infra.controller.ui.rows import ProcessRow
from ansible_collections.composable.infra.controller.ui.story import Stories
from ansible_collections.composable.infra.controller.ui.view import Sources, View
from ansible_collections.composable.infra.controller.ui.whatif.captured import what_if_of
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Device,
    FabricSnapshot,
    Machine,
    Switch,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import Rates
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import Stored
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import NodeAgents
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.recorder import TimelineRecorder
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.waits_keeper import WaitsKeeper
from ansible_collections.composable.infra.tests.unit.controller.health_support import (
    FakeEngine,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, rows, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import kind_of
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import MANAGER
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

Json = dict[str, t.Any]
CONFIG = EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER, "node_operations": "ssh"})
PROCESS = ProcessRow("1.0.0", "fm", "gated", 600.0, True, True, ("composable-infra-0",))


@dataclass
class Shown:
    """A page about made-up objects: what the watches of a process would have seen."""

    nodes: int = 2
    devices: int = 2
    process: ProcessRow = PROCESS
    reasons: dict[str, WaitReason] = field(default_factory=dict)
    attempts: tuple[int, int] = (0, 0)
    stored: Stored = field(default_factory=Stored)
    now: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.waits = WaitsKeeper(FakeApi().client, "composable-infra", lambda said: None, enabled=False)
        self.state, self.recorder = ClusterState(settings(), NodeAgents("ssh")), TimelineRecorder(
            counted=self.waits.count)
        self.view = View(Sources(self.state, lambda: dict(self.reasons), lambda: self.process))
        access = Access()
        self.what_if = what_if_of(self.state, CONFIG)
        self.api, self.history = FakeApi(), list[Json]()
        past = partial(tuple, self.history)
        self.audit = Audit(self.state, past)
        self.ui = Ui(self.view, Stories(self.state, self.recorder, self.waits.known), access, REFUSALS, self.what_if,
                     insight=self.insight(), past=(self.audit, Records(self.state, self.api.client, past)))
        self.server = HealthServer("127.0.0.1:0", FakeEngine(), PrometheusMetrics(), dict, access, None, self.ui)
        self._version = 1
        for number in range(self.nodes):
            self._fill(number)
        self.look(free=3)

    def insight(self) -> Insight:
        """History and usage of the made-up cluster."""
        states = DeviceStates(self.state, lambda seconds: None)
        self.past = History(HistorySources(lambda: True, states.read, lambda: len(self.reasons), lambda: self.attempts,
                                           self.waits.known, lambda: self.now))
        return Insight(self.past, UsageAnswers(lambda: self.stored, lambda: "", Rates({A100: 2.0}, "EUR"), "team"))

    def _fill(self, number: int) -> None:
        node, ready = objects.node(f"node-{number}", f"machine-{number}"), [{"type": "Ready", "status": "True"}]
        self.state.nodes.upsert({**node, "status": {"conditions": ready}})
        for place in range(self.devices):
            self.state.resources.upsert(self.resource(number, place))

    @staticmethod
    def resource(number: int, place: int, **more: t.Any) -> objects.Json:
        """The ComposableResource of a node's device, attached and idle unless ``more`` says otherwise."""
        name = f"gpu-{number}-{place}"
        return objects.resource(name, **{"device": f"d-{name}", "serial": f"GPU-{name}", "state": "Online",
                                         "node": f"node-{number}", **more})

    def look(self, free: int, boxes: int = 0, switches: tuple[Switch, ...] = ()) -> None:
        """The fabric was looked at: each machine has its devices. ``boxes``: how many the manager tells; its free
        devices are in the last one, each machine's in one of them. ``switches``: those that it tells."""
        machines = {f"machine-{n}": Machine(f"machine-{n}", f"node-{n}", 1, tuple(
            Device(f"d-gpu-{n}-{place}", A100, fabric=1, machine=f"machine-{n}",
                   box=f"box-{n % boxes}" if boxes else None) for place in range(self.devices)))
            for n in range(self.nodes)}
        inside = {(A100, 1, f"box-{boxes - 1}"): free} if boxes else {}
        self.state.snapshot = FabricSnapshot(machines, {(A100, 1): free}, 1.0, free_in_boxes=inside, switches=switches)

    def put(self, *raws: objects.Json) -> None:
        """The watches see these."""
        stores = {kind.kind: store for kind, store in self.state.stores.items()}
        for raw in raws:
            self._version += 1
            raw["metadata"]["resourceVersion"] = str(self._version)
            store = stores[raw["kind"]]
            before = store.stored(raw["metadata"]["name"], raw["metadata"].get("namespace") or "")
            kept: t.Any = store.trimmed(raw)
            store.upsert(kept)
            for told in (self.view.object_changed, self.audit.object_changed):
                told("MODIFIED" if before else "ADDED", kind_of(raw), kept, before)

    def gone(self, raw: Json) -> None:
        """The watches see that a ComposableResource is deleted."""
        kept = self.state.resources.trimmed(raw)
        self.state.resources.remove(kept)
        for told in (self.view.object_changed, self.audit.object_changed):
            told("DELETED", kind_of(raw), kept, kept)

    def said(self, **fields: t.Any) -> None:
        """The process says otherwise."""
        self.process = replace(self.process, **fields)


def serving(**options: t.Any) -> Iterator[Shown]:
    """One that serves until the end of the test."""
    made = Shown(**options)
    made.server.start()
    yield made
    made.server.stop()
