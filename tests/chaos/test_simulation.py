# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual clock, and threads that are killed and frozen on it."""

from __future__ import annotations

import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from ansible_collections.composable.infra.plugins.module_utils.runtime import batcher, threads, work_queue
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.patching import running
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation, Stuck


def test_hours_pass_at_once(simulation: Simulation) -> None:
    began = time.monotonic()
    simulation.sleep(10 * 3600.0)
    assert simulation.now >= 10 * 3600.0
    assert time.monotonic() - began < 60


def test_each_is_woken_at_its_time(simulation: Simulation) -> None:
    seen: list[tuple[str, int]] = []

    def wait(name: str, seconds: float) -> None:
        simulation.sleep(seconds)
        seen.append((name, round(simulation.now)))

    for name, seconds in (("late", 9.0), ("early", 2.0), ("middle", 5.0)):
        simulation.spawn(simulation.outside, name, partial(wait, name, seconds))
    simulation.sleep(10.0)
    assert seen == [("early", 2), ("middle", 5), ("late", 9)]


@pytest.mark.parametrize("way", ["killed", "frozen"])
def test_process_does_nothing_more(simulation: Simulation, way: str) -> None:
    seen: list[float] = []
    ended: list[bool] = []
    process = Process("p")

    def work() -> None:
        try:
            while True:
                simulation.sleep(1.0)
                seen.append(simulation.now)
        finally:
            ended.append(True)

    task = simulation.spawn(process, "work", work)
    simulation.sleep(3.5)
    (simulation.kill if way == "killed" else simulation.freeze)(process)
    simulation.sleep(10.0)
    assert len(seen) == 3
    assert (task.ended, ended) == ((True, [True]) if way == "killed" else (False, []))
    simulation.thaw(process)
    simulation.sleep(0.5)
    assert len(seen) == (3 if way == "killed" else 4)
    simulation.close([process])
    assert task.ended


def test_killed_process_lets_its_locks_go(simulation: Simulation) -> None:
    lock, process = stand_ins.Lock(), Process("p")

    def work() -> None:
        with lock:
            simulation.sleep(100.0)

    for _unused in range(2):
        simulation.spawn(process, "work", work)
    simulation.sleep(1.0)
    simulation.kill(process)
    simulation.sleep(1.0)
    assert not lock.locked()
    assert simulation.failures == []


def test_one_at_a_time_has_a_lock(simulation: Simulation) -> None:
    lock, inside = stand_ins.Lock(), [0]
    most: list[int] = []

    def work() -> None:
        with lock:
            inside[0] += 1
            most.append(inside[0])
            simulation.sleep(1.0)
            inside[0] -= 1

    tasks = [simulation.spawn(simulation.outside, "work", work) for _unused in range(5)]
    assert all(simulation.join(task, 60.0) for task in tasks)
    assert most == [1] * 5


def test_error_that_nobody_catches_is_told(simulation: Simulation) -> None:
    def work() -> None:
        raise LookupError("lost")

    simulation.spawn(simulation.outside, "work", work)
    simulation.sleep(1.0)
    assert simulation.failures == ["outside/work: LookupError: lost"]


def test_wait_that_cannot_end_is_told(simulation: Simulation) -> None:
    with pytest.raises(Stuck):
        stand_ins.Event().wait()


def test_set_clock_moves_the_wall_clock_of_its_process_only(simulation: Simulation) -> None:
    seen: dict[str, tuple[float, float]] = {}
    process = Process("p")
    process.clock_offset = -30.0

    def read(name: str) -> None:
        seen[name] = stand_ins.Time.time(), stand_ins.Time.monotonic()

    simulation.spawn(process, "p", lambda: read("p"))
    simulation.spawn(simulation.outside, "q", lambda: read("q"))
    simulation.sleep(1.0)
    assert seen["q"][0] - seen["p"][0] == pytest.approx(30.0, abs=0.01)
    assert seen["q"][1] - seen["p"][1] == pytest.approx(0.0, abs=0.01)


def _of_the_engine() -> list[t.Any]:
    queue, pools = vars(work_queue), vars(threads)
    return [queue["time"], queue["threading"], pools["ThreadPoolExecutor"], batcher.Batcher.__init__.__defaults__]


def test_engine_lives_on_the_virtual_clock_and_afterwards_on_the_real_one() -> None:
    real = _of_the_engine()
    simulation = Simulation(1)
    with running(simulation):
        queue: work_queue.WorkQueue[str] = work_queue.WorkQueue()
        queue.add_at("key", stand_ins.Time.time() + 3600.0)
        assert queue.get() == "key"
        assert simulation.now == pytest.approx(3600.0, abs=1.0)
        assert batcher.Batcher(1.0, 2.0).note() == pytest.approx(stand_ins.EPOCH + 3601.0, abs=1.0)
    assert real == _of_the_engine() == [time, threading, ThreadPoolExecutor, (time.time,)]


def test_pool_runs_so_many_at_a_time(simulation: Simulation) -> None:
    pool = stand_ins.ThreadPoolExecutor(2)
    futures = [pool.submit(simulation.sleep, 10.0) for _unused in range(4)]
    simulation.sleep(11.0)
    assert [future.done() for future in futures] == [True, True, False, False]
    with pytest.raises(TimeoutError):
        futures[3].result(0.5)
    pool.shutdown()
    with pytest.raises(RuntimeError):
        pool.submit(simulation.sleep, 1.0)
    assert futures[3].result() is None
