# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dialect of NEC's CDI Manager over the pool.

It has no login, and one layout-apply at a time, with an applyID.

Settings under ``settings.nec``:

- ``generation``: ``adapters`` (the product) or ``cpus`` (the open source CDIM). It decides to which
  part a device is connected, and how a procedure names that part.
- ``sequential``: run procedures one after the other, and skip the rest after the first failure.
  Otherwise run all at once.
- ``uuids``: GPUs show their UUID as ``serialNumber``.

Applies survive a restart, and the hardware continues its work.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
import typing as t
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

from aiohttp import web

from ...admin.request_log import ENTRY
from ...context import EmulatorContext
from ...pool.fields import SpecError
from ...pool.journal import Journal
from ...pool.pool import ATTACHED, ATTACHING, DETACHING, Operation, PoolError
from .body import BUSY, INVALID, KEYS, UNKNOWN_APPLY, UNKNOWN_RESOURCE, NecError, Procedure, procedures
from .parts import Parts

PREFIX: t.Final = "/cdim/api/v1"
IN_PROGRESS, COMPLETED, FAILED, SKIPPED = "IN_PROGRESS", "COMPLETED", "FAILED", "SKIPPED"

Handler = Callable[[web.Request], Awaitable[t.Any]]
Begun = dict[int, Operation | None]


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes of CDIM."""
    nec = _Nec(context)
    return [
        web.get(f"{PREFIX}/resources", guarded(nec.resources)),
        web.get(f"{PREFIX}/resources/{{id}}", guarded(nec.resource)),
        web.get(f"{PREFIX}/nodes", guarded(nec.nodes)),
        web.post(f"{PREFIX}/layout-apply", guarded(nec.apply, 202)),
        web.get(f"{PREFIX}/layout-apply", guarded(nec.applies_listed)),
        web.get(f"{PREFIX}/layout-apply/{{id}}", guarded(nec.progress)),
    ]


def guarded(handler: Handler, status: int = 200) -> Handler:
    """Return a handler with errors in CDIM's form."""

    async def guard(request: web.Request) -> web.Response:
        try:
            return web.json_response(await handler(request), status=status)
        except NecError as error:
            return error.response()

    return guard


@dataclass(slots=True)
class _Apply:
    """An apply. ``results``: by operationID."""

    uid: str
    procedures: tuple[Procedure, ...]
    started: float
    status: str = IN_PROGRESS
    results: dict[int, str] = field(default_factory=dict)


class _Nec:
    def __init__(self, context: EmulatorContext) -> None:
        self.context = context
        self.pool = context.pool
        settings = context.spec.settings.get("nec", {})
        self.generation = settings.get("generation", "adapters")
        if self.generation not in KEYS:
            raise SpecError("settings.nec.generation", f"{self.generation!r} is not allowed. Allowed are "
                                                       f"{', '.join(KEYS)}")
        self.sequential = bool(settings.get("sequential", False))
        self.parts = Parts(self.pool, self.generation, uuids=bool(settings.get("uuids", False)))
        self.applies: dict[str, _Apply] = {}
        self._journal = Journal(context.folder / "applies.jsonl") if context.folder else None
        self._remember()

    async def resources(self, request: web.Request) -> t.Any:
        """GET of all resources."""
        found = self.parts.resources()
        return {"count": len(found), "resources": found}

    async def resource(self, request: web.Request) -> t.Any:
        """GET of one resource."""
        asked = request.match_info["id"]
        found = next((e for e in self.parts.resources() if e["device"]["deviceID"] == asked), None)
        if found is None:
            raise NecError(404, UNKNOWN_RESOURCE, f"resource {asked} does not exist")
        return found

    async def nodes(self, request: web.Request) -> t.Any:
        """GET of all machines."""
        found = self.parts.nodes()
        return {"count": len(found), "nodes": found}

    async def apply(self, request: web.Request) -> t.Any:
        """POST of an apply, which is accepted unless another is running. The reply has its id."""
        try:
            wanted = procedures(await request.json(loads=json.loads), self.generation)
        except ValueError:
            raise NecError(400, INVALID, "body: it must be JSON") from None
        if any(a.status == IN_PROGRESS for a in self.applies.values()):
            raise NecError(409, BUSY, "Already running. Cannot start multiple instances.")
        apply = _Apply(secrets.token_hex(5), wanted, time.time())
        if machine := self.parts.sources.get(wanted[0].source):
            request[ENTRY].machine = machine.uid
        first = wanted[:1] if self.sequential else [p for p in wanted if not p.after]
        begun = {procedure.number: self._begin(procedure) for procedure in first}
        self._keep(apply)
        self.pool.run(self._carry_out(apply, begun))
        return {"applyID": apply.uid}

    async def applies_listed(self, request: web.Request) -> t.Any:
        """GET of applies, the newest first.

        A page has CDIM's default size unless the query sets it.
        """
        found = sorted(self.applies.values(), key=lambda a: -a.started)
        try:
            offset, limit = (int(request.query.get(name, usual)) for name, usual in (("offset", "0"), ("limit", "20")))
        except ValueError:
            raise NecError(400, INVALID, "limit and offset: they must be integers") from None
        page = found[offset:offset + limit]
        return {"count": len(page), "totalCount": len(found), "applyResults": [self._told(a) for a in page]}

    async def progress(self, request: web.Request) -> t.Any:
        """GET of one apply."""
        apply = self.applies.get(request.match_info["id"])
        if apply is None:
            raise NecError(404, UNKNOWN_APPLY, "Specified ID is not found in layoutapply.")
        return self._told(apply)

    def _told(self, apply: _Apply) -> dict[str, t.Any]:
        keys = KEYS[self.generation]
        named = [
            {"operationID": p.number, "operation": p.operation, keys[0]: p.source, keys[1]: p.device,
             "dependencies": list(p.after)}
            for p in apply.procedures
        ]
        results = [{"operationID": number, "status": status} for number, status in apply.results.items()]
        return {"applyID": apply.uid, "status": apply.status, "procedures": named, "applyResult": results}

    async def _carry_out(self, apply: _Apply, begun: Begun) -> None:
        if self.sequential:
            for procedure in apply.procedures:
                await self._step(apply, procedure, begun)
        else:
            ends = {p.number: asyncio.Event() for p in apply.procedures}
            await asyncio.gather(*(self._in_turn(apply, p, begun, ends) for p in apply.procedures))
        self._end(apply)

    async def _in_turn(self, apply: _Apply, procedure: Procedure, begun: Begun, ends: dict[int, asyncio.Event]) -> None:
        for number in procedure.after:
            await ends[number].wait()
        await self._step(apply, procedure, begun)
        ends[procedure.number].set()

    async def _step(self, apply: _Apply, procedure: Procedure, begun: Begun) -> None:
        before = apply.results if self.sequential else {n: apply.results.get(n) for n in procedure.after}
        if any(status != COMPLETED for status in before.values()):
            apply.results[procedure.number] = SKIPPED
            return
        work = begun[procedure.number] if procedure.number in begun else self._begin(procedure)
        apply.results[procedure.number] = await _outcome(work)

    def _begin(self, procedure: Procedure) -> Operation | None:
        """Start an operation. Return None if it cannot start."""
        machine = self.parts.sources.get(procedure.source)
        if machine is None:
            return None
        begin = self.pool.begin_attach if procedure.operation == "connect" else self.pool.begin_detach
        try:
            return begin(machine.uid, procedure.device)
        except PoolError:
            return None

    def _end(self, apply: _Apply) -> None:
        apply.status = COMPLETED if all(s == COMPLETED for s in apply.results.values()) else FAILED
        self._keep(apply)

    def _keep(self, apply: _Apply) -> None:
        self.applies[apply.uid] = apply
        if self._journal:
            self._journal.write(asdict(apply))

    def _remember(self) -> None:
        for record in self._journal.read() if self._journal else ():
            named = tuple(Procedure(**{**p, "after": tuple(p["after"])}) for p in record["procedures"])
            results = {int(number): status for number, status in record["results"].items()}
            self.applies[record["uid"]] = _Apply(record["uid"], named, record["started"], record["status"], results)
        for apply in self.applies.values():
            if apply.status == IN_PROGRESS:
                self.pool.run(self._revive(apply))

    async def _revive(self, apply: _Apply) -> None:
        """Finish an apply after a restart.

        Wait for the hardware, and skip procedures that had not begun.
        """
        devices = [d for p in apply.procedures if (d := self.pool.devices.get(p.device))]
        while any(d.state in (ATTACHING, DETACHING) for d in devices):
            await self.pool.changed_since(self.pool.generation, 60.0)
        for procedure in apply.procedures:
            apply.results.setdefault(procedure.number, COMPLETED if self._is_done(procedure) else SKIPPED)
        self._end(apply)

    def _is_done(self, procedure: Procedure) -> bool:
        machine, device = self.parts.sources.get(procedure.source), self.pool.devices.get(procedure.device)
        there = bool(machine and device and (device.machine, device.state) == (machine.uid, ATTACHED))
        return there == (procedure.operation == "connect")


async def _outcome(work: Operation | None) -> str:
    try:
        if work is not None:
            await work
    except PoolError:
        return FAILED
    return FAILED if work is None else COMPLETED
