# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the requests by which the controllers change the cluster for a gated pod, on the virtual
clock. Requests of the node agents are not counted, since the node is a model.

Each bound is a little above what was measured. One more request for each pod fails.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.chaos import workload
from ansible_collections.composable.infra.tests.chaos.invariants import Judge
from ansible_collections.composable.infra.tests.chaos.runs import let_pass
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario
from ansible_collections.composable.infra.tests.chaos.simulation.patching import running
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation
from ansible_collections.composable.infra.tests.chaos.world import World
from ansible_collections.composable.infra.tests.unit.planning.builders import A100

VERBS: t.Final = ("create", "replace", "patch", "delete")
# Each process renews these, with and without pods.
RENEWED: t.Final = ("leases", "gateleases")
SEED = 4
# Virtual seconds: most for each wait, and for the records to be written.
LIMIT, SETTLED = 300.0, 60.0


@dataclass(frozen=True, slots=True)
class Written:
    """Requests for each pod, by verb and kind: until it runs, until a minute later, and from its deletion
    until its device has returned.
    """

    until_it_runs: dict[str, float]
    running: dict[str, float]
    returning: dict[str, float]


class Meter:
    """Counts the changes by the controllers of a world, Events included."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: Counter[str] = Counter()
        world.controllers.events = True
        world.network.at_point = self._note

    def _note(self, point: str, process: Process) -> None:
        when, verb, kind, *_more = *point.split(" "), ""
        if when == "after" and verb in VERBS and kind not in RENEWED and self._world.controllers.of(process):
            self._found[f"{verb} {kind}"] += 1

    def take(self, count: int) -> dict[str, float]:
        """Return the requests since the last call, for each of ``count`` pods."""
        found = {name: round(number / count, 2) for name, number in sorted(self._found.items())}
        self._found.clear()
        return found


def written(count: int, nodes: int, every: float) -> Written:
    """Create ``count`` gated pods, one each ``every`` seconds, let them run, and delete them in the same
    way.
    """
    simulation = Simulation(SEED)
    with running(simulation):
        world = World(simulation, Scenario(SEED, nodes, devices={A100: 2 * count}, replicas=1))
        judge, meter = Judge(world), Meter(world)
        world.start()
        wait(world, judge, lambda: workload.gated(world) and bool(world.server.of("resourceslices")))
        simulation.sleep(SETTLED)
        meter.take(count)
        for number in range(count):
            workload.create_pod(world, f"pod-{number}", "team-a", [("first", A100, 1)], {})
            simulation.sleep(every)
        wait(world, judge, lambda: all(pods.phase(pod) == "Running" for pod in world.server.of("pods")))
        until_it_runs = meter.take(count)
        simulation.sleep(SETTLED)
        later = meter.take(count)
        for number in range(count):
            workload.delete(world, f"pod-{number}", "team-a")
            simulation.sleep(every)
        wait(world, judge, lambda: not judge.left_over())
        simulation.sleep(SETTLED)
        found = Written(until_it_runs, later, meter.take(count))
        simulation.close(world.processes())
        world.manager.close()
    assert judge.violations == []
    return found


def wait(world: World, judge: Judge, condition: Callable[[], bool]) -> None:
    """Let time pass until the condition is true. Fail after ``LIMIT`` seconds."""
    let_pass(world, judge, condition, world.simulation.now + LIMIT)
    assert condition()


@pytest.mark.parametrize(("count", "nodes", "every", "to_run", "in_all", "to_return"), [
    (1, 2, 0.0, 13.5, 15.5, 13.5), (40, 20, 0.0, 9.5, 10.5, 9.0), (20, 10, 0.5, 12.5, 12.5, 11.0)])
def test_requests_for_a_gated_pod(count: int, nodes: int, every: float, to_run: float, in_all: float,
                                  to_return: float) -> None:
    found = written(count, nodes, every)
    assert sum(found.until_it_runs.values()) <= to_run, found
    assert sum(found.until_it_runs.values()) + sum(found.running.values()) <= in_all, found
    assert sum(found.returning.values()) <= to_return, found
