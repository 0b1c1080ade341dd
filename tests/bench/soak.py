# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods come and go for a long time: whether memory stays, whether work piles up, and what one pod
costs.

Arrivals and lifetimes are random from a fixed seed. Devices are returned and attached again all the
time, since the hold time is short and the pool has twice the devices of the present pods.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import statistics
import sys
import time
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.tests.bench import audit, measure
from ansible_collections.composable.infra.tests.bench.figures import quantiles
from ansible_collections.composable.infra.tests.bench.process import cpu, rss, transferred
from ansible_collections.composable.infra.tests.bench.reduce import CONTROLLER
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, delete_all, holds_new_pods

NODES, DEVICES, SEED, SAMPLE_SECONDS = 20, 60, 1, 10.0
# Pods per second, and the shortest and longest lifetime in seconds: about 25 pods at a time. With
# this many, most data that is kept of some thousand objects reaches its limit.
RATE, LIFE = 2.0, (5.0, 20.0)
OPTIONS: t.Final = StageOptions(nodes=NODES, devices={A100: DEVICES}, attach=1.0, detach=0.5, hold=5.0,
                                attach_timeout=60.0, announce=0.5, audit=True, handover="gated")


@dataclass(frozen=True, slots=True)
class Sample:
    """``rss``: MiB of the controller. ``waiting``: pods that do not run yet."""

    seconds: float
    rss: float
    waiting: int


@dataclass
class Arrivals:
    """Creates a pod at each moment that ``rng`` draws, and deletes it at the end of its life."""

    stage: Stage
    rng: random.Random
    names: list[str] = field(default_factory=list)
    _next: float = 0.0
    _ends: list[tuple[float, str]] = field(default_factory=list)

    def due(self) -> float:
        """Return when the next action is due."""
        return min(self._next, self._ends[0][0]) if self._ends else self._next

    def act(self, now: float) -> None:
        """Do what is due."""
        while self._ends and self._ends[0][0] <= now:
            self.stage.delete_pod(heapq.heappop(self._ends)[1])
        if self._next <= now:
            name = f"soak-{len(self.names)}"
            self.stage.pod(name, A100)
            self.names.append(name)
            heapq.heappush(self._ends, (now + self.rng.uniform(*LIFE), name))
            self._next = now + self.rng.expovariate(RATE)


def run(minutes: float) -> list[dict[str, t.Any]]:
    """Return one row. Raise RuntimeError if a device, an object or a pod is left at the end."""
    with Stage(OPTIONS) as stage:
        process = front_doors.controller(stage)
        try:
            measure.wait(lambda: all_free(stage) and holds_new_pods(stage), 60, "pools and gates are there")
            return [_soak(stage, process, minutes)]
        finally:
            process.stop()


def _soak(stage: Stage, process: front_doors.Process, minutes: float) -> dict[str, t.Any]:
    began, used, moved = time.time(), cpu(process.pid), transferred(process.pid)
    arrivals = Arrivals(stage, random.Random(SEED))
    samples = list(_live(stage, process, arrivals, minutes))
    seconds = time.time() - began
    delete_all(stage)
    measure.wait(lambda: all_free(stage), 120, "all devices are back in the pool, and no object is left")
    spent, after = cpu(process.pid) - used, transferred(process.pid)
    requests = Counter(f"{e['verb']} {e['objectRef']['resource']}" for e in audit.requests_of(
        stage.lab.audit_log, CONTROLLER) if audit.moment(e) > began)
    marks, pods = audit.claim_marks(stage.lab.audit_log, CONTROLLER), len(arrivals.names)
    ran = [marks[name].running - marks[name].created for name in arrivals.names if marks[name].running]
    return {
        "minutes": round(seconds / 60, 1), "pods": pods, "ran": len(ran), "created_to_running_ms": quantiles(ran),
        "rss_mib": _over_time(samples), "most_waiting": max(s.waiting for s in samples),
        "waiting_at_end": statistics.mean(s.waiting for s in samples[-6:]),
        "cpu_ms_per_pod": 1000 * spent / pods, "requests_per_pod": {k: n / pods for k, n in requests.most_common()},
        "read_kib_per_pod": (after[0] - moved[0]) / pods / 1024,
        "written_kib_per_pod": (after[1] - moved[1]) / pods / 1024}


def _live(stage: Stage, process: front_doors.Process, arrivals: Arrivals, minutes: float) -> t.Iterator[Sample]:
    began = time.monotonic()
    end, sample_at = 60 * minutes, 0.0
    while (now := time.monotonic() - began) < end:
        arrivals.act(now)
        if now >= sample_at:
            sample_at = now + SAMPLE_SECONDS
            yield _sample(stage, process, now)
            _tell(f"\r{now / 60:.1f} of {minutes:g} minutes, {len(arrivals.names)} pods ")
        time.sleep(max(0.0, min(arrivals.due(), sample_at, end) - (time.monotonic() - began)))
    _tell("\n")


def _sample(stage: Stage, process: front_doors.Process, now: float) -> Sample:
    waiting = stage.client.list(PODS, namespace="default", field_selector="status.phase=Pending").items
    return Sample(now, rss(process.pid), len(waiting))


def _over_time(samples: t.Sequence[Sample]) -> list[float]:
    """Return the median of each tenth of the time, in MiB."""
    size = max(1, len(samples) // 10)
    return [round(statistics.median(s.rss for s in samples[i:i + size]), 1) for i in range(0, len(samples), size)][:10]


def _tell(text: str) -> None:
    if os.isatty(sys.stderr.fileno()):
        print(text, end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]))))
