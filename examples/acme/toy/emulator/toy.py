# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulator of the Toy Composer. It handles requests over the devices of the emulated fabric."""

from __future__ import annotations

import base64
import typing as t
from collections.abc import Awaitable, Callable

from aiohttp import web

from ansible_collections.composable.infra.emulator.admin.request_log import ENTRY
from ansible_collections.composable.infra.emulator.context import EmulatorContext
from ansible_collections.composable.infra.emulator.dialects.managers import BASIC, Row, register
from ansible_collections.composable.infra.emulator.pool.parts import MachineSpec
from ansible_collections.composable.infra.emulator.pool.pool import (
    VANISHED,
    DeviceBusy,
    Exhausted,
    PooledDevice,
    PoolError,
    UnknownDevice,
    UnknownMachine,
)

NAME: t.Final = "acme.toy.toy"
# Status and code of each error of the pool. All other errors are final.
ERRORS: t.Final[dict[type[PoolError], tuple[int, str]]] = {
    UnknownMachine: (404, "no_host"), UnknownDevice: (404, "no_device"), Exhausted: (400, "exhausted"),
    DeviceBusy: (409, "busy"),
}
Handler = Callable[[web.Request], Awaitable[web.Response]]


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return all routes of the Toy Composer."""
    toy = Toy(context)
    rack = f"/toy/v1/racks/{context.spec.settings[NAME].get('rack', 'main')}"
    return [
        web.get(f"{rack}/hosts", toy.guarded(toy.hosts)),
        web.get(f"{rack}/hosts/{{host}}", toy.guarded(toy.host)),
        web.get(f"{rack}/devices", toy.guarded(toy.devices)),
        web.post(f"{rack}/hosts/{{host}}/devices", toy.guarded(toy.attach)),
        web.delete(f"{rack}/hosts/{{host}}/devices/{{device}}", toy.guarded(toy.detach)),
    ]


class Toy:
    """The Toy Composer over the pool of devices."""

    def __init__(self, context: EmulatorContext) -> None:
        self.pool, self.users = context.pool, context.tokens.credentials.users

    def guarded(self, handler: Handler) -> Handler:
        """Return the handler behind the login, with errors in the Toy Composer's form."""

        async def guard(request: web.Request) -> web.Response:
            if request.headers.get("Authorization") not in [basic(*user) for user in self.users.items()]:
                return refusal(401, "login", "the user or the password is wrong")
            try:
                return await handler(request)
            except PoolError as error:
                return refusal(*ERRORS.get(type(error), (400, "failed")), str(error))

        return guard

    async def hosts(self, request: web.Request) -> web.Response:
        """Answer GET of all hosts."""
        return web.json_response({"hosts": [self.shown(each) for each in self.pool.machines.values()]})

    async def host(self, request: web.Request) -> web.Response:
        """Answer GET of one host."""
        return web.json_response(self.shown(self.asked(request)))

    async def devices(self, request: web.Request) -> web.Response:
        """Answer GET of all devices."""
        found = [each for each in self.pool.devices.values() if each.state != VANISHED]
        return web.json_response({"devices": [shown(each) for each in found]})

    async def attach(self, request: web.Request) -> web.Response:
        """Answer POST when the device is there. The work continues if the client disconnects."""
        host, body = self.asked(request), await request.json()
        request[ENTRY].model = body["model"]
        found = await self.pool.run(self.pool.attach(host.uid, body["model"], body["kind"]))
        return web.json_response(shown(found), status=201)

    async def detach(self, request: web.Request) -> web.Response:
        """Answer DELETE when the device has left."""
        await self.pool.run(self.pool.detach(self.asked(request).uid, request.match_info["device"]))
        return web.Response(status=204)

    def asked(self, request: web.Request) -> MachineSpec:
        """Return the host of the path. Raises UnknownMachine."""
        request[ENTRY].machine = request.match_info["host"]
        return self.pool.machine(request.match_info["host"])

    def shown(self, host: MachineSpec) -> dict[str, t.Any]:
        """Return a host as the Toy Composer shows it."""
        devices = [shown(each) for each in self.pool.shown(host.uid)]
        return {"id": host.uid, "name": host.name, "fabric": host.fabric, "devices": devices}


def shown(found: PooledDevice) -> dict[str, t.Any]:
    """Return a device as the Toy Composer shows it."""
    spec = found.spec
    return {"id": spec.uid, "model": spec.model, "kind": found.kind, "fabric": spec.fabric, "host": found.machine,
            "state": found.state, "health": found.health, "serial": spec.serial, "name": spec.name, "size": spec.size}


def basic(user: str, password: str) -> str:
    """Return the header of a login."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def refusal(status: int, code: str, message: str) -> web.Response:
    """Return an error in the Toy Composer's form."""
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


def purpose(method: str, path: str, body: t.Any) -> str:
    """Return the purpose of a request, so that faults strike the right requests."""
    return {"POST": "attach", "DELETE": "detach"}.get(method, "read")


register(NAME, Row(tells=BASIC, purpose=purpose, settings=("rack",), routes=routes))
