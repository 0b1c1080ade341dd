# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_driver.py` and others share."""

from __future__ import annotations

import threading
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request


def entry(uid: str, fabric: int | None, *devices: str, op_status: str = "00") -> dict[str, t.Any]:
    condition = [{"column": "model", "operator": "eq", "value": "A100"}]
    resources = [
        {"res_uuid": d, "res_type": "gpu", "res_op_status": op_status, "res_spec": {"condition": condition}}
        for d in devices
    ]
    return {"mach_uuid": uid, "fabric_id": fabric, "resources": resources}


def listing(*entries: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"data": {"machines": list(entries)}}


class FakeSession:
    """Answers by a function from call to JSON; keeps the calls."""

    def __init__(self, answer: t.Callable[[Request], t.Any]) -> None:
        self.answer = answer
        self.calls: list[Request] = []
        self.closed = False
        self._lock = threading.Lock()

    def call(self, call: Request) -> JsonResponse:
        with self._lock:
            self.calls.append(call)
        answer = self.answer(call)
        if isinstance(answer, FabricError):
            raise answer
        return JsonResponse(200, {}, answer)

    def redact(self, text: str) -> str:
        return text

    def close(self) -> None:
        self.closed = True


Connect = t.Callable[[t.Callable[[Request], t.Any]], tuple[driver.FmDriver, FakeSession]]
