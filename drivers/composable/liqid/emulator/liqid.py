# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulator of a Liqid Director: its requests over the devices of the emulated fabric.

It does what public repositories of Liqid's clients tell. None of their code is here. Comments name the place:

- GO: github.com/liqidinc/liqidsdk-go 9d0f320, folder ``liqidsdk``
- JAVA: github.com/liqidinc/liqidsdk-java f36fd04, folder ``liqidsdk``
- MOCK: the in-memory stand-in of a Director in JAVA, ``mock/com/liqid/sdk/mock/MockLiqidClient.java``
- KUB: github.com/liqidinc/kubint e0bdf1e, ``src/com/liqid/k8s/plan/actions``
- TS: a TypeScript client that a public code index has, found by the text ``liqid/api/v2``

``GUESS`` marks what none of them tells. Settings under ``settings.composable.liqid.liqid``:

- ``asynchronous``: changes are accepted with status 202, as newer Directors do.
- ``errors_ok``: errors of the Director have the HTTP status 200.

The machines and devices are in the group ``composable``, except machines of another tenant. An open edit outlives a
restart.
"""

from __future__ import annotations

import base64
import typing as t
from collections.abc import Awaitable, Callable

from aiohttp import web

from ansible_collections.composable.infra.emulator.admin.request_log import ENTRY
from ansible_collections.composable.infra.emulator.context import EmulatorContext
from ansible_collections.composable.infra.emulator.dialects.managers import BASIC, Row, register
from ansible_collections.composable.infra.emulator.pool.fields import SpecError
from ansible_collections.composable.infra.emulator.pool.journal import Journal
from ansible_collections.composable.infra.emulator.pool.parts import MachineSpec
from ansible_collections.composable.infra.emulator.pool.pool import (
    ATTACHED,
    ATTACHING,
    DETACHING,
    FREE,
    VANISHED,
    PooledDevice,
    PoolError,
)

from .objects import INFO, PREDEVICE, RELATE, Json, Objects, number

NAME: t.Final = "composable.liqid.liqid"
PREFIX: t.Final = "/liqid/api/v2"
SETTINGS: t.Final = ("asynchronous", "errors_ok")
Handler = Callable[[web.Request], Awaitable[list[t.Any]]]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LiqidError(Exception):
    """An error to be answered."""


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return everything that the Director answers."""
    liqid = Liqid(context)
    reads: dict[str, Handler] = {
        "group": liqid.groups, "machine": liqid.machines, "predevice": liqid.predevices,
        "status": liqid.statuses, "device/info/{word}": liqid.infos, "state/{fabric}": liqid.pending_commands,
        "tasks/{task}": liqid.task,
    }
    changes: dict[str, Handler] = {
        "fabric/edit": liqid.edit, "fabric/edit/cancel": liqid.cancel, "fabric/reprogram": liqid.reprogram,
        "relate/{word}": liqid.relate, "pool/edit": liqid.pool_edit, "pool/done": liqid.pool_done,
        "pool/cancel": liqid.pool_done,
    }
    return [
        *(web.get(f"{PREFIX}/{path}", liqid.guarded(read)) for path, read in reads.items()),
        *(web.post(f"{PREFIX}/{path}", liqid.guarded(change, changes=True)) for path, change in changes.items()),
        # GO, *_gen.go: the DELETE of a relation has a body.
        web.delete(f"{PREFIX}/relate/{{word}}", liqid.guarded(liqid.relate, changes=True)),
        web.get(f"{PREFIX}/sse/predevice", liqid.events),
    ]


class Liqid:
    """The Director before the pool of devices. ``edited``: what is in edit mode, as ``Machine 0x0001``, or nothing."""

    def __init__(self, context: EmulatorContext) -> None:
        """Find the edit that an earlier life left open."""
        self.pool, self.users = context.pool, context.tokens.credentials.users
        settings = context.spec.settings.get(NAME, {})
        for key in SETTINGS:
            if not isinstance(settings.get(key, False), bool):
                raise SpecError(f"settings.{NAME}.{key}", f"it must be true or false, not {settings[key]!r}")
        self.asynchronous, self.errors_ok = (bool(settings.get(key, False)) for key in SETTINGS)
        self.objects = Objects(context.pool)
        self.edited, self.related = "", dict[str, bool]()
        self.tasks: dict[int, str] = {}
        self._journal = Journal(context.folder / "liqid.jsonl") if context.folder else None
        for record in self._journal.read() if self._journal else ():
            self.edited, self.related = record["edited"], record["related"]
        context.faults.teach(NAME, self.purpose)

    def purpose(self, path: str, _body: t.Any) -> str:
        """Return what a change is for: faults of attaches and detaches strike the reprogram."""
        if not path.endswith("/fabric/reprogram") or not self.related:
            return "change"
        return "attach" if any(self.related.values()) else "detach"

    def guarded(self, handler: Handler, changes: bool = False) -> Answer:
        """Return the handler behind the login, with replies and errors in the Director's form."""

        async def guard(request: web.Request) -> web.StreamResponse:
            if not self.is_known(request):
                return web.json_response(error_body(401, "the user or the password is wrong"), status=401)
            try:
                found = await handler(request)
            except (LiqidError, PoolError) as error:
                # GO, types.go: an error is a status, a code, or errors that are not null. GUESS: which of them.
                return web.json_response(error_body(1, str(error)), status=200 if self.errors_ok else 422)
            except web.HTTPNotFound:
                return web.json_response(error_body(404, "there is no such command"), status=404)
            if changes and self.asynchronous:
                # JAVA, LiqidClientBase.java: 202, and the absolute address of the command in the links.
                task = found[0] if found and isinstance(found[0], int) else self.new_task("SUCCESS")
                found = [{"links": [{"href": f"{request.url.origin()}{PREFIX}/tasks/{task}"}]}]
                return web.json_response(body_of(found), status=202)
            return web.json_response(body_of(found))

        return guard

    def is_known(self, request: web.Request) -> bool:
        """Return whether a request has a login. GO, client.go: HTTP Basic with each request is one of two ways."""
        return request.headers.get("Authorization") in [basic(*user) for user in self.users.items()]

    async def groups(self, request: web.Request) -> list[t.Any]:
        """Answer GET of all groups."""
        return self.objects.groups()

    async def machines(self, request: web.Request) -> list[t.Any]:
        """Answer GET of all machines."""
        return [self.objects.machine(each) for each in self.pool.machines.values()]

    async def predevices(self, request: web.Request) -> list[t.Any]:
        """Answer GET of what belongs to which group and machine."""
        return [self.objects.predevice(each) for each in self.shown()]

    async def statuses(self, request: web.Request) -> list[t.Any]:
        """Answer GET of all devices. GO, deviceStatus_gen.go: without filter=false those in no group, here none."""
        return [self.objects.status(each) for each in self.shown()] if request.query.get("filter") == "false" else []

    async def infos(self, request: web.Request) -> list[t.Any]:
        """Answer GET of the models of a kind."""
        return [self.objects.info(each) for each in self.shown() if INFO[each.kind] == request.match_info["word"]]

    def shown(self) -> list[PooledDevice]:
        """Return the devices that are plugged in and that the Director has words for."""
        return [each for each in self.pool.devices.values() if each.state != VANISHED and each.kind in PREDEVICE]

    async def pending_commands(self, request: web.Request) -> list[t.Any]:
        """Answer GET of what is pending. TS: there is such a list. GUESS: what an entry has."""
        busy = [{"command": "reprogram", "target": self.objects.named(each)} for each in self.busy()]
        return [*([{"command": "edit", "target": self.edited}] if self.edited else []), *busy]

    def busy(self) -> list[MachineSpec]:
        """Return the machines that are being reprogrammed, also since before a restart."""
        moving = {each.machine for each in self.pool.devices.values() if each.state in (ATTACHING, DETACHING)}
        return [each for each in self.pool.machines.values() if each.uid in moving]

    async def edit(self, request: web.Request) -> list[t.Any]:
        """Answer POST: from now on the machine can be edited."""
        return self.begin(self.objects.named(await self.asked(request)))

    async def pool_edit(self, request: web.Request) -> list[t.Any]:
        """Answer POST: from now on the pool of a group can be edited."""
        return self.begin(f"Group {number((await request.json())['grp_id'])}")

    def begin(self, what: str) -> list[t.Any]:
        """Take the lock. MOCK 424-560, 2696-2755: one at a time for all, machines and groups. The words are MOCK's."""
        busy = [self.objects.named(each) for each in self.busy()]
        if held := [*([self.edited] if self.edited else []), *busy]:
            raise LiqidError(f"{held[0]} is already being edited")
        self.keep(what)
        return []

    async def pool_done(self, request: web.Request) -> list[t.Any]:
        """Answer POST: the pool is no longer edited."""
        self.must_be_edited(f"Group {number((await request.json())['grp_id'])}")
        self.keep("")
        return []

    async def cancel(self, request: web.Request) -> list[t.Any]:
        """Answer POST. TS: to leave the edit mode before a reprogram reverts all."""
        self.must_be_edited(self.objects.named(await self.asked(request)))
        self.keep("")
        return []

    async def relate(self, request: web.Request) -> list[t.Any]:
        """Answer POST and DELETE: the device shall come, or leave, with the next reprogram."""
        body = await request.json()
        machine, device = self.machine_of(body["machine"]), self.device_of(body["groupDeviceRelator"]["deviceStatus"])
        request[ENTRY].machine, request[ENTRY].model = machine.uid, device.spec.model
        self.must_be_edited(self.objects.named(machine))
        # KUB: a device is in the group of the machine before it is related.
        if body["groupDeviceRelator"]["group"] != self.objects.group_of(machine):
            raise LiqidError("groupDeviceRelator.group: it must be the whole object of the machine's group")
        if request.match_info["word"] != RELATE[device.kind]:
            raise LiqidError(f"relate/{request.match_info['word']}: device {device.spec.name} is of another kind")
        adds = request.method == "POST"
        if (device.state, device.machine) != ((FREE, None) if adds else (ATTACHED, machine.uid)):
            raise LiqidError(f"device {device.spec.name} is {device.state}")
        self.keep(self.edited, {**self.related, device.spec.uid: adds})
        return []

    async def reprogram(self, request: web.Request) -> list[t.Any]:
        """Answer POST: all that was related happens, and the machine is no longer in edit mode."""
        machine, related = await self.asked(request), self.related
        self.must_be_edited(self.objects.named(machine))
        work = [(self.pool.begin_attach if adds else self.pool.begin_detach)(machine.uid, device)
                for device, adds in related.items()]
        self.keep("")
        if self.asynchronous:
            task = self.new_task("Pending")
            self.pool.run(self.finished(work, task))
            return [task]
        if failed := await self.pool.run(self.finished(work)):
            raise LiqidError(f"the machine could not be reprogrammed: {failed}")
        return []

    async def finished(self, work: list[t.Any], task: int = 0) -> str:
        """Wait for the hardware, and return what went wrong."""
        failed = []
        for each in work:
            try:
                await each
            except PoolError as error:
                failed.append(str(error))
        self.tasks[task] = "FAILURE" if failed else "SUCCESS"
        return "; ".join(failed)

    def new_task(self, state: str) -> int:
        """Return the number of a new command."""
        task = len(self.tasks) + 1
        self.tasks[task] = state
        return task

    async def task(self, request: web.Request) -> list[t.Any]:
        """Answer GET of a command. JAVA, LiqidClientBase.java has the states, and takes 404 for over and well.

        GUESS: when it is forgotten. Here each second one is at once, and all are by a restart.
        """
        task = int(request.match_info["task"])
        state = self.tasks.get(task)
        if state is None or (state == "SUCCESS" and task % 2):
            raise web.HTTPNotFound
        return [{"command_execution_state": state}]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Answer GET of events. TS: server-sent events tell of changes. GUESS: what an event has."""
        if not self.is_known(request):
            return web.json_response(error_body(401, "the user or the password is wrong"), status=401)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        while True:
            seen = self.pool.generation
            await stream.write(f'data: {{"generation": {seen}}}\n\n'.encode())
            await self.pool.changed_since(seen, 3600.0)

    async def asked(self, request: web.Request) -> MachineSpec:
        """Return the machine that the body is the object of."""
        machine = self.machine_of(await request.json())
        request[ENTRY].machine = machine.uid
        return machine

    def machine_of(self, body: Json) -> MachineSpec:
        """Return a machine. GO, *_gen.go: requests have its whole object."""
        for each in self.pool.machines.values():
            if body == self.objects.machine(each):
                return each
        raise LiqidError("the body must be the whole object of a machine")

    def device_of(self, body: Json) -> PooledDevice:
        """Return a device. GO, *_gen.go: requests have the whole object of its status."""
        for each in self.shown():
            if body == self.objects.status(each):
                return each
        raise LiqidError("groupDeviceRelator.deviceStatus: it must be the whole object of a device")

    def must_be_edited(self, what: str) -> None:
        """Raise LiqidError in MOCK's words (MOCK 1305-1333) unless it is in edit mode."""
        if self.edited != what:
            raise LiqidError(f"{what} is not in edit mode")

    def keep(self, edited: str, related: dict[str, bool] | None = None) -> None:
        """Remember what is edited and what was related, also over a restart. GUESS: that an edit outlives it."""
        self.edited, self.related = edited, related or {}
        if self._journal:
            self._journal.write({"edited": self.edited, "related": self.related})


def basic(user: str, password: str) -> str:
    """Return the header of a login."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def body_of(found: list[t.Any]) -> Json:
    """Return the envelope of a reply. GO, types.go: data is always a list."""
    return {"response": {"code": 0, "errors": None, "data": found}}


def error_body(code: int, message: str) -> Json:
    """Return the envelope of an error."""
    return {"response": {"code": code, "errors": [{"code": code, "message": message, "type": "error"}], "data": []}}


def purpose(method: str, path: str, body: t.Any) -> str:
    """Return what a request is for. ``Liqid.purpose`` says what a reprogram is for."""
    if method != "GET":
        return "change"
    return "poll" if path.startswith(f"{PREFIX}/tasks/") else "read"


register(NAME, Row(tells=BASIC, options={"driver_options": {"group": "composable"}}, error=error_body, purpose=purpose,
                   settings=SETTINGS, routes=routes))
