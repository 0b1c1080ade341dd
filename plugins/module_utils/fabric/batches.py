# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes that a manager takes only one at a time, carried out together: one batch in flight, the others gather.

So n devices cost about two operations of the fabric instead of n. Each wish has its own outcome: one that fails does
not take the others with it, and each caller is told of the acceptance on its own thread.
"""

from __future__ import annotations

import copy
import functools
import threading
import typing as t
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence

from .errors import FabricError, gravest
from .types import Device, Started, Task

W = t.TypeVar("W")
HANDLES: t.Final = "\n"


class Wish(t.Generic[W]):
    """One thing that is wanted, and what came of it."""

    def __init__(self, what: W) -> None:
        self.what = what
        self.handle: str | None = None
        self.device: Device | None = None
        self.error: BaseException | None = None
        self.moved = threading.Event()
        self.settled = threading.Event()

    def accept(self, handle: str) -> None:
        """The manager has accepted; ``handle`` finds the operation again."""
        self.handle = handle
        self.moved.set()

    def fulfil(self, device: Device | None = None) -> None:
        """It is done; the first outcome stays."""
        if not self.settled.is_set():
            self.device = device
            self._settle()

    def fail(self, error: BaseException) -> None:
        """It is not done; the first outcome stays."""
        if not self.settled.is_set():
            self.error = copy.copy(error)
            self._settle()

    def _settle(self) -> None:
        self.settled.set()
        self.moved.set()


Take = Callable[[], "list[Wish[W]]"]
Work = Callable[[t.Any, "Take[W]"], None]


class Batches(t.Generic[W]):
    """``work(key, take)`` carries out what ``take`` gives it, as late as it likes to take, and settles every wish."""

    def __init__(self, work: Work[W]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: defaultdict[Hashable, deque[Wish[W]]] = defaultdict(deque)
        self._busy: set[Hashable] = set()

    def run(self, key: Hashable, whats: Iterable[W], started: Started | None = None) -> list[Wish[W]]:
        """The settled wishes; ``started`` is called once, when all are accepted or settled."""
        wishes = [Wish(what) for what in whats]
        self._add(key, wishes)
        for wish in wishes:
            wish.moved.wait()
        handles = [wish.handle for wish in wishes if wish.handle]
        if handles and started is not None:
            started(HANDLES.join(handles))
        for wish in wishes:
            wish.settled.wait()
        return wishes

    def _add(self, key: Hashable, wishes: Sequence[Wish[W]]) -> None:
        with self._lock:
            self._waiting[key].extend(wishes)
            if key in self._busy:
                return
            self._busy.add(key)
        # The callers wait for their wishes; a process that ends does not wait for the fabric.
        threading.Thread(target=self._drain, args=(key,), name="fabric-batch", daemon=True).start()

    def _drain(self, key: Hashable) -> None:
        while self._more(key):
            taken: list[Wish[W]] = []
            self._batch(key, taken, functools.partial(self._take, key, taken))

    def _batch(self, key: Hashable, taken: list[Wish[W]], take: Take[W]) -> None:
        failure: Exception = AssertionError(f"the batch of {key} left this open")
        try:
            self._work(key, take)
        except Exception as error:  # whatever it is, the callers must hear of it
            failure = error
        for wish in taken or take():
            wish.fail(failure)

    def _more(self, key: Hashable) -> bool:
        with self._lock:
            if self._waiting[key]:
                return True
            del self._waiting[key]
            self._busy.discard(key)
            return False

    def _take(self, key: Hashable, taken: list[Wish[W]]) -> list[Wish[W]]:
        with self._lock:
            taken += self._waiting[key]
            self._waiting[key].clear()
        return taken


def task_of(wishes: Sequence[Wish[t.Any]]) -> Task:
    """The outcome of several wishes as one Task. Raises what a failed one was failed with."""
    devices = tuple(w.device for w in wishes if w.device is not None)
    errors = [w.error for w in wishes if w.error is not None]
    for error in errors:
        if not isinstance(error, FabricError):
            raise error
    failed = tuple(error for error in errors if isinstance(error, FabricError))
    if len(wishes) == 1 and failed:
        raise failed[0]
    if failed:
        raise gravest(failed, devices)
    return Task(True, devices, HANDLES.join(w.handle for w in wishes if w.handle) or None)
