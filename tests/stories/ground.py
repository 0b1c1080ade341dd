# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The setting of the stories: a cluster and a fabric in virtual time, as an administrator sees
them.

The controllers are the shipped ones (tests/chaos). A story says what happens, then checks the state
and the reports.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ansible_collections.composable.infra.emulator.pool.pool import PooledDevice
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.gauges import gauges
from ansible_collections.composable.infra.tests.chaos import workload
from ansible_collections.composable.infra.tests.chaos.invariants import Judge
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario
from ansible_collections.composable.infra.tests.chaos.simulation.patching import running
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Simulation
from ansible_collections.composable.infra.tests.chaos.world import World
from ansible_collections.composable.infra.tests.unit.planning.builders import A100

GATED = "team-a"
STEP = 0.25


class Ground:
    """One cluster on its fabric. Times are seconds of the virtual clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.judge = Judge(world)
        self.beside: list[World] = []

    @property
    def now(self) -> float:
        """Return the seconds since the story began."""
        return self.world.simulation.now

    @property
    def engine(self) -> ControllerManager:
        """Return the controller that leads."""
        leader = self.world.controllers.leader()
        engine = leader.engine if leader else None
        assert engine is not None, "no controller leads"
        return engine

    def wait(self, what: str, condition: Callable[[], object], within: float = 120.0) -> float:
        """Let time pass until ``condition`` is true. Return the seconds. Fail after ``within``."""
        began = self.now
        while not condition():
            assert self.now - began < within, f"{what}: not within {within:g} s; {self.reports()}"
            self._pass()
        return self.now - began

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self.now < until:
            self._pass()

    def _pass(self) -> None:
        self.world.simulation.sleep(STEP)
        self.judge.look()

    def submit(self, name: str, namespace: str = GATED, count: int = 1, model: str = A100) -> None:
        """Create a pod that claims ``count`` devices of a model."""
        workload.DO["pod"](
            self.world, {"name": name, "namespace": namespace, "model": model, "count": count}
        )

    def start(self, name: str, namespace: str = GATED, count: int = 1) -> str:
        """Create a pod, wait until it runs, and return the name of its node."""
        self.submit(name, namespace, count)
        self.wait(f"pod {name} runs", lambda: self.runs(name, namespace))
        return pods.bound(self.pod(name, namespace) or {}) or ""

    def end(self, name: str, namespace: str = GATED) -> None:
        """Delete a pod."""
        workload.delete(self.world, name, namespace)

    def pod(self, name: str, namespace: str = GATED) -> Json | None:
        """Return the pod."""
        return self.world.server.find("pods", name, namespace)

    def runs(self, name: str, namespace: str = GATED) -> bool:
        """Return whether a pod runs."""
        found = self.pod(name, namespace)
        return found is not None and pods.phase(found) == "Running"

    def resources(self) -> dict[str, Json]:
        """Return all ComposableResources by name."""
        return {raw["metadata"]["name"]: raw for raw in self.world.server.of("composableresources")}

    def device(self) -> str:
        """Return the only device that belongs to a machine."""
        (uid,) = self.devices()
        return uid

    def errors(self) -> list[str]:
        """Return what ``kubectl get composableresources -o wide`` shows as errors."""
        found = (
            str((raw.get("status") or {}).get("error") or "") for raw in self.resources().values()
        )
        return [error for error in found if error]

    def devices(self) -> dict[str, PooledDevice]:
        """Return the devices that belong to a machine, by the CDI Manager's UID."""
        return self.world.manager.attached()

    def asked(self, what: str, since: float = 0.0) -> list[str]:
        """Return the devices in the CDI Manager's log: ``attached`` or ``detached``."""
        return [
            entry.device
            for entry in self.world.manager.log
            if entry.what == what and entry.at >= since
        ]

    def problems(self) -> list[str]:
        """Return the problems that the leader reports on ``/status``."""
        return self.engine.problems()

    def events(self, reason: str = "") -> list[str]:
        """Return the messages of the Events that the leader reported, of one reason or all."""
        history = self.engine.reporter.history
        return [f"{e['reason']}: {e['message']}" for e in history if reason in ("", e["reason"])]

    def waits(self) -> list[str]:
        """Return the sentences of ``claim_info``: why each claim waits."""
        return [f"{reason.claim}: {reason.waits_for}" for reason in self.engine.wait_reasons()]

    def gauge(self, name: str, label: str) -> float:
        """Return a number that an alert uses."""
        values = gauges(self.engine)[name]
        assert isinstance(values, Mapping), f"{name} has no labels"
        return values.get(label, 0.0)

    def reports(self) -> str:
        """Return all that an administrator can see, for a story that fails."""
        leader = self.world.controllers.leader()
        seen = [
            self.errors(),
            *((self.problems(), self.events(), self.waits()) if leader and leader.engine else ()),
        ]
        return f"{seen}; {self.devices().keys()}; {self.world.simulation.failures}"

    def all_returned(self) -> bool:
        """Return whether no device is attached and no ComposableResource is left."""
        return not self.judge.left_over()


@contextmanager
def telling(seed: int = 1, **options: t.Any) -> Iterator[Ground]:
    """Run a story on a fresh cluster. ``options`` are fields of Scenario.

    At its end no invariant may be broken.
    """
    wanted: dict[str, t.Any] = {
        "nodes": 2,
        "devices": {A100: 2},
        "attach": 0.5,
        "scan": 1.0,
        **options,
    }
    simulation = Simulation(seed)
    with running(simulation):
        world = World(simulation, Scenario(seed, **wanted))
        ground = Ground(world)
        try:
            world.start()
            ground.wait("a controller leads", world.controllers.leader)
            yield ground
            ground.judge.end()
            assert not ground.judge.violations, ground.judge.violations
        finally:
            simulation.close(
                [process for each in (world, *ground.beside) for process in each.processes()]
            )
            world.manager.close()


def node_of(raw: Json) -> str:
    """Return the node that a ComposableResource names."""
    return str(raw["spec"]["target_node"])


def device_of(raw: Json) -> str:
    """Return the CDI Manager's UID of the device of a ComposableResource."""
    return str((raw.get("status") or {}).get("cdi_device_id") or "")
