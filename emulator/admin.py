# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking at the emulator and turning its knobs. No login: it is a test bench on loopback.

====== ===================== ==============================================================
GET    /admin/state          the pool; ``?after=GENERATION&timeout=SECONDS`` waits for the next change;
                             with ``&changes=1`` only devices that changed since
GET    /admin/log            ``?since=N``: requests with a number above N
POST   /admin/timing         ``{"attach": seconds, "detach": seconds}``
POST   /admin/device/{uid}   ``{"health": "OK" | "Warning" | "Critical" | "Unknown"}``
POST   /admin/tokens         ``{"lifetime": seconds, "revoke": true}``
GET    /                     a page for people
====== ===================== ==============================================================
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Awaitable, Callable

from aiohttp import web

from . import page
from .bench import Bench
from .fields import Fields, SpecError
from .parts import HEALTHS
from .pool import PooledDevice, UnknownDevice

LONGEST_WAIT: t.Final = 300.0

Handler = Callable[[web.Request], Awaitable[web.Response]]


def routes(bench: Bench) -> list[web.RouteDef]:
    """Everything below /admin, and the page."""
    admin = _Admin(bench)
    return [
        web.get("/", admin.page),
        web.get("/admin/state", _checked(admin.state)),
        web.get("/admin/log", _checked(admin.log)),
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
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.pool = bench.pool

    async def page(self, request: web.Request) -> web.Response:
        """The HTML page."""
        return web.Response(text=page.render(self.pool), content_type="text/html")

    async def state(self, request: web.Request) -> web.Response:
        """The pool as JSON, at once or when it changes."""
        if "after" not in request.query:
            return web.json_response(self._state(None))
        after = int(request.query["after"])
        wait = min(float(request.query.get("timeout", 30)), LONGEST_WAIT)
        await self.pool.changed_since(after, wait)
        delta = request.query.get("changes") == "1" and self.pool.born <= after
        return web.json_response(self._state(after if delta else None))

    async def log(self, request: web.Request) -> web.Response:
        """Requests."""
        return web.json_response(self.bench.log.since(int(request.query.get("since", 0))))

    async def timing(self, request: web.Request) -> web.Response:
        """Set attach and detach times."""
        fields = Fields(await request.json(), "timing", ("attach", "detach"))
        given = {key: fields.number(key, 0.0) for key in ("attach", "detach") if fields.has(key)}
        self.pool.set_timing(given.get("attach"), given.get("detach"))
        return web.json_response({"attach": self.pool.attach_time, "detach": self.pool.detach_time})

    async def device(self, request: web.Request) -> web.Response:
        """Set a device's health."""
        health = Fields(await request.json(), "device", ("health",)).text("health")
        if health not in HEALTHS:
            raise SpecError("device.health", f"{health!r}; allowed are {', '.join(HEALTHS)}")
        uid = request.match_info["uid"]
        self.pool.set_health(uid, health)
        return web.json_response(_device(self.pool.devices[uid]))

    async def tokens(self, request: web.Request) -> web.Response:
        """Set the lifetime of tokens issued from now on, or revoke those issued until now."""
        body = await request.json()
        fields = Fields(body, "tokens", ("lifetime", "revoke"))
        tokens = self.bench.tokens
        tokens.lifetime = fields.number("lifetime", tokens.lifetime, least=0.001)
        if body.get("revoke"):
            tokens.revoke()
        return web.json_response({"lifetime": tokens.lifetime, "issued": tokens.issued})

    def _state(self, after: int | None) -> dict[str, t.Any]:
        devices = self.pool.devices.values()
        return {
            "generation": self.pool.generation,
            "complete": after is None,
            "timing": {"attach": self.pool.attach_time, "detach": self.pool.detach_time},
            "models": {model.name: dataclasses.asdict(model) for model in self.pool.spec.models.values()},
            "devices": [_device(d) for d in devices if after is None or d.changed > after],
            "machines": [dataclasses.asdict(machine) for machine in self.pool.machines.values()],
        }


def _device(device: PooledDevice) -> dict[str, t.Any]:
    return {
        **dataclasses.asdict(device.spec), "kind": device.kind, "machine": device.machine, "state": device.state,
        "health": device.health,
    }
