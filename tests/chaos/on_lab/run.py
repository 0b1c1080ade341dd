# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same workloads and faults on the lab: real processes, a real control plane, real time.

A minute of a scenario takes ``60 * SPEED`` seconds. A freeze has its full length, because a Lease
does too. The named points are those that can be observed from outside: a ComposableResource was
created, an intent was written, a device was owned, a detach begins. Clock steps belong to simulated
runs. Sizes and latencies of the fabric are the lab's. ``attach``, ``detach``, ``hold``, ``scan``
and ``replicas`` are the scenario's.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml
from urllib3.exceptions import HTTPError

from ansible_collections.composable.infra.emulator.process import EmulatorError
from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.demo.stage import Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.taints import DeviceTaints
from ansible_collections.composable.infra.tests.chaos.invariants import BROKEN, LEAK, LOST, THEFT
from ansible_collections.composable.infra.tests.chaos.on_lab import history as seen
from ansible_collections.composable.infra.tests.chaos.on_lab.history import History
from ansible_collections.composable.infra.tests.chaos.on_lab.judge import created_requests, held_too_long, judge
from ansible_collections.composable.infra.tests.chaos.on_lab.parts import API_SERVER, ETCD, SCHEDULER, Parts, Undo
from ansible_collections.composable.infra.tests.chaos.on_lab.users import DEVICES, Workload
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario, Step
from ansible_collections.composable.infra.tests.e2e.support import by_hand

SPEED, LOOK, SETTLED_WITHIN, LONGEST_FREEZE = 0.15, 0.25, 150.0, 20.0
HOLD_TIMEOUT, PLACEMENT_TIMEOUT, ATTACH_TIMEOUT = 5.0, 15.0, 15.0
LOST_LINK = "fallen off the bus"
REFUSALS = (ApiError, ApiRefusal, HTTPError, EmulatorError, OSError)
# As in simulated runs, the time of a Lease and a pass is added.
HELD_BOUND = HOLD_TIMEOUT + 2 * PLACEMENT_TIMEOUT + 15.0 + 5.0
OPTIONS: t.Final = StageOptions(nodes=3, devices=DEVICES, attach_timeout=ATTACH_TIMEOUT, handover="gated",
                                audit=True)
# The observation from outside that stands for each point of the simulated runs
# (faults.ABOUT_DEVICES and OTHERS).
POINTS: t.Final[Mapping[str, str]] = {
    "before attach": seen.INTENDED, "after attach": seen.OWNED, "before detach": seen.DELETING,
    "after create composableresources": seen.CREATED, "before patch composableresources": seen.CREATED,
    "after patch composableresources": seen.INTENDED, "before patch composableresources/status": seen.INTENDED,
    "after patch composableresources/status": seen.OWNED, "after detach": seen.DELETING}


@dataclass(frozen=True, slots=True)
class LabOutcome:
    """``violations``: empty if there are none. ``attaches``: number of attached devices.
    ``seconds``: real seconds.
    """

    seed: int
    violations: tuple[str, ...]
    attaches: int
    seconds: float


@dataclass
class LabRun:
    """One run on an idle stage."""

    stage: Stage
    scenario: Scenario
    violations: list[str] = field(default_factory=list)
    _due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _armed: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def run(self) -> LabOutcome:
        """Run the scenario, and judge it."""
        began = time.monotonic()
        found, stage = self.scenario, self.stage
        stage.emulator.set_timing(attach=found.attach, detach=found.detach)
        since = max((e["n"] for e in stage.emulator.effects()), default=0)
        self.history = History(stage.client, self._at_point)
        self.workload = Workload(stage, self.history)
        self._audited = stage.lab.audit_log.stat().st_size
        self.workload.label()
        self.history.start()
        self.parts = Parts(stage, self._config(), f"seed-{found.seed}", found.replicas)
        try:
            self._live()
            self._settle()
        finally:
            self.parts.close()
            self.history.stop()
        effects = stage.emulator.effects(since)
        self._judge(effects)
        self._tidy()
        attaches = sum(e["effect"].startswith("attached") for e in effects)
        return LabOutcome(found.seed, tuple(self.violations), attaches, time.monotonic() - began)

    def _config(self) -> Path:
        path = self.stage.folder / "chaos.yml"
        path.touch(0o600)
        path.write_text(yaml.safe_dump({
            **self.stage.config(), "device_no_removal_duration": min(self.scenario.hold, 5.0),
            "scan_interval": self.scenario.scan, "hold_timeout": HOLD_TIMEOUT, "placement_timeout": PLACEMENT_TIMEOUT,
            "handover_timeout": 15.0}), encoding="utf-8")
        return path

    def _live(self) -> None:
        """Execute every step at its time, and end its effect later."""
        began = time.monotonic()
        self._due = [(began + step.at * SPEED, partial(self._do, step)) for step in self.scenario.steps]
        while self._due:
            self._due.sort(key=lambda pair: pair[0])
            while self._due and self._due[0][0] <= time.monotonic():
                self._due.pop(0)[1]()
            self._look()
            next_due = self._due[0][0] if self._due else 0.0
            time.sleep(min(LOOK, max(0.0, next_due - time.monotonic())))

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        self._due.append((time.monotonic() + seconds, what))

    def _do(self, step: Step) -> None:
        """Execute one step. If the API server or the emulator refuses it now, repeat it later."""
        if self.parts.api_away and (step.kind in self.workload.do or step.kind == "plugin"):
            self._later(0.5, partial(self._do, step))
            return
        try:
            self._step(step)
        except NotFound:
            return
        except REFUSALS:
            self._later(0.5, partial(self._do, step))

    def _step(self, step: Step) -> None:
        with_, parts, kind = step.with_, self.parts, step.kind
        seconds = float(with_.get("seconds", 0.0))
        away: dict[str, Callable[[], Undo]] = {
            "manager down": parts.stop_manager, "manager": partial(parts.manager_fails, with_),
            "api down": partial(parts.stop, API_SERVER), "api": partial(parts.stop, API_SERVER),
            "watches end": partial(parts.stop, API_SERVER), "watches too old": partial(parts.stop, ETCD),
            "scheduler": partial(parts.stop, SCHEDULER), "agent": parts.stop_agents}
        if kind in self.workload.do:
            self.workload.do[kind](with_)
        elif kind in away:
            self._later(min(LONGEST_FREEZE, seconds * SPEED), away[kind]())
        elif kind == "plugin":
            parts.restart_plugin(int(with_["node"]))
        elif kind in ("kill", "freeze"):
            self._strike(kind, seconds)
        elif kind in ("kill at", "freeze at"):
            self._arm(str(with_["point"]), partial(self._strike, kind.removesuffix(" at"), seconds))

    def _strike(self, kind: str, seconds: float) -> None:
        if kind == "kill":
            self.parts.kill()
        else:
            self._later(min(LONGEST_FREEZE, seconds), self.parts.freeze())

    def _arm(self, point: str, what: Callable[[], object]) -> None:
        """Arm a fault for a point. If the point cannot be observed from outside, do it at once."""
        if point in POINTS:
            self._armed.append((POINTS[point], what))
        else:
            what()

    def _at_point(self, point: str) -> None:
        """Execute an armed fault. The watch's thread calls this a moment after the point."""
        for entry in [entry for entry in self._armed if entry[0] == point][:1]:
            self._armed.remove(entry)
            entry[1]()

    def _look(self) -> None:
        self.parts.keep()
        self._say(held_too_long(self.history.held(), self.parts.disturbed, time.time(), HELD_BOUND))

    def _say(self, found: list[str]) -> None:
        self.violations += [said for said in found if said not in self.violations]

    def _settle(self) -> None:
        """End all faults, and wait until all pods that fit run. Then delete all, and wait until
        everything returns.
        """
        self._armed.clear()
        while self._due:
            self._due.pop()[1]()
        self.parts.heal()
        for node in range(len(self.stage.lab.nodes)):
            self._until(partial(self._done, partial(self.workload.cordon, node, False)))
        self._until(partial(self._done, self.workload.give_up_what_does_not_fit))
        if not self._until(lambda: not self.workload.waiting()):
            self._say([f"{LOST}: pod {name} does not run" for name in self.workload.waiting()])
        for name in [pod["metadata"]["name"] for pod in self.stage.client.list(PODS, namespace="default").items]:
            self.workload.delete(name)
        if not self._until(lambda: not self._left_over()):
            self._say([f"{LEAK}: {what}" for what in self._left_over()])

    def _until(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + SETTLED_WITHIN
        while time.monotonic() < deadline:
            self._look()
            while self._due:  # a freeze that a point began just now
                self._due.pop()[1]()
            with contextlib.suppress(*REFUSALS):
                if condition():
                    return True
            time.sleep(LOOK)
        return False

    @staticmethod
    def _done(what: Callable[[], object]) -> bool:
        what()
        return True

    def _left_over(self) -> list[str]:
        """Return devices that no pod uses, and their objects."""
        did = self.workload.did
        found = [f"device {d['uid']} is {d['state']}" for d in self.stage.emulator.state()["devices"]
                 if d["state"] != "free" and d["uid"] not in did.placed]
        mistaken = len(did.ambiguous)
        objects = [f"ComposableResource {raw['metadata']['name']}"
                   for raw in self.stage.client.list(COMPOSABLE_RESOURCES).items]
        objects += [f"DeviceTaintRule of {name}" for name in DeviceTaints(self.stage.client).placed()]
        claims = self.stage.client.list(CLAIMS, namespace="default").items  # claims of the next run have the same names
        return (found[mistaken:] + (objects if not mistaken else [])
                + [f"ResourceClaim {raw['metadata']['name']}" for raw in claims])

    @property
    def leaves_something(self) -> bool:
        """Return whether the next run needs a new lab.

        If a device that was attached by hand was mistaken for a requested one, its objects stay.
        """
        return bool(self.violations or self.workload.did.ambiguous)

    def _judge(self, effects: list[dict[str, t.Any]]) -> None:
        serials = {d["uid"]: d["serial"] for d in self.stage.emulator.state()["devices"]}
        created = created_requests(self.stage.lab.audit_log, self._audited)
        self._say(judge(effects, serials, self.history, created, self.workload.did))
        for node in self.stage.lab.nodes:
            if not self.workload.did.ambiguous and LOST_LINK in by_hand.kernel_log(self.stage.lab.node_folder(node)):
                self._say([f"{THEFT}: a device was pulled from the bus of {node}"])
        if any("Traceback" in text for text in self.parts.texts):
            self._say([f"{BROKEN}: a controller logged a traceback"])

    def _shows_nothing(self, node: str) -> bool:
        return not by_hand.announced(self.stage.lab, node)

    def _tidy(self) -> None:
        """Return devices that were attached by hand: off the node's bus, out of its slice, off the
        machine.
        """
        lab = self.stage.lab
        for node in lab.nodes:
            folder = lab.node_folder(node)
            for address in by_hand.gpus(folder):
                with contextlib.suppress(FileNotFoundError):  # its node was about to remove it itself
                    (folder / "sys/bus/pci/devices" / address / "remove").write_text("1", encoding="utf-8")
            if by_hand.announced(lab, node):
                by_hand.restart_plugin(lab, node)
        self.stage.emulator.reset()
        for node in lab.nodes:
            lab.processes.wait_until(f"nothing in the slice of {node}", partial(self._shows_nothing, node), 60.0)
            (lab.node_folder(node) / "dev" / "kmsg").unlink(missing_ok=True)


def on_lab(scenarios: Iterator[Scenario]) -> Iterator[tuple[LabOutcome, Stage]]:
    """Yield the outcome of each scenario, all on one lab. Use a new lab after a run that left
    something.
    """
    stage: Stage | None = None
    try:
        for scenario in scenarios:
            stage = stage or Stage(OPTIONS)
            run = LabRun(stage, scenario)
            yield run.run(), stage
            if run.leaves_something:
                stage.close()
                stage = None
    finally:
        if stage:
            stage.close()
