# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations that a manager takes only one at a time, carried out together: one batch at work, the others gather.

So n devices cost about two operations of the fabric instead of n. Each operation has its own outcome: one that fails
does not take the others with it, and each caller is told of the acceptance on its own thread.
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
    """One thing that is wanted, and what came of it."""

    def __init__(self, what: W, proof: Proof | None = None) -> None:
        self.what, self.proof = what, proof
        self.handle: str | None = None
        self.device: Device | None = None
        self.error: BaseException | None = None
        self.moved = threading.Event()
        self.finished = threading.Event()

    def accept(self, handle: str) -> None:
        """The manager has accepted; ``handle`` finds the operation again."""
        self.handle = handle
        self.moved.set()

    def wanted(self) -> bool:
        """Whether the manager may still be asked for it; one whose proof fails is finished with what that raised."""
        try:
            if self.proof:
                self.proof()
        except Exception as error:  # whatever it is, the caller must hear of it
            self.fail(error)
        return not self.finished.is_set()

    def fulfil(self, device: Device | None = None) -> None:
        """It is done; the first outcome stays."""
        if not self.finished.is_set():
            self.device = device
            self._finish()

    def fail(self, error: BaseException) -> None:
        """It is not done; the first outcome stays."""
        if not self.finished.is_set():
            self.error = copy.copy(error)
            self._finish()

    def _finish(self) -> None:
        self.finished.set()
        self.moved.set()


Take = Callable[[], "list[PendingOperation[W]]"]
Work = Callable[[t.Any, "Take[W]"], None]


class Batches(t.Generic[W]):
    """``work(key, take)`` carries out what ``take`` gives it, as late as it likes to take, and finishes each."""

    def __init__(self, work: Work[W]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: defaultdict[Hashable, deque[PendingOperation[W]]] = defaultdict(deque)
        self._busy: set[Hashable] = set()

    def run(self, key: Hashable, whats: Iterable[W], started: Started | None = None,
            proof: Proof | None = None) -> list[PendingOperation[W]]:
        """The finished operations; ``started`` is called once, when all are accepted or finished.

        ``proof`` is each operation's own, for ``work`` to ask when it is about to ask the manager.
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
        # The callers wait for their operations; a process that ends does not wait for the fabric.
        threading.Thread(target=self._drain, args=(key,), name="fabric-batch", daemon=True).start()

    def _drain(self, key: Hashable) -> None:
        while self._more(key):
            taken: list[PendingOperation[W]] = []
            self._batch(key, taken, functools.partial(self._take, key, taken))

    def _batch(self, key: Hashable, taken: list[PendingOperation[W]], take: Take[W]) -> None:
        failure: Exception = AssertionError(f"the batch of {key} left this open")
        try:
            self._work(key, take)
        except Exception as error:  # whatever it is, the callers must hear of it
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
    """The proof of one request for several operations: every one of theirs."""
    proofs = [operation.proof for operation in operations if operation.proof]

    def prove() -> None:
        for proof in proofs:
            proof()

    return prove


def task_of(operations: Sequence[PendingOperation[t.Any]]) -> Task:
    """The outcome of several operations as one Task. Raises what a failed one was failed with."""
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
