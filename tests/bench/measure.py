# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one scenario on a fresh stage: create pods, wait until they run, compute the figures."""

from __future__ import annotations

import os
import time
import typing as t
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS, SLICES
from ansible_collections.composable.infra.tests.bench import reduce
from ansible_collections.composable.infra.tests.bench.figures import Figures, Scenario
from ansible_collections.composable.infra.tests.bench.process import children_cpu, cpu, peak_rss
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, delete_all, holds_new_pods

THREADS = 8
# Seconds, longer than kube-scheduler needs for its own run with the devices of the previous run.
HOLD = 20.0
LOOP = 1_000_000
# Seconds between two reads, and more for each pod: an answer has all running pods, and the API
# server has other work.
LOOK, LOOK_PER_POD = 0.25, 0.002
# The default of the agents. The lab's own value is shorter, and a busy machine would restart
# plugins again.
ANNOUNCE_PATIENCE = 120.0


def run(scenario: Scenario) -> Figures:
    """Run a scenario once. Raise RuntimeError if a pod did not run in time."""
    options = StageOptions(nodes=scenario.nodes, devices={A100: scenario.pods * scenario.gpus},
                           attach=scenario.attach, announce=scenario.announce, attach_timeout=180.0, audit=True,
                           announce_patience=ANNOUNCE_PATIENCE,
                           handover="gated" if scenario.gated else "direct" if scenario.direct else "reschedule",
                           hold=HOLD if scenario.twice else 600.0, extra={"allocation_policy": scenario.policy})
    with Stage(options) as stage:
        process = front_doors.controller(stage)
        try:
            return _on(stage, scenario, process)
        finally:
            process.stop()


def _on(stage: Stage, scenario: Scenario, process: front_doors.Process) -> Figures:
    wait(lambda: all_free(stage), 60, "pools are published")
    if scenario.gated:
        wait(lambda: holds_new_pods(stage), 60, "new pods are gated")
    stage.client.warm(THREADS)
    names, first = _names("pod", scenario), 0.0
    if scenario.twice:
        names = _names("first", scenario)
        first = _burst(stage, scenario, process, names).overhead
        delete_all(stage)
        wait(lambda: all_free(stage), 120 + HOLD, "all devices are back in the pool")
        names = _names("pod", scenario)
    figures = _burst(stage, scenario, process, names)
    figures.first_overhead = first
    if scenario.direct:
        delete_all(stage)
        wait(lambda: idle(stage) == scenario.pods * scenario.gpus, 60, "all devices are idle on their nodes")
        again = _names("again", scenario)
        _create(stage, again, lambda name: stage.pod(name, A100, scenario.gpus))
        _wait_for_pods(stage, again, 120, "all pods run with devices that are there")
        reduce.alone(stage, again, figures)
    if scenario.alone:
        delete_all(stage)
        alone = _names("alone", scenario)
        _create(stage, alone, lambda name: stage.pod(name, A100, scenario.gpus, gated=False))
        _wait_for_pods(stage, alone, 300, "all pods run that the scheduler places alone")
        reduce.alone(stage, alone, figures)
    return figures


def _names(prefix: str, scenario: Scenario) -> list[str]:
    return [f"{prefix}-{i}" for i in range(scenario.pods)]


def _burst(stage: Stage, scenario: Scenario, process: front_doors.Process, names: Sequence[str]) -> Figures:
    nodes = stage.lab.nodes
    pinned = {name: nodes[i % len(nodes)] if scenario.spread else None for i, name in enumerate(names)}
    loop, used, others, begin = _loop(), cpu(process.pid), _others(stage), time.time()
    _create(stage, names, lambda name: stage.pod(name, A100, scenario.gpus, pinned[name]))
    _wait_for_pods(stage, names, 120 + len(names) / 2 + 3 * scenario.attach, "all pods run")
    figures = Figures(scenario, loop_seconds=loop, cpu_seconds=round(cpu(process.pid) - used, 3),
                      rss_mib=peak_rss(process.pid),
                      others={name: round(seconds - others[name], 2) for name, seconds in _others(stage).items()})
    how = reduce.gated if scenario.gated else reduce.direct if scenario.direct else reduce.rescheduled
    how(stage, names, begin, figures)
    return figures


def _others(stage: Stage) -> dict[str, float]:
    """Return the processor seconds so far of all processes of a lab, and of this one."""
    records = list(stage.lab.processes.records())
    return {"emulated CDI Manager": cpu(stage.emulator.pid), "bench": cpu(os.getpid()),
            **{record.name: cpu(record.pid) for record in records},
            **{f"commands of {record.name}": children_cpu(record.pid) for record in records}}


def _create(stage: Stage, names: Sequence[str], create: t.Callable[[str], None]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(create, names))


def _wait_for_pods(stage: Stage, names: Sequence[str], seconds: float, what: str) -> None:
    wait(lambda: running(stage) >= len(names), seconds, what, max(LOOK, LOOK_PER_POD * len(names)))


def wait(condition: t.Callable[[], bool], seconds: float, what: str, every: float = LOOK) -> None:
    """Wait until the condition is true. Check every ``every`` seconds. Raise RuntimeError after
    ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def idle(stage: Stage) -> int:
    """Return the number of devices that nodes publish as their own."""
    return sum(len(item["spec"].get("devices") or ()) for item in stage.client.list(SLICES).items
               if item["spec"].get("nodeName"))


def running(stage: Stage) -> int:
    """Return the number of running pods."""
    return len(stage.client.list(PODS, namespace="default", field_selector="status.phase=Running").items)


def _loop() -> float:
    """Measure the speed of the machine: seconds of ten million additions in Python."""
    began, total = time.perf_counter(), 0
    while total < LOOP:
        total += 1
    return (time.perf_counter() - began) * 10_000_000 / LOOP
