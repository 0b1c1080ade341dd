# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for the modules threading, time and concurrent.futures, on the virtual clock of the
running simulation.

They behave like the real ones, as far as the engine uses them, but a wait ends by the virtual
clock.
"""

from __future__ import annotations

import time as real_time
import typing as t
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Killed, Simulation, Task

# The time at which a simulation begins, in epoch seconds, and by the monotonic clock.
EPOCH = 1_800_000_000.0
MONOTONIC = 1000.0
# The time that reading a clock takes. No two moments are the same, and a task that waits in a loop
# makes progress.
_TICK = 1e-6
_running: list[Simulation] = []


def simulation() -> Simulation:
    """Return the running simulation."""
    return _running[-1]


def use(found: Simulation | None) -> None:
    """Set the running simulation, None for none."""
    _running.clear()
    if found is not None:
        _running.append(found)


class Time:
    """Replaces the module time."""

    CLOCK_BOOTTIME = real_time.CLOCK_MONOTONIC
    gmtime, strftime = staticmethod(real_time.gmtime), staticmethod(real_time.strftime)

    @staticmethod
    def time() -> float:
        found = simulation()
        found.now += _TICK
        return EPOCH + found.now + found.current.process.clock_offset

    @staticmethod
    def monotonic() -> float:
        found = simulation()
        found.now += _TICK
        return MONOTONIC + found.now

    @classmethod
    def clock_gettime(cls, _clock: int) -> float:
        return cls.monotonic()

    @staticmethod
    def sleep(seconds: float) -> None:
        simulation().sleep(seconds)


class TimeElsewhere(Time):
    """The clock of another machine, which is never set."""

    @staticmethod
    def time() -> float:
        found = simulation()
        found.now += _TICK
        return EPOCH + found.now


class RLock:
    """Replaces threading.RLock."""

    reentrant = True

    def __init__(self) -> None:
        self._owner: Task | None = None
        self._depth = 0
        self._waiters: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        found = simulation()
        me = found.current
        if self._owner is me and self.reentrant:
            self._depth += 1
            return True
        until = None if timeout < 0 else found.now + timeout
        while self._owner is not None:
            left = None if until is None else until - found.now
            if not blocking or (left is not None and left <= 0):
                return False
            self._waiters.append(me)
            found.park(left)
        self._owner, self._depth = me, 1
        return True

    def release(self) -> None:
        if self._owner is not simulation().current:
            if simulation().current.process.dead:
                return  # it was killed while it waited for the lock
            raise RuntimeError("release of a lock of another task")
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            if self._waiters:
                simulation().wake(self._waiters.popleft())

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_unused: object) -> None:
        self.release()


class Lock(RLock):
    """Replaces threading.Lock."""

    reentrant = False


class Condition:
    """Replaces threading.Condition."""

    def __init__(self, lock: RLock | None = None) -> None:
        self._lock = lock or RLock()
        self._waiters: deque[Task] = deque()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_unused: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        found = simulation()
        self._waiters.append(found.current)
        self._lock.release()
        woken = found.park(timeout)
        if not woken and found.current in self._waiters:
            self._waiters.remove(found.current)
        self._lock.acquire()
        return woken

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> bool:
        until = None if timeout is None else simulation().now + timeout
        while not predicate():
            left = None if until is None else until - simulation().now
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        for _unused in range(min(n, len(self._waiters))):
            simulation().wake(self._waiters.popleft())

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class Event:
    """Replaces threading.Event."""

    def __init__(self) -> None:
        self._set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiters, self._waiters = self._waiters, []
        for task in waiters:
            simulation().wake(task)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        found = simulation()
        if found.current.process.dead:
            raise Killed
        until = None if timeout is None else found.now + timeout
        while not self._set:
            left = None if until is None else until - found.now
            if left is not None and left <= 0:
                break
            self._waiters.append(found.current)
            found.park(left)
        return self._set


class Thread:
    """Replaces threading.Thread. It belongs to the process of the task that made it."""

    def __init__(self, target: Callable[..., object], name: str = "", daemon: bool = True,
                 args: tuple[t.Any, ...] = ()) -> None:
        self._target, self.name, self._args = target, name, args
        self._task: Task | None = None
        self._process = simulation().current.process

    @classmethod
    def current(cls) -> Thread:
        """Return the running thread."""
        found = cls(lambda: None)
        found._task = simulation().current
        return found

    def start(self) -> None:
        self._task = simulation().spawn(self._process, self.name, lambda: self._target(*self._args))

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.ended

    def join(self, timeout: float | None = None) -> None:
        if self._task is not None:
            simulation().join(self._task, timeout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thread) and self._task is other._task

    def __hash__(self) -> int:
        return id(self)


class Threading:
    """Replaces the module threading."""

    Thread, Event, Condition, Lock, RLock = Thread, Event, Condition, Lock, RLock

    @staticmethod
    def get_ident() -> int:
        return simulation().current.number

    @staticmethod
    def current_thread() -> object:
        return Thread.current()


class Future:
    """Replaces concurrent.futures.Future."""

    def __init__(self) -> None:
        self._done = Event()
        self._result: t.Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], object]] = []

    def done(self) -> bool:
        return self._done.is_set()

    def result(self, timeout: float | None = None) -> t.Any:
        if error := self.exception(timeout):
            raise error
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self._done.wait(timeout):
            raise TimeoutError
        return self._error

    def add_done_callback(self, function: Callable[[Future], object]) -> None:
        if self.done():
            function(self)
        else:
            self._callbacks.append(function)

    def finish(self, result: t.Any, error: BaseException | None) -> None:
        """Set the result or the error."""
        self._result, self._error = result, error
        self._done.set()
        for function in self._callbacks:
            function(self)


class ThreadPoolExecutor:
    """Replaces concurrent.futures.ThreadPoolExecutor."""

    def __init__(self, max_workers: int, thread_name_prefix: str = "pool") -> None:
        self._size, self._name = max_workers, thread_name_prefix
        self._process = simulation().current.process
        self._queue: deque[tuple[Future, Callable[..., t.Any], tuple[t.Any, ...]]] = deque()
        self._running, self._closed = 0, False

    def submit(self, work: Callable[..., t.Any], *args: t.Any) -> Future:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self._queue.append((future, work, args))
        if self._running < self._size:
            self._running += 1
            simulation().spawn(self._process, self._name, self._work)
        return future

    def map(self, work: Callable[[t.Any], t.Any], keys: Iterable[t.Any]) -> Iterator[t.Any]:
        futures = [self.submit(work, key) for key in keys]
        return (future.result() for future in futures)

    def __enter__(self) -> ThreadPoolExecutor:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.shutdown()

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        self._closed = True
        if cancel_futures:
            self._queue.clear()

    def _work(self) -> None:
        try:
            while self._queue:
                future, work, args = self._queue.popleft()
                try:
                    result = work(*args)
                except Exception as error:
                    future.finish(None, error)
                else:
                    future.finish(result, None)
        finally:
            self._running -= 1
