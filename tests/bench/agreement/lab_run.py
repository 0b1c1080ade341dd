# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods come to a lab at random and go again; what became of each of them is read from the API server's audit log."""

from __future__ import annotations

import json
import random
import sys
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture as captured
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
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
KEPT: t.Final = Path(__file__).resolve().parents[3] / ".cache" / "whatif"
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

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._ends)

    def look(self, now: float) -> None:
        """See which pods run; each runs from now on for its lifetime."""
        running = self.stage.client.list(PODS, namespace="default", field_selector="status.phase=Running").items
        for name in (raw["metadata"]["name"] for raw in running):
            if name in self.lifetimes and name not in self._ends:
                self._ends[name] = now + self.lifetimes[name]


def run(minutes: float, *, again: bool = False, kept: Path = KEPT) -> list[Json]:
    """One row, marked ``interrupted`` when the minutes were not over. What was recorded stays in ``kept``.

    ``again``: compare that once more, without a lab. RuntimeError when something is left over at the end.
    """
    capture, found = read_kept(kept) if again else recorded(minutes)
    if not found.came:
        raise RuntimeError("no pod came after the capture")
    if not again:
        keep(kept, capture, found)
    row = compared(capture, found, DEVICES, OPTIONS.detach)
    return [{**row, "interrupted": True}] if not again and found.end < 60 * minutes - LOOK else [row]


def keep(kept: Path, capture: Capture, found: Recording) -> None:
    """Write capture and recording."""
    kept.mkdir(parents=True, exist_ok=True)
    capture_file.write(capture, str(kept / "capture.json"))
    (kept / "recording.json").write_text(json.dumps(found.as_document()), encoding="utf-8")


def read_kept(kept: Path) -> tuple[Capture, Recording]:
    """What was recorded last."""
    told = json.loads((kept / "recording.json").read_text(encoding="utf-8"))
    return capture_file.read(str(kept / "capture.json")), Recording.of_document(told)


def recorded(minutes: float) -> tuple[Capture, Recording]:
    """A capture of a lab that is in use, and what became of those who came in the minutes after it, or until Ctrl-C."""
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
    whole = until_interrupted(lambda: _live(crowd, began, time.monotonic() - began + end - time.time()))
    found = recording(stage.lab.audit_log, capture.taken, end if whole else time.time(), crowd.lifetimes)
    if whole:
        delete_all(stage)
        measure.wait(lambda: all_free(stage), 120, "all devices are back in the pool, and no object is left")
    return capture, found


def until_interrupted(work: Callable[[], None]) -> bool:
    """Whether it went on to its end; Ctrl-C ends it, and what there is counts."""
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted: what there is so far is compared", file=sys.stderr, flush=True)
        return False
    return True


def _live(crowd: Crowd, began: float, until: float) -> None:
    """Each minute it is said how far it is."""
    said = -1
    while (now := time.monotonic() - began) < until:
        if (minute := int(now // 60)) > said:
            said = minute
            print(progress(minute, until, crowd), file=sys.stderr, flush=True)
        crowd.act(now)
        crowd.look(now)
        time.sleep(min(LOOK, max(0.0, until - now)))


def progress(minute: int, until: float, crowd: Crowd) -> str:
    """How far it is, in words."""
    return f"minute {minute} of {until / 60:.0f}: {len(crowd.lifetimes)} pods came, {crowd.running} run"
