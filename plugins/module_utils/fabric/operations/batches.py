# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batches of operations for a manager that runs one operation at a time.

While one batch runs, the next one collects operations. So n devices cost about two operations of
the fabric instead of n. Each operation has its own outcome, so a failed one does not affect others.
Each caller receives the acceptance on its own thread.
"""

from __future__ import annotations

import copy
import functools
import threading
import typing as t
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence

from ..api import Device, Proof, Started, Task
from ..errors import FabricError, gravest

W = t.TypeVar("W")


class PendingOperation(t.Generic[W]):
    """One wanted operation and its outcome."""

    def __init__(self, what: W, proof: Proof | None = None) -> None:
        self.what, self.proof = what, proof
        self.handle: str | None = None
        self.device: Device | None = None
        self.error: BaseException | None = None
        self.moved = threading.Event()
        self.finished = threading.Event()

    def accept(self, handle: str) -> None:
        """Record that the manager has accepted. ``handle`` identifies the operation later."""
        self.handle = handle
        self.moved.set()

    def wanted(self) -> bool:
        """Return whether the operation may still be requested. If its proof raises, fail it."""
        try:
            if self.proof:
                self.proof()
        except Exception as error:  # The caller must receive every error.
            self.fail(error)
        return not self.finished.is_set()

    def fulfil(self, device: Device | None = None) -> None:
        """Finish with success, unless an outcome exists."""
        if not self.finished.is_set():
            self.device = device
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Finish with an error, unless an outcome exists."""
        if not self.finished.is_set():
            self.error = copy.copy(error)
            self._finish()

    def _finish(self) -> None:
        self.finished.set()
        self.moved.set()


Take = Callable[[], "list[PendingOperation[W]]"]
Work = Callable[[t.Any, "Take[W]"], None]


class Batches(t.Generic[W]):
    """Batches by key. ``work(key, take)`` must finish each operation that ``take`` returns.

    It may call ``take`` as late as possible.
    """

    def __init__(self, work: Work[W]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: defaultdict[Hashable, deque[PendingOperation[W]]] = defaultdict(deque)
        self._busy: set[Hashable] = set()

    def run(self, key: Hashable, whats: Iterable[W], started: Started | None = None,
            proof: Proof | None = None) -> list[PendingOperation[W]]:
        """Run operations and return them when finished.

        ``started`` is called once, when all operations are accepted or finished. ``work`` calls
        ``proof`` of each operation right before the request.
        """
        operations = [PendingOperation(what, proof) for what in whats]
        self._add(key, operations)
        for operation in operations:
            operation.moved.wait()
        handles = tuple(operation.handle for operation in operations if operation.handle)
        if handles and started is not None:
            started(handles)
        for operation in operations:
            operation.finished.wait()
        return operations

    def _add(self, key: Hashable, operations: Sequence[PendingOperation[W]]) -> None:
        with self._lock:
            self._waiting[key].extend(operations)
            if key in self._busy:
                return
            self._busy.add(key)
        # Callers wait for their operations, but the end of the process does not wait for the
        # fabric.
        threading.Thread(target=self._drain, args=(key,), name="fabric-batch", daemon=True).start()

    def _drain(self, key: Hashable) -> None:
        while self._more(key):
            taken: list[PendingOperation[W]] = []
            self._batch(key, taken, functools.partial(self._take, key, taken))

    def _batch(self, key: Hashable, taken: list[PendingOperation[W]], take: Take[W]) -> None:
        failure: Exception = AssertionError(f"the batch of {key} left this open")
        try:
            self._work(key, take)
        except Exception as error:  # The callers must receive every error.
            failure = error
        for operation in taken or take():
            operation.fail(failure)

    def _more(self, key: Hashable) -> bool:
        with self._lock:
            if self._waiting[key]:
                return True
            del self._waiting[key]
            self._busy.discard(key)
            return False

    def _take(self, key: Hashable, taken: list[PendingOperation[W]]) -> list[PendingOperation[W]]:
        with self._lock:
            taken += self._waiting[key]
            self._waiting[key].clear()
        return taken


def proof_of(operations: Sequence[PendingOperation[t.Any]]) -> Proof:
    """Return a proof for one request that calls the proofs of all its operations."""
    proofs = [operation.proof for operation in operations if operation.proof]

    def prove() -> None:
        for proof in proofs:
            proof()

    return prove


def task_of(operations: Sequence[PendingOperation[t.Any]]) -> Task:
    """Merge the outcomes of several operations into a Task. Raise the error of a failed one."""
    devices = tuple(o.device for o in operations if o.device is not None)
    errors = [o.error for o in operations if o.error is not None]
    for error in errors:
        if not isinstance(error, FabricError):
            raise error
    failed = tuple(error for error in errors if isinstance(error, FabricError))
    if len(operations) == 1 and failed:
        raise failed[0]
    if failed:
        raise gravest(failed, devices)
    return Task(True, devices, tuple(o.handle for o in operations if o.handle))
