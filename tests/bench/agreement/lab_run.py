# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods come to a lab at random and go again; what became of each of them is read from the API server's audit log."""

from __future__ import annotations

import random
import time
import typing as t
from dataclasses import dataclass, field

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture as captured
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.tests.bench import measure
from ansible_collections.composable.infra.tests.bench.agreement.compare import Json, compared
from ansible_collections.composable.infra.tests.bench.agreement.observed import Recording, recording
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, delete_all, holds_new_pods

NODES, DEVICES, SEED = 10, 30, 1
# Pods per second, the share that asks for two devices, and seconds that each runs at least and at most: in the mean
# 24 of the 30 devices are asked for, so that now and then a pod waits for another one's.
RATE, TWO, LIFE = 0.36, 0.2, (20.0, 90.0)
# Before the capture, so that it has timelines; and how often it is looked which pods run.
WARM_UP, LOOK = 180.0, 0.25
OPTIONS: t.Final = StageOptions(nodes=NODES, devices={A100: DEVICES}, attach=1.0, detach=0.5, hold=5.0,
                                attach_timeout=60.0, announce=0.5, audit=True, handover="gated",
                                extra={"unserved": "wait"})


@dataclass
class Crowd:
    """Creates a pod at each moment that ``rng`` draws, and deletes it when it has run for as long as was drawn."""

    stage: Stage
    rng: random.Random
    lifetimes: dict[str, float] = field(default_factory=dict)
    _next: float = 0.0
    _ends: dict[str, float] = field(default_factory=dict)

    def act(self, now: float) -> None:
        """Do what is due."""
        while self._next <= now:
            name = f"pod-{len(self.lifetimes)}"
            self.lifetimes[name] = self.rng.uniform(*LIFE)
            self.stage.pod(name, A100, 2 if self.rng.random() < TWO else 1)
            self._next += self.rng.expovariate(RATE)
        for name in sorted(name for name, end in self._ends.items() if end <= now):
            self.stage.delete_pod(name)
            del self._ends[name]

    def look(self, now: float) -> None:
        """See which pods run; each runs from now on for its lifetime."""
        running = self.stage.client.list(PODS, namespace="default", field_selector="status.phase=Running").items
        for name in (raw["metadata"]["name"] for raw in running):
            if name in self.lifetimes and name not in self._ends:
                self._ends[name] = now + self.lifetimes[name]


def run(minutes: float) -> list[Json]:
    """One row. RuntimeError when a device, an object or a pod is left over at the end."""
    capture, found = recorded(minutes)
    return [compared(capture, found, DEVICES, OPTIONS.detach)]


def recorded(minutes: float) -> tuple[Capture, Recording]:
    """A capture of a lab that is in use, and what became of those who came in the minutes after it."""
    with Stage(OPTIONS) as stage:
        process = front_doors.controller(stage)
        try:
            measure.wait(lambda: all_free(stage) and holds_new_pods(stage), 60, "pools and gates are there")
            return _watched(stage, minutes)
        finally:
            process.stop()


def _watched(stage: Stage, minutes: float) -> tuple[Capture, Recording]:
    crowd, began = Crowd(stage, random.Random(SEED)), time.monotonic()
    _live(crowd, began, WARM_UP)
    capture = captured.take(stage.client, EngineConfig.load(str(stage.config_path)))
    end = capture.taken + 60 * minutes
    _live(crowd, began, time.monotonic() - began + end - time.time())
    found = recording(stage.lab.audit_log, capture.taken, end, crowd.lifetimes)
    delete_all(stage)
    measure.wait(lambda: all_free(stage), 120, "all devices are back in the pool, and no object is left")
    return capture, found


def _live(crowd: Crowd, began: float, until: float) -> None:
    while (now := time.monotonic() - began) < until:
        crowd.act(now)
        crowd.look(now)
        time.sleep(min(LOOK, max(0.0, until - now)))
