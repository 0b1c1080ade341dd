# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same workloads and faults on the lab: real processes, a real control plane, real time.

A minute of a scenario takes ``60 * SPEED`` seconds. Named points, set clocks and broken watches are for the simulated
runs: here a controller is killed or frozen at the moment at which such a step stands.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.composable.infra.lab.demo.stage import A100 as LAB_A100
from ansible_collections.composable.infra.lab.demo.stage import H100 as LAB_H100
from ansible_collections.composable.infra.lab.demo.stage import Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import AlreadyExists, ApiError, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods, slices
from ansible_collections.composable.infra.tests.chaos.invariants import BROKEN, DOUBLE, LEAK, LOST, THEFT
from ansible_collections.composable.infra.tests.chaos.on_lab.parts import Parts
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario, Step
from ansible_collections.composable.infra.tests.e2e.support.support import delete_all, returned
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4

SPEED, LOOK, SETTLED_WITHIN = 0.25, 0.5, 150.0
LONGEST_FREEZE = 20.0
MODELS: t.Final = {A100: LAB_A100, T4: LAB_H100}
DEVICES: t.Final = {LAB_A100: 6, LAB_H100: 4}
OPTIONS: t.Final = StageOptions(nodes=3, devices=DEVICES, attach=0.5, detach=0.2, hold=1.0, scan_interval=1.0,
                                attach_timeout=15.0, handover="gated")


@dataclass
class LabRun:
    """One run on a stage that is at rest."""

    stage: Stage
    scenario: Scenario
    violations: list[str] = field(default_factory=list)
    _due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _counts: dict[str, tuple[str, int]] = field(default_factory=dict)

    def run(self) -> list[str]:
        """Live through the scenario; what was violated."""
        self.parts = Parts(self.stage, self.scenario.replicas)
        try:
            began = time.monotonic()
            self._due = [(began + step.at * SPEED, partial(self._do, step)) for step in self.scenario.steps]
            while self._due:
                self._turn()
            self.parts.heal()
            self._settle()
        finally:
            self.parts.close()
        if any("Traceback" in text for text in self.parts.texts):
            self.violations.append(f"{BROKEN}: a controller logged a traceback")
        return self.violations

    def _turn(self) -> None:
        """What is due, then a look."""
        self._due.sort(key=lambda pair: pair[0])
        while self._due and self._due[0][0] <= time.monotonic():
            self._due.pop(0)[1]()
        self.parts.keep()
        with contextlib.suppress(ApiError, OSError):
            self._look()
        time.sleep(min(LOOK, max(0.0, self._due[0][0] - time.monotonic())) if self._due else 0.0)

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        self._due.append((time.monotonic() + seconds, what))

    def _do(self, step: Step) -> None:
        """One step; what the API server does not take now is asked for again."""
        try:
            self._steps(step)
        except NotFound:
            return
        except ApiError:
            self._later(1.0, lambda: self._do(step))

    def _steps(self, step: Step) -> None:
        with_, parts = step.with_, self.parts
        away: dict[str, Callable[[], Callable[[], None]]] = {
            "manager down": parts.stop_manager, "manager": lambda: parts.manager_fails(with_),
            "api down": lambda: parts.stop("kube-apiserver"), "watches end": lambda: parts.stop("kube-apiserver"),
            "watches too old": lambda: parts.stop("etcd"), "scheduler": lambda: parts.stop("kube-scheduler")}
        once: dict[str, Callable[[], object]] = {
            "pod": lambda: self._pod(with_), "delete": lambda: self._delete(str(with_["name"])),
            "cordon": lambda: self._cordon(int(with_["node"]), True),
            "uncordon": lambda: self._cordon(int(with_["node"]), False), "kill": parts.kill, "kill at": parts.kill,
            "plugin": lambda: parts.restart_plugin(int(with_["node"])), "agent": parts.restart_agents}
        if step.kind in away:
            self._later(float(with_.get("seconds", 0.0)) * SPEED, away[step.kind]())
        elif step.kind in ("freeze", "freeze at"):
            self._later(min(LONGEST_FREEZE, float(with_["seconds"])), parts.freeze())
        elif step.kind in once:
            once[step.kind]()

    def _delete(self, name: str) -> None:
        self._counts.pop(name, None)
        self._remove(name)

    def _remove(self, name: str) -> None:
        for kind in (PODS, CLAIMS):
            with contextlib.suppress(NotFound):
                self.stage.client.delete(kind, name, namespace="default")

    def _pod(self, with_: t.Mapping[str, t.Any]) -> None:
        name, model, count = str(with_["name"]), MODELS[with_["model"]], int(with_["count"])
        self._counts[name] = (model, count)
        try:
            self.stage.pod(name, model, count, gated=with_["namespace"] != "plain")
        except AlreadyExists:  # half of it was there before the API server went away
            self._remove(name)
            raise

    def _cordon(self, node: int, unschedulable: bool) -> None:
        name = self.stage.lab.nodes[node % len(self.stage.lab.nodes)]
        self.stage.client.merge_patch(NODES, name, {"spec": {"unschedulable": unschedulable or None}})

    def _look(self) -> None:
        """No pod that runs has lost its device, and no device belongs to two."""
        owned = [d for raw in self.stage.client.list(COMPOSABLE_RESOURCES).items
                 if (d := (raw.get("status") or {}).get("cdi_device_id"))]
        self._say(DOUBLE, [d for d in set(owned) if owned.count(d) > 1])
        attached = {d["serial"] for d in self.stage.emulator.state()["devices"] if d["state"] == "attached"}
        shown = {(slices.driver(s), slices.pool(s), d["name"]): slices.attribute(d, "uuid")
                 for s in self.stage.client.list(SLICES).items if slices.node(s) for d in slices.devices(s)}
        running = {p["metadata"]["uid"] for p in self.stage.client.list(PODS, namespace="default").items
                   if pods.phase(p) == "Running" and not p["metadata"].get("deletionTimestamp")}
        for claim in self.stage.client.list(CLAIMS, namespace="default").items:
            if running & {consumer["uid"] for consumer in claims.consumers(claim)}:
                gone = [u for key in claims.device_keys(claim) if (u := shown.get(key)) and u not in attached]
                self._say(THEFT, [f"{claim['metadata']['name']} lost {uuid}" for uuid in gone])

    def _say(self, kind: str, found: list[str]) -> None:
        self.violations += [f"{kind}: {said}" for said in found if f"{kind}: {said}" not in self.violations]

    def _settle(self) -> None:
        """All pods that fit run; then all are deleted, and everything returns."""
        for node in range(len(self.stage.lab.nodes)):
            self._cordon(node, False)
        for name in self._beyond():
            self._remove(name)
        if not self._until(lambda: not self._waiting()):
            self._say(LOST, [f"pod {name} does not run" for name in self._waiting()])
        delete_all(self.stage)
        if not self._until(lambda: returned(self.stage)):
            self._say(LEAK, [f"{d['uid']} is {d['state']}" for d in self.stage.emulator.state()["devices"]
                             if d["state"] != "free"] or ["objects are left"])

    def _beyond(self) -> list[str]:
        """Pods for which there are too few devices."""
        left, found = dict(DEVICES), []
        for name, (model, count) in self._counts.items():
            if left[model] < count:
                found.append(name)
            else:
                left[model] -= count
        return found

    def _waiting(self) -> list[str]:
        return [p["metadata"]["name"] for p in self.stage.client.list(PODS, namespace="default").items
                if pods.phase(p) != "Running"]

    def _until(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + SETTLED_WITHIN
        while time.monotonic() < deadline:
            self.parts.keep()
            with contextlib.suppress(ApiError):
                self._look()
                if condition():
                    return True
            time.sleep(LOOK)
        return False


def on_lab(scenarios: Iterator[Scenario]) -> Iterator[tuple[Scenario, list[str], float]]:
    """What came of each scenario, with the seconds that it took; all on one lab."""
    with Stage(OPTIONS) as stage:
        for scenario in scenarios:
            began = time.monotonic()
            yield scenario, LabRun(stage, scenario).run(), time.monotonic() - began
