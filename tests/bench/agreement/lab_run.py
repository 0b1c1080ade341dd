# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods come to a lab at random and leave again. The API server's audit log shows the history of
each.
"""

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
# Pods per second, the share with two devices, and the shortest and longest lifetime in seconds. On
# average 24 of the 30 devices are requested, so that a pod sometimes waits for a device of another
# pod.
RATE, TWO, LIFE = 0.36, 0.2, (20.0, 90.0)
# Seconds before the capture, so that it has timelines, and seconds between two reads of the running
# pods.
WARM_UP, LOOK = 180.0, 0.25
KEPT: t.Final = Path(__file__).resolve().parents[3] / ".cache" / "whatif"
OPTIONS: t.Final = StageOptions(nodes=NODES, devices={A100: DEVICES}, attach=1.0, detach=0.5, hold=5.0,
                                attach_timeout=60.0, announce=0.5, audit=True, handover="gated",
                                extra={"unserved": "wait"})


@dataclass
class Crowd:
    """Creates a pod at each moment that ``rng`` draws, and deletes it after a random time of
    running.
    """

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
        """Return how many pods run."""
        return len(self._ends)

    def look(self, now: float) -> None:
        """Read which pods run. Each runs for its lifetime from now on."""
        running = self.stage.client.list(PODS, namespace="default", field_selector="status.phase=Running").items
        for name in (raw["metadata"]["name"] for raw in running):
            if name in self.lifetimes and name not in self._ends:
                self._ends[name] = now + self.lifetimes[name]


def run(minutes: float, *, again: bool = False, kept: Path = KEPT) -> list[Json]:
    """Return one row, marked ``interrupted`` if it ended early. The recording stays in ``kept``.

    ``again``: compare the last recording once more, without a lab. Raise RuntimeError if something
    is left at the end.
    """
    capture, found = read_kept(kept) if again else recorded(minutes)
    if not found.came:
        raise RuntimeError("no pod came after the capture")
    if not again:
        keep(kept, capture, found)
    row = compared(capture, found, DEVICES, OPTIONS.detach)
    return [{**row, "interrupted": True}] if not again and found.end < 60 * minutes - LOOK else [row]


def keep(kept: Path, capture: Capture, found: Recording) -> None:
    """Write the capture and the recording."""
    kept.mkdir(parents=True, exist_ok=True)
    capture_file.write(capture, str(kept / "capture.json"))
    (kept / "recording.json").write_text(json.dumps(found.as_document()), encoding="utf-8")


def read_kept(kept: Path) -> tuple[Capture, Recording]:
    """Return the last capture and recording."""
    told = json.loads((kept / "recording.json").read_text(encoding="utf-8"))
    return capture_file.read(str(kept / "capture.json")), Recording.of_document(told)


def recorded(minutes: float) -> tuple[Capture, Recording]:
    """Return a capture of a busy lab, and the recording of the time after it.

    The recording ends after ``minutes`` or with Ctrl-C.
    """
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
    """Return whether the work was completed. Ctrl-C ends it, and the results so far count."""
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted: what there is so far is compared", file=sys.stderr, flush=True)
        return False
    return True


def _live(crowd: Crowd, began: float, until: float) -> None:
    """Let pods come and leave, and print the progress each minute."""
    said = -1
    while (now := time.monotonic() - began) < until:
        if (minute := int(now // 60)) > said:
            said = minute
            print(progress(minute, until, crowd), file=sys.stderr, flush=True)
        crowd.act(now)
        crowd.look(now)
        time.sleep(min(LOOK, max(0.0, until - now)))


def progress(minute: int, until: float, crowd: Crowd) -> str:
    """Return the progress in words."""
    return f"minute {minute} of {until / 60:.0f}: {len(crowd.lifetimes)} pods came, {crowd.running} run"
