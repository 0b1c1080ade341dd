# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of the pool by a Redfish request, and the tasks by which a client can follow them."""

from __future__ import annotations

import asyncio
import time
import typing as t
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from ....pool.journal import Journal
from ....pool.pool import (
    ATTACHED,
    ATTACHING,
    DETACHING,
    FREE,
    DeviceBusy,
    DevicePool,
    DeviceTaken,
    Operation,
    PoolError,
)
from .documents import ROOT, Json
from .errors import RedfishError, message

TASKS: t.Final = f"{ROOT}/TaskService/Tasks"
MONITORS: t.Final = f"{ROOT}/TaskService/TaskMonitors"
RUNNING: t.Final = "Running"
COMPLETED: t.Final = "Completed"
EXCEPTION: t.Final = "Exception"


@dataclass(frozen=True, slots=True)
class PoolChange:
    """A device that is to be attached to a machine, or detached from it."""

    machine: str
    device: str
    attach: bool


@dataclass(slots=True)
class Task:
    """A task. ``began`` and ``ended``: seconds since 1970.

    ``reply``: path of the new resource, for 201.

    ``mine``: this run of the emulator started it.
    """

    ident: str
    wants: list[PoolChange]
    began: float
    state: str = RUNNING
    ended: float | None = None
    error: str | None = None
    reply: str | None = None
    mine: bool = field(default=False, compare=False)


class Tasks:
    """All changes go through here. Tasks survive a restart if there is a journal."""

    def __init__(self, pool: DevicePool, journal: Journal | None) -> None:
        self.pool = pool
        self._journal = journal
        self.known: dict[str, Task] = {}
        for record in journal.read() if journal else ():
            record["wants"] = [PoolChange(**want) for want in record["wants"]]
            self.known[record["ident"]] = Task(**{**record, "mine": False})

    async def carry_out(self, wants: Sequence[PoolChange]) -> None:
        """Carry out all changes at once, or none. Raises PoolError."""
        self._check(wants)
        await self.pool.run(_all(self._begun(wants)))

    def begin(self, wants: Sequence[PoolChange], reply: str | None) -> Task:
        """Start all changes at once, or none, without waiting. Return their task.

        Raises PoolError.
        """
        self._check(wants)
        task = Task(str(len(self.known) + 1), list(wants), time.time(), reply=reply, mine=True)
        self.known[task.ident] = task
        operations = self._begun(wants)
        self._write(task)
        self.pool.run(self._follow(task, operations))
        return task

    def find(self, ident: str) -> Task | None:
        """Return the task as it is now, None for none.

        The result of an earlier run's task follows from the state of its devices.
        """
        task = self.known.get(ident)
        if task is not None and task.state == RUNNING and not task.mine:
            self._judge(task)
        return task

    def document(self, task: Task) -> Json:
        """Return the Task resource."""
        body: Json = {
            "@odata.type": "#Task.v1_7_4.Task", "Id": task.ident, "Name": f"Task {task.ident}",
            "TaskState": task.state, "TaskStatus": "Critical" if task.error else "OK",
            "TaskMonitor": f"{MONITORS}/{task.ident}", "StartTime": _time(task.began),
            "PercentComplete": 0 if task.state == RUNNING else 100, "HidePayload": True,
            "Messages": [message("OperationFailed", task.error)] if task.error else [],
        }
        return body if task.ended is None else {**body, "EndTime": _time(task.ended)}

    def _check(self, wants: Sequence[PoolChange]) -> None:
        for want in wants:
            device = self.pool.devices[want.device]
            if want.attach and device.state != FREE:
                raise DeviceTaken(f"device {want.device} is {device.state}", device.machine)
            if not want.attach and (device.state != ATTACHED or device.machine != want.machine):
                raise DeviceBusy(f"device {want.device} is {device.state}")

    def _begun(self, wants: Sequence[PoolChange]) -> list[Operation]:
        return [(self.pool.begin_attach if w.attach else self.pool.begin_detach)(w.machine, w.device) for w in wants]

    async def _follow(self, task: Task, operations: Sequence[Operation]) -> None:
        try:
            await _all(operations)
        except PoolError as error:
            task.error = str(error)
        self._end(task)

    def _judge(self, task: Task) -> None:
        found = [(want, self.pool.devices.get(want.device)) for want in task.wants]
        if any(device and device.state in (ATTACHING, DETACHING) for _unused, device in found):
            return
        done = [bool(device) and (device.machine == want.machine) is want.attach for want, device in found if device]
        if not all(done) or len(done) != len(found):
            task.error = "a restart of the manager ended the operation"
        self._end(task)

    def _end(self, task: Task) -> None:
        task.state = EXCEPTION if task.error else COMPLETED
        task.ended = time.time()
        self._write(task)

    def _write(self, task: Task) -> None:
        if self._journal:
            self._journal.write(asdict(task))


def failed(task: Task) -> RedfishError:
    """Return the answer of a monitor for a task that failed."""
    return RedfishError(400, task.error or "", "OperationFailed")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


async def _all(operations: Sequence[Operation]) -> None:
    results = await asyncio.gather(*operations, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
