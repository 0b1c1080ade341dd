# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads on a virtual clock. One runs at a time. Its time and a seeded random number decide which
is next.

A task is a real thread that waits for its turn, so the tested code needs no change. It gives up its
turn only if it would block. A run has no other source of chance than its seed.
"""

from __future__ import annotations

import heapq
import random
import threading
import typing as t
from collections.abc import Callable


class Killed(BaseException):
    """Raised in each task of a killed process. The task unwinds, and none of its requests has an
    effect.
    """


class Stuck(Exception):
    """Every task waits for another one."""


class Process:
    """Tasks that are killed and frozen together. ``clock_offset``: offset of its wall clock, in
    seconds.
    """

    def __init__(self, name: str) -> None:
        self.name, self.clock_offset = name, 0.0
        self.dead = self.frozen = False
        self.waiting: list[tuple[Task, int]] = []


class Task:
    """A thread of a process."""

    __slots__ = ("carrier", "ended", "function", "name", "number", "process", "token", "watchers", "woken")

    def __init__(self, process: Process, name: str, number: int, function: Callable[[], object]) -> None:
        self.process, self.name, self.number, self.function = process, name, number, function
        self.carrier: _Carrier | None = None
        self.token, self.woken, self.ended = 0, False, False
        self.watchers: list[Task] = []


class _Carrier:
    """A real thread that runs one task after the other, because starting a thread costs more than a
    turn.
    """

    idle: t.ClassVar[list[_Carrier]] = []

    def __init__(self) -> None:
        self.go = threading.Lock()
        self.go.acquire()
        self.work: list[tuple[Simulation, Task]] = []
        threading.Thread(target=self._run, name="chaos-carrier", daemon=True).start()

    @classmethod
    def take(cls) -> _Carrier:
        return cls.idle.pop() if cls.idle else cls()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            simulation, task = self.work.pop()
            simulation.carry(task, self)


class Simulation:
    """``now``: seconds since the beginning. ``failures``: uncaught errors of tasks."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self.now, self.turns = 0.0, 0
        self.failures: list[str] = []
        self._heap: list[tuple[float, float, int, Task, int]] = []
        self._count = 0
        self._tasks: dict[int, Task] = {}
        self.outside = Process("outside")
        self._main = Task(Process("main"), "main", 0, lambda: None)
        self._main.carrier = t.cast(_Carrier, _Main())
        self.current = self._main
        self._deadlock = False

    def spawn(self, process: Process, name: str, function: Callable[[], object], delay: float = 0.0) -> Task:
        """Start a task after ``delay`` seconds."""
        self._count += 1
        task = Task(process, name, self._count, function)
        self._tasks[task.number] = task
        self._appoint(task, self.now + delay)
        return task

    def park(self, timeout: float | None = None) -> bool:
        """Wait until another task wakes this one. Return False if the time was over before."""
        task = self.current
        if task.process.dead:
            raise Killed
        task.token += 1
        task.woken = False
        if timeout is not None:
            self._appoint(task, self.now + max(0.0, timeout))
        self._switch(task)
        if task.process.dead:
            raise Killed
        return task.woken

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.park(seconds)

    def wake(self, task: Task) -> None:
        """End the wait of a task."""
        if not (task.ended or task.woken):
            task.woken = True
            self._appoint(task, self.now)

    def freeze(self, process: Process) -> None:
        """Give the tasks of a process no turn until it is thawed."""
        process.frozen = True

    def thaw(self, process: Process) -> None:
        """Let the tasks of a process continue. All that became due in the meantime run at once."""
        process.frozen = False
        waiting, process.waiting = process.waiting, []
        for task, token in waiting:
            if task.token == token:
                self._appoint(task, self.now)

    def kill(self, process: Process) -> None:
        """End the tasks of a process where they are."""
        process.dead = True
        self.thaw(process)
        for task in self._tasks_of(process):
            task.woken = False
            self._appoint(task, self.now)

    def join(self, task: Task, timeout: float | None = None) -> bool:
        """Wait for the end of a task."""
        until = None if timeout is None else self.now + timeout
        while not task.ended:
            left = None if until is None else until - self.now
            if left is not None and left <= 0:
                return False
            task.watchers.append(self.current)
            self.park(left)
        return True

    def close(self, processes: t.Iterable[Process]) -> None:
        """End every task of these processes."""
        for process in processes:
            self.kill(process)
        for _unused in range(100_000):
            if not self._tasks:
                return
            self.sleep(0.001)
        raise Stuck(f"{len(self._tasks)} tasks do not end")

    def carry(self, task: Task, carrier: _Carrier) -> None:
        """Run a task in the calling real thread, which then waits for another task."""
        try:
            if not task.process.dead:
                task.function()
        except Killed:
            pass
        except BaseException as error:
            self.failures.append(f"{task.process.name}/{task.name}: {type(error).__name__}: {error}")
        task.ended = True
        del self._tasks[task.number]
        for watcher in task.watchers:
            self.wake(watcher)
        _Carrier.idle.append(carrier)
        self._hand_over(self._next())

    def _tasks_of(self, process: Process) -> list[Task]:
        return [task for task in self._tasks.values() if task.process is process]

    def _appoint(self, task: Task, when: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (when, self.rng.random(), self._count, task, task.token))

    def _switch(self, task: Task) -> None:
        following, carrier = self._next(), task.carrier
        assert carrier is not None
        if following is not task:
            self._hand_over(following)
            carrier.go.acquire()
        if self._deadlock:
            self._deadlock = False
            raise Stuck("every task waits for another")

    def _hand_over(self, following: Task) -> None:
        self.current = following
        if following.carrier is None:
            following.carrier = _Carrier.take()
            following.carrier.work.append((self, following))
        following.carrier.go.release()

    def _next(self) -> Task:
        while self._heap:
            when, _die, _count, task, token = heapq.heappop(self._heap)
            if task.ended or task.token != token:
                continue
            if task.process.frozen and not task.process.dead:
                task.process.waiting.append((task, token))
                continue
            task.token += 1
            self.now = max(self.now, when)
            self.turns += 1
            self.current = task
            return task
        self._deadlock = True
        return self._main


class _Main:
    """The thread that calls from outside."""

    def __init__(self) -> None:
        self.go = threading.Lock()
        self.go.acquire()
        self.work: list[tuple[Simulation, Task]] = []
