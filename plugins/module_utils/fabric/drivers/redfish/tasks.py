# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for operations that a service answers by 202 with a task monitor (DSP0266, 12.2)."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ...errors import Busy, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain
from ...http.request import JsonResponse, Request
from ...http.session import Session
from ...operations.handles import VERSION, check_version
from ...operations.polling import Patience
from ..shared.redfish.fields import path
from ..shared.redfish.resources import TaskResource
from ..shared.redfish.service import local_path, said_by

_DONE: t.Final = "Completed"
_FAILED: t.Final = frozenset({"Exception", "Killed", "Cancelled"})
# Statuses of a monitor without an answer. Every other error is the error of the operation.
_NOT_NOW: t.Final = frozenset({423, 429})


class StillAtWork(Uncertain):
    """The service has accepted the request and did not end it in time. Do not repeat it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The task of one change. A service may reuse its path for another task, as after a restart.

    ``task`` is the path of the monitor. ``machine`` and ``device`` are uids, or empty in a handle
    from an old release with only the path. ``attach`` is False for a detach.
    """

    task: str
    machine: str = ""
    device: str = ""
    attach: bool = True

    def handle(self) -> str:
        """Return the text by which a later process finds the operation."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True)

    @classmethod
    def read(cls, handle: str) -> Operation:
        """Return the operation of a handle. Any other text is the path of a monitor.

        Raise Uncertain for another version.
        """
        try:
            told = json.loads(handle)
            check_version(told)
            return cls(str(told["task"]), str(told["machine"]), str(told["device"]), bool(told["attach"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(handle)


def handle_of(answer: JsonResponse) -> str | None:
    """Return the path of the monitor if a reply was accepted but is not done, or else None."""
    if answer.status != 202:
        return None
    task = TaskResource(answer.body)
    return local_path(answer.headers.get("location")) or task.monitor or task.uri or None


class Monitor:
    """Waits for tasks. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def wait(self, handle: str, purpose: str, seconds: float) -> None:
        """Return when the operation is done.

        Raise Refused or another error of the operation, Missing if the service does not know the
        task any more, and StillAtWork (Uncertain) if it is in flight after ``seconds``.
        """
        if path(handle) is None:
            raise Missing(f"cannot {purpose}: {handle} is no path of a task monitor")
        patience = Patience(seconds)
        while True:
            answer = self._look(handle, purpose)
            if answer is not None and self._is_done(answer, purpose):
                return
            if patience.over:
                raise StillAtWork(f"cannot {purpose}: the CDI Manager is still at work on {handle} after {seconds:g} s")
            patience.pause(_asked_pause(answer.headers) if answer else 0.0)

    def _look(self, handle: str, purpose: str) -> JsonResponse | None:
        try:
            return self._session.call(Request("GET", handle, purpose, reads=False))
        except FabricError as error:
            away = isinstance(error, Unavailable)
            if away or isinstance(error, Unauthorized) or (isinstance(error, Busy) and error.status in _NOT_NOW):
                return None
            raise

    def _is_done(self, answer: JsonResponse, purpose: str) -> bool:
        task = TaskResource(answer.body)
        if not task.is_task():
            return answer.status != 202
        if task.state in _FAILED or (task.state == _DONE and task.task_status == "Critical"):
            said = said_by(list(task.messages))
            words = self._session.redact(said.message) if said else "it gives no reason"
            raise Refused(f"cannot {purpose}: the CDI Manager's task ended as {task.state}: {words}",
                          code=said.code if said else None, detail=words)
        return task.state == _DONE


def _asked_pause(headers: Mapping[str, str]) -> float:
    value = headers.get("retry-after", "")
    return min(float(value), 30.0) if value.isascii() and value.isdigit() else 0.0
