# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one owner of an engine's threads: whoever needs one asks here, and all end together."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

Done = t.TypeVar("Done")


class Stopped(RuntimeError):
    """The threads were stopped: this engine begins nothing more."""


class Background:
    """Writes that nobody waits for: some at a time. What they raise is lost, so they must handle it themselves."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    def submit(self, work: Callable[..., object], *args: object) -> None:
        """Run ``work(*args)`` some time soon; never after the threads were stopped."""
        try:
            self._executor.submit(work, *args)
        except RuntimeError:  # stopped meanwhile
            return


class Threads:
    """Starts threads and pools by name, and ends them. Thread-safe."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._executors: list[ThreadPoolExecutor] = []
        self._over = False

    def start(self, target: Callable[[], None], name: str) -> None:
        """Run ``target`` in a thread of its own, until it returns by itself."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def executor(self, size: int, name: str) -> ThreadPoolExecutor:
        """A pool of at most ``size`` threads, whose futures somebody reads."""
        made = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._executors.append(made)
        if self._over:
            made.shutdown()
        return made

    def of_fabrics(self, size: int, name: str) -> FabricExecutors:
        """A pool of at most ``size`` threads for each fabric."""
        return FabricExecutors(self, size, name)

    def background(self, size: int, name: str) -> Background:
        """A pool of at most ``size`` threads for writes that nobody waits for."""
        return Background(self.executor(size, name))

    def cancel(self) -> None:
        """Begin nothing more in any pool; what runs goes on."""
        self._over = True
        for executor in self._executors:
            executor.shutdown(wait=False, cancel_futures=True)

    def stop(self, patience: float) -> None:
        """The same, and wait up to ``patience`` seconds for each thread that was started here."""
        self.cancel()
        for thread in self._threads:
            thread.join(patience)


class FabricExecutors:
    """A pool of threads for each fabric: requests that hang on one take no thread of another. Thread-safe."""

    def __init__(self, threads: Threads, size: int, name: str) -> None:
        self._threads, self._size, self._name = threads, size, name
        self._executors: dict[int | None, ThreadPoolExecutor] = {}
        self._lock = threading.Lock()

    def submit(self, fabric: int | None, work: Callable[..., Done], *args: t.Any) -> Future[Done]:
        """Run ``work(*args)`` in the pool of a fabric; None is that of machines without one. Raises RuntimeError once
        the threads were stopped."""
        with self._lock:
            if fabric not in self._executors:
                self._executors[fabric] = self._threads.executor(self._size, f"{self._name}-{fabric}")
            return self._executors[fabric].submit(work, *args)

    def cancel(self) -> None:
        """Begin nothing more in any of these pools; what runs goes on."""
        with self._lock:
            for executor in self._executors.values():
                executor.shutdown(wait=False, cancel_futures=True)


def run_all(executor: ThreadPoolExecutor, work: list[Callable[[], object]]) -> None:
    """Run everything at the same time; the first error is raised after all have ended. Raises Stopped, also for what
    had not begun by then."""
    try:
        waiting: list[Future[object]] = [executor.submit(each) for each in work]
    except RuntimeError as ended:
        raise Stopped(str(ended)) from None
    errors = [error for future in waiting if (error := _error(future))]
    if errors:
        raise errors[0]


def _error(future: Future[object]) -> BaseException | None:
    """What went wrong, once it has ended."""
    try:
        return future.exception()
    except CancelledError:
        return Stopped("it was not begun")
