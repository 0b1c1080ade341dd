# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and control the emulator. There is no login, because it is a test bench on loopback.

====== ===================== ==============================================================
GET    /admin/state          the pool. ``?after=GENERATION&timeout=SECONDS`` waits for the next
                             change. With ``&changes=1``, only devices that changed since then.
                             ``since`` of a device: when it was attached, in seconds since
                             1970, 0 if it is not attached
GET    /admin/log            ``?since=N``: requests with a number above N
GET    /admin/effects        ``?since=N``: devices that were attached or detached, in order,
                             with the number of the request
GET    /admin/faults         seed and rules, with the number of requests that each met and struck
POST   /admin/faults         ``{"seed", "profile", "rules"}`` replace all rules (faults/rules.py),
                             ``{}`` removes them
POST   /admin/certificate    ``{"change": bool, "publish": bool}``: serve another certificate,
                             and give clients the authority of the current certificate
POST   /admin/reset          ``{"log": bool}``: put all devices back as in the document, remove
                             all faults, and with ``log`` forget the log
POST   /admin/timing         ``{"attach": seconds, "detach": seconds}``
POST   /admin/device/{uid}   ``{"health": "OK" | "Warning" | "Critical" | "Unknown", "present": bool}``
POST   /admin/tokens         ``{"lifetime": seconds, "skew": seconds, "revoke": true}``
GET    /                     a page for people
====== ===================== ==============================================================
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Awaitable, Callable

from aiohttp import web

from ..context import EmulatorContext
from ..faults.rules import Faulty, faults_in
from ..pool.fields import Fields, SpecError
from ..pool.parts import HEALTHS
from ..pool.pool import PooledDevice, UnknownDevice
from ..pool.pooled import ATTACHED
from . import page

LONGEST_WAIT: t.Final = 300.0

Handler = Callable[[web.Request], Awaitable[web.Response]]


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes below /admin, and the page."""
    admin = _Admin(context)
    return [
        web.get("/", admin.page),
        web.get("/admin/state", _checked(admin.state)),
        web.get("/admin/log", _checked(admin.log)),
        web.get("/admin/effects", _checked(admin.effects)),
        web.get("/admin/faults", _checked(admin.faults)),
        web.post("/admin/faults", _checked(admin.set_faults)),
        web.post("/admin/certificate", _checked(admin.certificate)),
        web.post("/admin/reset", _checked(admin.reset)),
        web.post("/admin/timing", _checked(admin.timing)),
        web.post("/admin/device/{uid}", _checked(admin.device)),
        web.post("/admin/tokens", _checked(admin.tokens)),
    ]


def _checked(handler: Handler) -> Handler:
    async def checked(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except UnknownDevice as error:
            return web.json_response({"error": str(error)}, status=404)
        except (SpecError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)

    return checked


class _Admin:
    def __init__(self, context: EmulatorContext) -> None:
        self.context = context
        self.pool = context.pool

    async def page(self, request: web.Request) -> web.Response:
        """Return the HTML page."""
        return web.Response(text=page.render(self.pool), content_type="text/html")

    async def state(self, request: web.Request) -> web.Response:
        """Return the pool as JSON, at once or when it changes."""
        if "after" not in request.query:
            return web.json_response(self._state(None))
        after = int(request.query["after"])
        wait = min(float(request.query.get("timeout", 30)), LONGEST_WAIT)
        await self.pool.changed_since(after, wait)
        delta = request.query.get("changes") == "1" and self.pool.born <= after
        return web.json_response(self._state(after if delta else None))

    async def log(self, request: web.Request) -> web.Response:
        """Return requests."""
        return web.json_response(self.context.log.since(int(request.query.get("since", 0))))

    async def effects(self, request: web.Request) -> web.Response:
        """Return effects on devices."""
        return web.json_response(self.context.log.effects(int(request.query.get("since", 0))))

    async def faults(self, request: web.Request) -> web.Response:
        """Return the current rules."""
        return web.json_response(self.context.faults.told())

    async def set_faults(self, request: web.Request) -> web.Response:
        """Replace the rules."""
        fields = Fields(await request.json(), "faults", ("seed", "profile", "rules"))
        self.context.faults.replace(faults_in(fields))
        return web.json_response(self.context.faults.told())

    async def certificate(self, request: web.Request) -> web.Response:
        """Change the certificate, or publish its authority."""
        fields = Fields(await request.json(), "certificate", ("change", "publish"))
        change, publish = fields.flag("change"), fields.flag("publish")
        if self.context.faults.host:
            self.context.faults.host.change_certificate(change=change, publish=publish, spared=request.protocol)
        return web.json_response({"changed": change, "published": publish})

    async def reset(self, request: web.Request) -> web.Response:
        """Put devices back as at first, and remove faults."""
        fields = Fields(await request.json(), "reset", ("log",))
        self.context.faults.replace(Faulty())
        self.pool.reset()
        if fields.flag("log"):
            self.context.log.forget()
        return web.json_response({"generation": self.pool.generation})

    async def timing(self, request: web.Request) -> web.Response:
        """Set attach and detach times."""
        fields = Fields(await request.json(), "timing", ("attach", "detach"))
        given = {key: fields.number(key, 0.0) for key in ("attach", "detach") if fields.has(key)}
        self.pool.set_timing(given.get("attach"), given.get("detach"))
        return web.json_response({"attach": self.pool.attach_time, "detach": self.pool.detach_time})

    async def device(self, request: web.Request) -> web.Response:
        """Set a device's health, or make the device vanish or come back."""
        fields, uid = Fields(await request.json(), "device", ("health", "present")), request.match_info["uid"]
        if fields.has("health") or not fields.has("present"):
            self.pool.set_health(uid, fields.one_of("health", HEALTHS))
        if fields.has("present"):
            self.pool.set_present(uid, fields.flag("present"))
        return web.json_response(_device(self.pool.devices[uid]))

    async def tokens(self, request: web.Request) -> web.Response:
        """Set the lifetime of future tokens, or revoke all earlier tokens."""
        fields = Fields(await request.json(), "tokens", ("lifetime", "skew", "revoke"))
        tokens = self.context.tokens
        tokens.lifetime = fields.number("lifetime", tokens.lifetime, least=1e-6)
        tokens.skew = fields.signed("skew", tokens.skew)
        if fields.flag("revoke"):
            tokens.revoke()
        return web.json_response({"lifetime": tokens.lifetime, "skew": tokens.skew, "issued": tokens.issued})

    def _state(self, after: int | None) -> dict[str, t.Any]:
        devices = self.pool.devices.values()
        return {
            "generation": self.pool.generation,
            "complete": after is None,
            "timing": {"attach": self.pool.attach_time, "detach": self.pool.detach_time},
            "models": {model.name: dataclasses.asdict(model) for model in self.pool.spec.models.values()},
            "devices": [_device(d) for d in devices if after is None or d.changed > after],
            "machines": [dataclasses.asdict(machine) for machine in self.pool.machines.values()],
            "topology": dataclasses.asdict(self.pool.spec.topology),
        }


def _device(device: PooledDevice) -> dict[str, t.Any]:
    return {
        **dataclasses.asdict(device.spec), "kind": device.kind, "machine": device.machine, "state": device.state,
        "health": device.health, "since": device.due if device.state == ATTACHED else 0.0,
    }
