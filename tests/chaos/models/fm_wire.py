# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI Manager as a Fabric Manager (FM) behind HTTP, with the shipped driver, session and HTTP
client.

Its answers may be wrong: bytes come slowly, an answer is about another machine, machines are
missing, or a proxy answers instead. ``CdiManager.lie`` decides that for each request.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine, Proof, Started, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm.driver import PREFIX, FmDriver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import HttpConnection
from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import (
    ANOTHER_MACHINE,
    DRIPS,
    INCOMPLETE,
    LATENCY,
    PROXY_404,
    UNAVAILABLE_AFTER,
    CdiManager,
    Driver,
)
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process

Json = dict[str, t.Any]
Answer = tuple[int, str, bytes]
# Seconds between two bytes of a slow answer.
DRIP = 0.5
_STATUS = {Busy: 409, Missing: 404, Refused: 400}


class WiredDriver(FmDriver):
    """The shipped FM driver of one process. FM has no mark of a request. The judge gets the mark
    directly.
    """

    def __init__(self, manager: CdiManager, process: Process, config: FabricConfig) -> None:
        super().__init__(replace(config, endpoint="http://manager.example", auth="none"))
        self._manager, self._process = manager, process
        self._tokens: dict[int, str] = {}
        server = FmServer(manager, Driver(manager, process), self._token)
        self._session._endpoint._connected.http._pool._dial = lambda _timeout: HttpConnection(Wire(server))

    def attach(self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
               started: Started | None = None, proof: Proof | None = None) -> Task:
        """Attach as the shipped driver, one device at a time."""
        self._tokens[self._manager.simulation.current.number] = token or ""
        self._come_to("before attach")
        found = super().attach(machine_uid, model, count, token, kind, started, proof)
        self._manager.at_point("after attach", self._process)
        return found

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach as the shipped driver."""
        self._come_to("before detach")
        found = super().detach(machine_uid, device_uid, started, proof)
        self._manager.at_point("after detach", self._process)
        return found

    def _come_to(self, point: str) -> None:
        self._manager.simulation.sleep(self._manager.rng.uniform(*LATENCY))
        self._manager.at_point(point, self._process)

    def _token(self) -> str:
        return self._tokens.get(self._manager.simulation.current.number, "")


class FmServer:
    """The answers of FM, and of a proxy before it, to one process."""

    def __init__(self, manager: CdiManager, inside: Driver, token: Callable[[], str]) -> None:
        self.manager, self._inside, self._token = manager, inside, token

    def answer(self, method: str, path: str, body: Json) -> tuple[Answer, str]:
        """Return the answer and its fault. Raise ConnectionError if there is no answer."""
        lie = self.manager.lie()
        if lie == PROXY_404:
            return (404, "text/html", b"<html><h1>404 Not Found</h1></html>"), lie
        try:
            found: Json = self._found(method, path, body, lie)
        except (Unavailable, Uncertain) as error:
            raise ConnectionResetError(str(error)) from None
        except (Busy, Missing, Refused) as error:
            message = "insufficient resources" if getattr(error, "exhausted", False) else str(error)
            told = {"status": _STATUS[type(error)], "detail": {"code": "E020001", "message": message}}
            return (_STATUS[type(error)], "application/json", json.dumps(told).encode()), lie
        if lie == UNAVAILABLE_AFTER:
            return (503, "text/plain", b"upstream connect error or disconnect/reset before headers"), lie
        return (200, "application/json", json.dumps(found).encode()), lie

    def _found(self, method: str, path: str, body: Json, lie: str) -> Json:
        parts = urlsplit(path)
        pieces = parts.path.partition(PREFIX)[2].strip("/").split("/")
        if pieces == [""]:
            machines = self._inside.machines()
            return _machines(self._some(machines) if lie == INCOMPLETE else machines)
        machine = pieces[0]
        if len(pieces) == 1:
            found = [self._inside.machine(self._other(machine) if lie == ANOTHER_MACHINE else machine)]
            return _machines(self._some(found) if lie == INCOMPLETE else found)
        if pieces[1] == "available-reserved-resources":
            model = json.loads(parse_qs(parts.query)["condition"][0])["value"]
            return {"reserved_res_num_per_fabric": self._inside.free(machine, model)}
        leaf = body["tenants"]["machines"][0]["resources"][0]["res_specs"][0]
        if method == "PATCH":
            model = leaf["res_spec"]["condition"][0]["value"]
            (new,) = self._inside.accept_attach(machine, model, self._token()).devices
        else:
            self._inside.accept_detach(machine, leaf["res_uuid"])
            new = None
        return self._after(machine, new, lie)

    def _after(self, machine: str, new: Device | None, lie: str) -> Json:
        """Return the machine, with its new device first."""
        found = self._inside.now(self._other(machine) if lie == ANOTHER_MACHINE else machine)
        first = sorted(found.devices, key=lambda device: device.uid != (new.uid if new else ""))
        return _machines([replace(found, devices=tuple(first))])

    def _some(self, whole: t.Iterable[Machine]) -> tuple[Machine, ...]:
        return tuple(each for each in whole if self.manager.rng.random() < 0.5)

    def _other(self, machine: str) -> str:
        others = [uid for uid in self.manager.pool.machines if uid != machine]
        return self.manager.rng.choice(others) if others else machine


class Wire:
    """Replaces a socket. Each request is answered at once, and the answer comes slowly or whole."""

    def __init__(self, server: FmServer) -> None:
        if server.manager.down:
            raise NoResponse(ConnectionRefusedError("Connection refused"), sent=False)
        self._server = server
        self._timeout = 0.0
        self._answer: bytes | ConnectionError = b""
        self._drips = False

    def sendall(self, data: bytes, /) -> None:
        """Handle a whole request. Its change happens now, since the client has just checked that it
        may send it.
        """
        head, _blank, content = data.partition(b"\r\n\r\n")
        method, path, _version = head.split(b"\r\n")[0].decode().split(" ")
        try:
            (status, kind, body), lie = self._server.answer(method, path, json.loads(content or b"{}"))
        except ConnectionError as error:
            self._answer = error
            return
        self._drips = lie == DRIPS
        length = 1 << 20 if self._drips else len(body)
        self._answer = (f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
                        "Connection: close\r\n\r\n").encode() + body

    def recv(self, size: int, /) -> bytes:
        """Return the answer. A slow answer never ends."""
        if isinstance(self._answer, ConnectionError):
            raise self._answer
        if not self._drips:
            part, self._answer = self._answer, b""
            return part
        self._server.manager.simulation.sleep(min(DRIP, self._timeout))
        if self._timeout < DRIP:
            raise TimeoutError
        part, self._answer = self._answer[:1] or b" ", self._answer[1:]
        return part

    def settimeout(self, seconds: float, /) -> None:
        """Set the longest wait of one call."""
        self._timeout = seconds

    def fileno(self) -> int:
        """Return a number that is never used, since no connection is kept."""
        return 0

    def close(self) -> None:
        """Do nothing, there is nothing to close."""


def _machines(found: t.Iterable[Machine]) -> Json:
    return {"data": {"machines": [
        {"fabric_id": m.fabric, "mach_uuid": m.uid, "mach_name": m.name,
         "resources": [_resource(device) for device in m.devices]} for m in found]}}


def _resource(device: Device) -> Json:
    condition = {"column": "model", "operator": "eq", "value": device.model}
    return {"res_uuid": device.uid, "res_name": device.uid, "res_type": "gpu", "res_op_status": "00",
            "res_serial_num": device.serial, "res_spec": {"condition": [condition]}}
