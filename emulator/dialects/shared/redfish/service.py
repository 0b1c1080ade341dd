# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redfish service with composition and fabrics over the pool, with settings in ``options``.

The pool has all state. Blocks, connections and zones are views of the pool, so they agree with each
other and with every other manager of the same emulator.
"""

from __future__ import annotations

import functools
import json
import typing as t
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiohttp import web

from ....admin.request_log import ENTRY
from ....context import EmulatorContext
from ....pool.journal import Journal
from ....pool.pool import PoolError
from . import changes
from .documents import ROOT, Documents, fabric_path
from .errors import RedfishError
from .metadata import metadata, service_document
from .options import ADD_BLOCK, COMPOSE, CONNECTIONS, ZONES, Options
from .power import OFF, Power
from .sessions import Sessions
from .tasks import EXCEPTION, MONITORS, RUNNING, PoolChange, Task, Tasks, failed
from .tree import Tree

# Resources that are readable without a login (DSP0266, 13.3.1).
_OPEN: t.Final = frozenset({ROOT, f"{ROOT}/", f"{ROOT}/odata", f"{ROOT}/$metadata"})
_SESSIONS: t.Final = f"{ROOT}/SessionService/Sessions"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Service:
    """The service. ``closed``: a login is required."""

    def __init__(self, context: EmulatorContext, manager: str, options: Options, *, closed: bool) -> None:
        self.context = context
        self.options = options
        self.closed = closed
        self.power = Power(options, _journal(context, f"{manager}_power"))
        self.docs = Documents(context, options, manager, self.power)
        self.sessions = Sessions(context.tokens, _journal(context, f"{manager}_sessions"))
        self.tasks = Tasks(context.pool, _journal(context, f"{manager}_tasks") if options.keeps_tasks else None)
        self.tree = Tree(self.docs, self.sessions, self.tasks)
        context.faults.teach(manager, functools.partial(changes.purpose_of, self.docs))

    def routes(self) -> list[web.RouteDef]:
        """Return the routes for reading the whole tree, and for the offered changes."""
        guarded = self.guarded
        offered = {
            ADD_BLOCK: [web.post(ROOT + "/Systems/{machine}/Actions/ComputerSystem.{action}", guarded(self.block))],
            COMPOSE: [web.post(f"{ROOT}/CompositionService/Actions/CompositionService.Compose", guarded(self.compose))],
            CONNECTIONS: [
                web.post(ROOT + "/Fabrics/{fabric}/Connections", guarded(self.connect)),
                web.delete(ROOT + "/Fabrics/{fabric}/Connections/{device}", guarded(self.disconnect)),
            ],
            ZONES: [web.patch(ROOT + "/Fabrics/{fabric}/Zones/{machine}", guarded(self.zone))],
        }
        return [
            web.get("/redfish", _versions), web.get("/redfish/", _versions), web.get(ROOT, guarded(self.read)),
            web.get(f"{ROOT}/$metadata", _metadata), web.get(f"{ROOT}/odata", self._odata),
            web.post(_SESSIONS, guarded(self.login)), web.delete(_SESSIONS + "/{ident}", guarded(self.logout)),
            web.get(MONITORS + "/{ident}", guarded(self.monitor)),
            *([web.post(ROOT + "/Systems/{machine}/Actions/ComputerSystem.Reset", guarded(self.reset))]
              if self.options.reset_types else ()),
            *(route for name, found in offered.items() if name in self.options.dialects for route in found),
            web.get(ROOT + "/{tail:.*}", guarded(self.read)), web.route("*", ROOT + "/{tail:.*}", guarded(_refuse)),
        ]

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that checks the login first, with errors in Redfish's form."""

        async def guard(request: web.Request) -> web.StreamResponse:
            try:
                if self.closed and request.path not in _OPEN and handler != self.login:
                    self.sessions.admit(request)
                response = await handler(request)
            except RedfishError as error:
                response = error.response()
            except PoolError as error:
                response = RedfishError.of_pool(error).response()
            response.headers["OData-Version"] = "4.0"
            response.headers["Cache-Control"] = "no-store"
            return response

        return guard

    async def read(self, request: web.Request) -> web.StreamResponse:
        """GET of any resource."""
        body = self.tree.get(request.path.rstrip("/") or ROOT, request.query)
        if body is None:
            raise RedfishError(404, f"there is no resource at {request.path}")
        headers = {"ETag": body["@odata.etag"]} if "@odata.etag" in body else {}
        return web.json_response(body, headers=headers)

    async def login(self, request: web.Request) -> web.StreamResponse:
        """POST of a session."""
        session = self.sessions.open(await _json(request))
        where = f"{_SESSIONS}/{session.ident}"
        headers = {"X-Auth-Token": session.token, "Location": where}
        return web.json_response(self.tree.get(where), status=201, headers=headers)

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """DELETE of a session."""
        if not self.sessions.end(request.match_info["ident"]):
            raise RedfishError(404, "there is no such session")
        return web.Response(status=204)

    async def monitor(self, request: web.Request) -> web.StreamResponse:
        """GET of a task monitor.

        It returns 202 until the task ends, then the answer to the request.
        """
        task = self.tasks.find(request.match_info["ident"])
        if task is None:
            raise RedfishError(404, "there is no such task")
        if task.state == RUNNING:
            return self._accepted(task)
        if task.state == EXCEPTION:
            raise failed(task)
        return self._done(task.reply)

    async def block(self, request: web.Request) -> web.StreamResponse:
        """POST of AddResourceBlock and RemoveResourceBlock."""
        machine, action = request.match_info["machine"], request.match_info["action"]
        if action not in ("AddResourceBlock", "RemoveResourceBlock"):
            raise RedfishError(404, f"there is no action {action}")
        self.context.pool.machine(machine)
        body = await _json(request)
        wants = changes.block_wants(self.tree, machine, body, attach=action == "AddResourceBlock")
        return await self._carry_out(request, wants)

    async def reset(self, request: web.Request) -> web.StreamResponse:
        """POST of the action Reset, which is accepted before the power changes."""
        machine = self.context.pool.machine(request.match_info["machine"]).uid
        self.power.reset(machine, await _json(request))
        request[ENTRY].machine = machine
        return self._accepted(self.tasks.begin([], None)) if self.options.asynchronous else web.Response(status=204)

    async def compose(self, request: web.Request) -> web.StreamResponse:
        """POST of the Compose action."""
        body = await _json(request)
        wants = changes.compose_wants(self.docs, body)
        changes.check_manifest(self.tree, body)
        return await self._carry_out(request, wants)

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """POST of a connection."""
        number = self._number(request)
        wants = changes.connection_wants(self.docs, number, await _json(request))
        return await self._carry_out(request, wants, fabric_path(number, f"/Connections/{wants[0].device}"))

    async def disconnect(self, request: web.Request) -> web.StreamResponse:
        """DELETE of a connection."""
        path = request.path
        shown = self.tree.get(path)
        if shown is None:
            raise RedfishError(404, f"there is no resource at {path}")
        self._match(request, shown, needed=False)
        uid = request.match_info["device"]
        return await self._carry_out(request, [PoolChange(self.context.pool.devices[uid].machine or "", uid, False)])

    async def zone(self, request: web.Request) -> web.StreamResponse:
        """PATCH of a machine's zone."""
        shown = self.tree.get(request.path)
        if shown is None:
            raise RedfishError(404, f"there is no resource at {request.path}")
        body = await _json(request)
        self._match(request, shown, needed=True)
        machine = request.match_info["machine"]
        return await self._carry_out(request, changes.zone_wants(self.docs, self._number(request), machine, body))

    async def _carry_out(
        self, request: web.Request, wants: Sequence[PoolChange], made: str | None = None
    ) -> web.StreamResponse:
        for want in wants if self.options.attach_off else ():
            if self.power.state(want.machine) != OFF:
                raise RedfishError(409, f"system {want.machine} must be off", "ChassisPowerStateOffRequired")
        if wants:
            request[ENTRY].machine = wants[0].machine
            request[ENTRY].model = self.context.pool.devices[wants[0].device].spec.model
        if self.options.asynchronous and wants:
            return self._accepted(self.tasks.begin(wants, made))
        await self.tasks.carry_out(wants)
        return self._done(made)

    def _done(self, made: str | None) -> web.StreamResponse:
        body = self.tree.get(made) if made else None
        if body is None:
            return web.Response(status=204)
        return web.json_response(body, status=201, headers={"Location": made or ""})

    def _accepted(self, task: Task) -> web.StreamResponse:
        headers = {"Location": f"{MONITORS}/{task.ident}"}
        return web.json_response(self.tasks.document(task), status=202, headers=headers)

    def _number(self, request: web.Request) -> int:
        known = {str(number): number for number in self.docs.numbers()}
        found = known.get(request.match_info["fabric"])
        if found is None:
            raise RedfishError(404, f"there is no fabric {request.match_info['fabric']}")
        return found

    def _match(self, request: web.Request, shown: Mapping[str, t.Any], *, needed: bool) -> None:
        given = request.headers.get("If-Match")
        if not self.options.etags or given == "*" or (given is None and not needed):
            return
        if given is None:
            raise RedfishError(428, "If-Match is required")
        if given != shown["@odata.etag"]:
            raise RedfishError(412, "If-Match is not the current ETag")

    async def _odata(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(service_document(self.docs.root()), headers={"OData-Version": "4.0"})


def _journal(context: EmulatorContext, name: str) -> Journal | None:
    return Journal(context.folder / f"{name}.jsonl") if context.folder else None


async def _versions(request: web.Request) -> web.StreamResponse:
    return web.json_response({"v1": f"{ROOT}/"}, headers={"OData-Version": "4.0"})


async def _metadata(request: web.Request) -> web.StreamResponse:
    return web.Response(text=metadata(), content_type="application/xml", headers={"OData-Version": "4.0"})


async def _refuse(request: web.Request) -> web.StreamResponse:
    raise RedfishError(405, f"the method {request.method} is not supported at {request.path}")


async def _json(request: web.Request) -> t.Any:
    try:
        return await request.json(loads=json.loads)
    except ValueError:
        raise RedfishError(400, "the body must be JSON", "MalformedJSON") from None
