# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tested processes: replicas of the shipped controller, and the gate reaper.

A process that ends is started again, as the kubelet does.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.composable.infra.controller.gate_reaper import Reaper
from ansible_collections.composable.infra.controller.main import serve
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import ROLES, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection
from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import CdiManager
from ansible_collections.composable.infra.tests.chaos.models.fm_wire import WiredDriver
from ansible_collections.composable.infra.tests.chaos.models.node import NAMESPACE
from ansible_collections.composable.infra.tests.chaos.models.transport import Network
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation, Task

REAPER_GRACE, REAPER_SECONDS = 30.0, 5.0


@dataclass
class Replica:
    """One replica in its present life."""

    process: Process
    task: Task
    engine: ControllerManager | None = None


@dataclass
class Controllers:
    """``count`` replicas, of which one leads.

    ``wired``: they reach the CDI Manager by the shipped driver and HTTP. ``events``: they write
    Events.
    """

    simulation: Simulation
    network: Network
    manager: CdiManager
    config: EngineConfig
    count: int = 2
    wired: bool = False
    events: bool = False
    clock_offsets: dict[int, float] = field(default_factory=dict)
    replicas: dict[int, Replica] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    reaper: Process = field(default_factory=lambda: Process("gate-reaper"))

    def start(self) -> None:
        """Start all processes, and restart those that end."""
        for slot in range(self.count):
            self.simulation.spawn(self.simulation.outside, f"kubelet-{slot}", partial(self._keep, slot))
        self.processes.append(self.reaper)
        self.simulation.spawn(self.reaper, "reaper", lambda: self._reap(self.reaper))

    def leader(self) -> Replica | None:
        """Return the replica with the Lease at the API server. It may be frozen or dead by now."""
        for replica in self.replicas.values():
            if replica.engine and replica.engine.fence._held is not None and replica.engine.fence.open:
                return replica
        return None

    def step_clock(self, slot: int, by: float) -> None:
        """Set the wall clock of a replica's host by ``by`` seconds. Its monotonic clock does not
        change.
        """
        self.clock_offsets[slot] = self.clock_offsets.get(slot, 0.0) + by
        self.replicas[slot].process.clock_offset = self.clock_offsets[slot]

    def of(self, process: Process) -> Replica | None:
        """Return the replica of a process."""
        return next((r for r in self.replicas.values() if r.process is process), None)

    def _keep(self, slot: int) -> None:
        number = 0
        while True:
            process = Process(f"controller-{slot}.{number}")
            process.clock_offset = self.clock_offsets.get(slot, 0.0)
            self.processes.append(process)
            replica = Replica(process, self.simulation.spawn(process, "main", partial(self._main, slot, process)))
            self.replicas[slot] = replica
            self.simulation.join(replica.task)
            if not process.dead:
                self.simulation.kill(process)
            if replica.engine:
                self.told += [f"{process.name}: {e['reason']} {e['about']}: {e['message']}"
                              for e in replica.engine.reporter.history]
            number += 1
            self.simulation.sleep(self.simulation.rng.uniform(0.5, 3.0))

    def _main(self, slot: int, process: Process) -> None:
        client = self.network.client(process)
        driver = (WiredDriver(self.manager, process, self.config.fabric) if self.wired
                  else t.cast(FabricManager, self.manager.driver(process)))
        engine = ControllerManager(client, driver, self.config, events=self.events)
        stop = t.cast(threading.Event, stand_ins.Event())
        leadership = LeaderElection(client, NAMESPACE, sorted(ROLES), stop.set)
        self.replicas[slot].engine = engine
        try:
            serve(engine, leadership, stop)
        finally:
            engine.stop()
            leadership.leave()

    def _reap(self, process: Process) -> None:
        reaper = Reaper(self.network.client(process), NAMESPACE, REAPER_GRACE)
        while True:
            with contextlib.suppress(ApiError):
                reaper.look()
            self.simulation.sleep(REAPER_SECONDS)
