# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Own all threads of an engine, so that they end together."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

Done = t.TypeVar("Done")


class Stopped(RuntimeError):
    """The threads were stopped, so this engine starts no more work."""


class Background:
    """Runs writes in the background, a few at a time.

    No caller waits for them, so their errors are lost. The writes must handle errors themselves.
    """

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    def submit(self, work: Callable[..., object], *args: object) -> None:
        """Run ``work(*args)`` soon, but not after the threads were stopped."""
        try:
            self._executor.submit(work, *args)
        except RuntimeError:  # stopped meanwhile
            return


class Threads:
    """Starts and ends named threads and pools. Thread-safe."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._executors: list[ThreadPoolExecutor] = []
        self._over = False

    def start(self, target: Callable[[], None], name: str) -> None:
        """Run ``target`` in a new thread until it returns."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def executor(self, size: int, name: str) -> ThreadPoolExecutor:
        """Return a pool of at most ``size`` threads. The caller must read its futures."""
        made = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._executors.append(made)
        if self._over:
            made.shutdown()
        return made

    def of_fabrics(self, size: int, name: str) -> FabricExecutors:
        """Return pools with at most ``size`` threads for each fabric."""
        return FabricExecutors(self, size, name)

    def background(self, size: int, name: str) -> Background:
        """Return a pool of at most ``size`` threads for writes without a waiting caller."""
        return Background(self.executor(size, name))

    def cancel(self) -> None:
        """Start nothing more in any pool. Running work goes on."""
        self._over = True
        for executor in self._executors:
            executor.shutdown(wait=False, cancel_futures=True)

    def stop(self, patience: float) -> None:
        """Cancel, and wait up to ``patience`` seconds for each started thread."""
        self.cancel()
        for thread in self._threads:
            thread.join(patience)


class FabricExecutors:
    """A thread pool for each fabric, so that slow requests to one fabric block no other.
    Thread-safe."""

    def __init__(self, threads: Threads, size: int, name: str) -> None:
        self._threads, self._size, self._name = threads, size, name
        self._executors: dict[int | None, ThreadPoolExecutor] = {}
        self._lock = threading.Lock()

    def submit(self, fabric: int | None, work: Callable[..., Done], *args: t.Any) -> Future[Done]:
        """Run ``work(*args)`` in the pool of a fabric. None is the pool of machines without a
        fabric.

        Raise Stopped after the threads were stopped.
        """
        with self._lock:
            if fabric not in self._executors:
                self._executors[fabric] = self._threads.executor(self._size, f"{self._name}-{fabric}")
            try:
                return self._executors[fabric].submit(work, *args)
            except RuntimeError as ended:
                raise Stopped(str(ended)) from None

    def cancel(self) -> None:
        """Start nothing more in these pools. Running work goes on."""
        with self._lock:
            for executor in self._executors.values():
                executor.shutdown(wait=False, cancel_futures=True)


def run_all(executor: ThreadPoolExecutor, work: list[Callable[[], object]]) -> None:
    """Run everything at the same time. Raise the first error after all have ended.

    Raise Stopped, even for work that had not started by then.
    """
    try:
        waiting: list[Future[object]] = [executor.submit(each) for each in work]
    except RuntimeError as ended:
        raise Stopped(str(ended)) from None
    errors = [error for future in waiting if (error := _error(future))]
    if errors:
        raise errors[0]


def _error(future: Future[object]) -> BaseException | None:
    """Return the error of a future after it has ended, or None."""
    try:
        return future.exception()
    except CancelledError:
        return Stopped("it did not begin")
