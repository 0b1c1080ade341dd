# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execution of changes: read, request, wait and read again, to survive lost replies."""

from __future__ import annotations

import functools
import time
import typing as t
from collections.abc import Sequence
from dataclasses import replace

from .....net.backoff import Backoff
from ....api import Proof, Started
from ....config import FabricConfig
from ....errors import Busy, Changed, FabricError, Missing, Refused, Uncertain
from ....http.request import Request
from ....http.session import Session
from ....operations.batches import Batches, PendingOperation, proof_of
from ....operations.polling import NOTICE_SECONDS, Patience, tolerant
from ...shared.redfish.service import Service
from ..tasks import Monitor, Operation, StillAtWork, handle_of
from .dialects import dialect_for
from .preconditions import Ask, Change, Dialect, Preconditions

# Attempts after a failed precondition or a harmless repeat, before the caller must decide.
TRIES: t.Final = 8
# Minimum seconds for the reply to a request.
SHORTEST: t.Final = 1.0
BACKOFF: t.Final = Backoff(0.05, factor=1.5, longest=0.25, jitter=1.0)

Operations = Sequence[PendingOperation[Change]]


class CompositionExecutor:
    """Moves units. Thread-safe. Changes of one lane go together, and all others in parallel."""

    def __init__(self, session: Session, service: Service, config: FabricConfig) -> None:
        self._session = session
        self._service = service
        self._seconds = config.attach_timeout
        self._monitor = Monitor(session)
        self._batches: Batches[Change] = Batches(lambda key, take: self._carry(key[0], take()))

    def move(self, change: Change, started: Started | None = None, proof: Proof | None = None) -> str | None:
        """Return the handle of the operation, if any, when a reading shows the change.

        Raise Changed if another client has the unit, and FabricError.
        """
        dialect = dialect_for(change)
        if dialect is None:
            raise Refused(f"cannot {purpose(change)}: the CDI Manager offers no way to do so for this pair")
        operation = self._batches.run((dialect, dialect.lane(change)), [change], started, proof)[0]
        if operation.error is not None:
            raise operation.error
        return operation.handle

    def wait(self, operation: Operation) -> None:
        """Wait for an operation that another process began."""
        self._monitor.wait(operation.task, f"wait for operation {operation.task}", self._seconds)

    def _carry(self, dialect: Dialect, operations: Operations, patience: Patience | None = None) -> None:
        """Finish every operation within the attach timeout, or raise the error of the open ones."""
        patience = patience or Patience(self._seconds)
        error: FabricError | None = None
        for attempt in range(1, TRIES + 1):
            preconditions = self._read(dialect, operations, error)
            if error is None and any(_seems_gone(dialect, preconditions, o.what) for o in operations):
                # Nothing was requested, so read twice.
                preconditions = self._read(dialect, operations, error)
            try:
                if isinstance(error, Uncertain):
                    self._give_back(dialect, preconditions, operations, patience)
                operations = _open(dialect, preconditions, operations, asked=isinstance(error, Uncertain))
                if not operations:
                    return
                self._once(dialect, preconditions, operations, error, patience)
                return
            except (Changed, Uncertain) as failure:
                error = failure
                if isinstance(failure, StillAtWork) or patience.over:
                    raise
            except (Refused, Missing, Busy) as failure:
                self._one_by_one(dialect, operations, error if isinstance(error, Uncertain) else failure,
                                 patience)
                return
            # This attempt did nothing, but the previous one may have taken effect.
            except FabricError as failure:
                raise (error if isinstance(error, Uncertain) else failure) from None
            if not dialect.swaps and isinstance(error, Uncertain):
                continue
            time.sleep(BACKOFF.delay(attempt))
        raise error or AssertionError("the last attempt finishes or raises")

    def _once(
        self, dialect: Dialect, preconditions: Preconditions, operations: Operations, error: FabricError | None,
        patience: Patience,
    ) -> None:
        """Make one attempt. Repeat a lost request only if it cannot take effect twice."""
        if any(dialect.moving(preconditions, o.what) for o in operations):
            self._confirm(dialect, operations, patience)
        elif isinstance(error, Uncertain) and not dialect.swaps:
            raise error
        else:
            self._ask(dialect, replace(preconditions, strict=isinstance(error, Changed)), operations, patience)
            self._confirm(dialect, operations, patience)

    def _read(self, dialect: Dialect, operations: Operations, error: FabricError | None) -> Preconditions:
        """Read. If an earlier request is uncertain and the reading fails, it stays uncertain."""
        try:
            return dialect.read(self._service, [o.what for o in operations])
        except FabricError:
            if isinstance(error, Uncertain):
                raise error from None
            raise

    def _ask(
        self, dialect: Dialect, preconditions: Preconditions, operations: Operations, patience: Patience
    ) -> None:
        changes = [o.what for o in operations]
        ask, words = dialect.ask(preconditions, changes), "; ".join(map(purpose, changes))
        request = _call(ask, words, max(patience.left, SHORTEST))
        answer = self._session.call(replace(request, proof=proof_of(operations)))
        handle = handle_of(answer)
        if handle is None:
            return
        for operation in operations:
            what = operation.what
            operation.accept(Operation(handle, what.host.uid, what.unit.uid, what.attach).handle())
        try:
            self._monitor.wait(handle, words, patience.left)
        except Missing:
            # The service forgot the operation, for example after a restart. The caller reads its
            # effect.
            return

    def _confirm(self, dialect: Dialect, operations: Operations, patience: Patience) -> None:
        """Read until the operations show their effect. A service may report the end too early."""
        notice = Patience(NOTICE_SECONDS)
        while True:
            changes = [o.what for o in operations]
            preconditions = tolerant(functools.partial(dialect.read, self._service, changes))
            if preconditions is not None:
                self._give_back(dialect, preconditions, operations, patience)
                operations = [o for o in operations if not _finished(dialect, preconditions, o)]
            if not operations:
                return
            moving = preconditions is None or any(dialect.moving(preconditions, change) for change in changes)
            if patience.over or (notice.over and not moving):
                words = "; ".join(purpose(o.what) for o in operations)
                raise Uncertain(f"cannot {words}: the CDI Manager accepted the request, but does not show its result")
            patience.pause()

    def _give_back(
        self, dialect: Dialect, preconditions: Preconditions, operations: Operations, patience: Patience
    ) -> None:
        """Detach a unit that another machine got too, whichever request was first.

        Services show no times. The other client may have read before our request took effect, and
        does not read again. So the client that sees the unit on two machines detaches it. If two
        clients read at the same moment, both detach it.

        Raise Uncertain if the unit cannot be detached, as this machine has it then.
        """
        for operation in operations:
            change = operation.what
            if not (change.attach and dialect.has(preconditions, change) and dialect.taken(preconditions, change)):
                continue
            try:
                self._ask(dialect, preconditions, [PendingOperation(replace(change, attach=False))], patience)
            except StillAtWork:
                raise
            except FabricError as error:
                raise Uncertain(f"cannot {purpose(change)}: another machine has it too, and it could not be given "
                                f"back: {error}") from None
            operation.fail(_lost(change))

    def _one_by_one(
        self, dialect: Dialect, operations: Operations, failure: FabricError, patience: Patience
    ) -> None:
        """Repeat each refused operation alone. A refused single unit may have just been taken."""
        if len(operations) > 1:
            for operation in operations:
                try:
                    self._carry(dialect, [operation], patience)
                except FabricError as error:
                    operation.fail(error)
            return
        preconditions = dialect.read(self._service, [operations[0].what])
        if _open(dialect, preconditions, operations, asked=False):
            operations[0].fail(failure)


def purpose(change: Change) -> str:
    """Return the text that completes "cannot …"."""
    verb, side = ("attach", "to") if change.attach else ("detach", "from")
    return f"{verb} {change.unit.traits.kind} {change.unit.uid} {side} machine {change.host.uid}"


def _call(ask: Ask, words: str, seconds: float) -> Request:
    return Request(
        ask.method, ask.path, words, body=ask.body, timeout=seconds, effect=True, reads=False, headers=ask.headers
    )


def _finished(dialect: Dialect, preconditions: Preconditions, operation: PendingOperation[Change]) -> bool:
    """Return whether an operation is finished. Finish it if its wanted state is reached."""
    change = operation.what
    done = dialect.has(preconditions, change) is change.attach and not dialect.moving(preconditions, change)
    if done and not operation.finished.is_set():
        operation.fulfil()
    return operation.finished.is_set()


def _seems_gone(dialect: Dialect, preconditions: Preconditions, change: Change) -> bool:
    return not change.attach and not dialect.has(preconditions, change)


def _open(
    dialect: Dialect, preconditions: Preconditions, operations: Operations, asked: bool
) -> list[PendingOperation[Change]]:
    """Return the operations that still need a request.

    ``asked`` means that a reply was lost, so a moving or new unit may be ours. A unit that came
    without a request is another client's.
    """
    found = []
    for operation in operations:
        if operation.what.attach and not asked and dialect.has(preconditions, operation.what):
            operation.fail(Changed(f"cannot {purpose(operation.what)}: another client has just attached it"))
        if _finished(dialect, preconditions, operation):
            continue
        maybe_ours = asked and dialect.moving(preconditions, operation.what)
        if operation.what.attach and dialect.taken(preconditions, operation.what) and not maybe_ours:
            operation.fail(_lost(operation.what))
        elif asked or operation.wanted():
            found.append(operation)
    return found


def _lost(change: Change) -> Changed:
    return Changed(f"cannot {purpose(change)}: another machine has it, or it is no longer offered")
