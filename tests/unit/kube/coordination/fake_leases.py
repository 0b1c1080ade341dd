# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server of Leases in memory, with optimistic concurrency and failures on demand."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, cast

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
)

Object = dict[str, Any]


class FakeLeases:
    """Answers Client.raw for one Lease. ``fail`` is raised instead of, ``lose_reply`` after the next writes;
    ``failures``: how often to, 0 for as long as it is there."""

    def __init__(self) -> None:
        self.stored: Object | None = None
        self.fail: ApiError | None = None
        self.failures = 0
        self.lose_reply: ApiError | None = None
        self.writes = 0
        self.time = 1_900_000_000.0
        self.changed = threading.Condition()
        self._version = 0

    @property
    def client(self) -> Client:
        return cast(Client, self)

    @property
    def spec(self) -> Object:
        assert self.stored is not None
        return cast(Object, self.stored["spec"])

    def server_time(self) -> float:
        """Of its own clock."""
        return self.time

    def raw(self, method: str, path: str, body: Any = None, **ignored: Any) -> Object:
        with self.changed:
            if self.fail is not None:
                raise self._failure(self.fail)
            verbs: dict[str, Callable[[Any], Object]] = {"GET": self._get, "POST": self._post, "PUT": self._put}
            answer = verbs[method](copy.deepcopy(body))
            if method != "GET":
                self._wrote()
            return copy.deepcopy(answer)

    def _failure(self, error: ApiError) -> ApiError:
        self.failures -= 1
        if self.failures == 0:
            self.fail = None
        return error

    def edit(self, change: Callable[[Object], object]) -> None:
        """Write as somebody else."""
        with self.changed:
            assert self.stored is not None
            self.stored = copy.deepcopy(self.stored)
            change(self.stored["spec"])
            self._stamp()

    def remove(self) -> None:
        with self.changed:
            self.stored = None

    def wait_for(self, condition: Callable[[], bool], timeout: float = 10) -> bool:
        """Wait until a write makes the condition true."""
        with self.changed:
            return self.changed.wait_for(condition, timeout)

    def _wrote(self) -> None:
        self.writes += 1
        self.changed.notify_all()
        lost = self.lose_reply
        if lost is not None:
            self.lose_reply = None
            raise lost

    def _stamp(self) -> None:
        assert self.stored is not None
        self._version += 1
        self.stored["metadata"]["resourceVersion"] = str(self._version)

    def _get(self, body: None) -> Object:
        if self.stored is None:
            raise NotFound(404, "NotFound", "absent")
        return self.stored

    def _post(self, body: Object) -> Object:
        if self.stored is not None:
            raise AlreadyExists(409, "AlreadyExists", "exists")
        self.stored = body
        self._stamp()
        return self.stored

    def _put(self, body: Object) -> Object:
        if self._get(None)["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "changed meanwhile")
        self.stored = body
        self._stamp()
        return self.stored
