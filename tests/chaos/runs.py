# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run: make a random scenario from a seed, execute it, and judge it."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ansible_collections.composable.infra.tests.chaos import faults, workload
from ansible_collections.composable.infra.tests.chaos.invariants import LEAK, LOST, Judge
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario
from ansible_collections.composable.infra.tests.chaos.simulation.patching import running
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Simulation, Stuck
from ansible_collections.composable.infra.tests.chaos.world import World
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4

# Seconds of virtual time after the last fault in which every pod must run, and then every device
# must be returned.
SETTLED_WITHIN = 300.0
# The same for all Jobs of a queue, one after the other and with the back-off of Kueue.
JOBS_WITHIN = 1500.0
_DO = {**workload.DO, **faults.DO}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``violations``: empty if there are none. ``log``: the events in order. ``lasted``: virtual
    seconds.
    """

    scenario: Scenario
    violations: tuple[str, ...]
    log: tuple[str, ...]
    lasted: float
    seconds: float
    attaches: int
    requests: int


def scenario(seed: int) -> Scenario:
    """Return a random scenario."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 4)
    steps = [*workload.steps(rng, nodes), *faults.steps(rng, nodes)]
    return Scenario(
        seed, nodes, fabrics=rng.choice((1, 1, 2)), devices={A100: rng.randint(2, 6), T4: rng.randint(1, 4)},
        replicas=rng.choice((1, 2)), asynchronous=rng.random() < 0.3, taint_rules=rng.random() < 0.7,
        agents_read_claims=rng.random() < 0.6,
        attach=rng.choice((0.1, 1.0, 4.0)), detach=rng.choice((0.1, 1.0)), hold=rng.choice((0.5, 5.0, 20.0)),
        scan=rng.choice((1.0, 5.0)), lag=rng.choice((0.01, 0.02, 0.3)),
        steps=tuple(sorted(steps, key=lambda step: step.at)), direct=rng.choice(((), (), (T4,), (A100, T4))),
        wired=rng.random() < 0.1 or any(step.kind == "manager lies" for step in steps))


def queue_scenario(seed: int) -> Scenario:
    """Return a random scenario with one queue of Jobs, or two that borrow, beside other pods.

    Every second one has no faults, and all its pods are gated. The scheduler may place a pod of a
    pool on a node that gets no device in time, which is another story.
    """
    base, rng = scenario(seed), random.Random(f"queue {seed}")
    calm = seed % 2 == 0
    others = [step for step in base.steps if step.kind in ("pod", "delete") or (not calm and step.kind in faults.DO)]
    others = [step for step in others if not (calm and step.with_.get("namespace") == "plain")]
    queues = ("main",) if rng.random() < 0.5 else ("main", "other")
    steps = [*others, *workload.jobs(rng, base.devices, queues)]
    return replace(base, direct=() if calm else base.direct, queue=rng.randint(1, 2) * max(base.devices.values()),
                   queues=queues, steps=tuple(sorted(steps, key=lambda step: step.at)))


def run(found: Scenario) -> Outcome:
    """Execute a scenario and judge it."""
    began = time.monotonic()
    logging.getLogger("composable.infra").setLevel(logging.CRITICAL + 1)
    logging.getLogger("ansible_collections.composable.infra").setLevel(logging.CRITICAL + 1)
    simulation = Simulation(found.seed)
    with running(simulation):
        world = World(simulation, found)
        judge = Judge(world)
        try:
            _live(world, judge)
        except Stuck as error:
            judge.say("stuck", str(error))
        log = _log(world)
        simulation.close(world.processes())
        world.manager.close()
    return Outcome(found, tuple(judge.violations), log, simulation.now, time.monotonic() - began,
                   sum(entry.what == "attached" for entry in world.manager.log), world.network.requests)


def _live(world: World, judge: Judge) -> None:
    world.start()
    for step in world.scenario.steps:
        let_pass(world, judge, partial(_is_past, world, step.at), world.scenario.steps[-1].at + 10.0)
        _DO[step.kind](world, step.with_)
    let_pass(world, judge, lambda: False, world.simulation.now + 5.0)
    world.heal()
    until = world.simulation.now + SETTLED_WITHIN
    let_pass(world, judge, lambda: not (judge.waiting() or judge.held()), until)
    for name in judge.waiting():
        judge.say(LOST, f"pod {name} does not run")
    _end_jobs(world, judge)
    for pod in list(world.server.of("pods")):
        workload.delete(world, pod["metadata"]["name"], pod["metadata"]["namespace"])
    let_pass(world, judge, lambda: not judge.left_over(), world.simulation.now + SETTLED_WITHIN)
    for what in judge.left_over():
        judge.say(LEAK, what)
    judge.end()


def _end_jobs(world: World, judge: Judge) -> None:
    """Let other pods end, then wait for all Jobs of the queue."""
    if not world.scenario.queue:
        return
    of_jobs = {(job.namespace, name) for job in world.kueue.jobs for name in job.pods}
    for pod in list(world.server.of("pods")):
        if (pod["metadata"]["namespace"], pod["metadata"]["name"]) not in of_jobs:
            workload.delete(world, pod["metadata"]["name"], pod["metadata"]["namespace"])
    until = world.simulation.now + JOBS_WITHIN
    let_pass(world, judge, lambda: all(job.over for job in world.kueue.jobs), until)
    for job in world.kueue.jobs:
        if not job.over and judge.usable(job.model) >= job.count * job.devices:
            judge.say(LOST, f"job {job.name} is {job.state}: {job.message}")
    if not any(step.kind in faults.DO for step in world.scenario.steps):
        judge.count_attaches()
    world.kueue.stop_all()


def _is_past(world: World, at: float) -> bool:
    return world.simulation.now >= at


def let_pass(world: World, judge: Judge, condition: Callable[[], bool], deadline: float) -> None:
    """Let time pass until the condition is true, or the deadline is over."""
    while not condition() and world.simulation.now < deadline:
        world.simulation.sleep(0.25)
        judge.look()


def _log(world: World) -> tuple[str, ...]:
    lines = [f"{e.at:7.2f} manager: {e.what} {e.machine[:8]} {e.device[:8]} {e.token} {e.process}"
             for e in world.manager.log]
    for slot in sorted(world.controllers.replicas):
        replica = world.controllers.replicas[slot]
        if replica.engine:
            world.controllers.told += [f"{replica.process.name}: {e['time'] - 1_800_000_000:7.2f} {e['reason']} "
                                       f"{e['about']}: {e['message']}" for e in replica.engine.reporter.history]
    return (*lines, *world.controllers.told)
