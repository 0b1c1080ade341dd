# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dialect of Sunfish over the pool, as a Redfish tree of fabrics, or with a number of GPUs per
node as CoHDI uses it.

``settings.sunfish.agents: false`` leaves out composition and fabrics. Then only systems with their
processors are shown, and PATCH of ``Systems/System`` sets how many GPUs of a model the node with
that name has in all.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

from aiohttp import web

from ...admin.request_log import ENTRY
from ...context import EmulatorContext
from ...pool.parts import MachineSpec
from ...pool.pool import ATTACHED
from ..shared.redfish.changes import in_a_word
from ..shared.redfish.documents import ROOT
from ..shared.redfish.errors import RedfishError
from ..shared.redfish.options import CONNECTIONS, Options
from ..shared.redfish.service import Service
from ..shared.redfish.tasks import PoolChange

COMPOSED: t.Final = f"{ROOT}/Systems/System"


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes of Sunfish."""
    options = Options.of(context.spec, "sunfish", [CONNECTIONS])
    if not options.agents:
        options = replace(options, dialects=frozenset(), reset_types=())
    service = Service(context, "sunfish", options, closed=False)
    counts = _Counts(service)
    if not options.agents:
        context.faults.teach("sunfish", counts.purpose)
    return [web.patch(COMPOSED, service.guarded(counts.patch)), *service.routes()]


class _Counts:
    """Requests with ``{Name, Processors: {Members: [{"@Redfish.RequestCount", ProcessorType,
    Model}]}}``.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.pool = service.context.pool

    async def patch(self, request: web.Request) -> web.StreamResponse:
        """Attach or detach until the node has the requested number."""
        try:
            body = await request.json(loads=json.loads)
        except ValueError:
            raise RedfishError(400, "the body must be JSON", "MalformedJSON") from None
        machine, model, count = self._asked(body)
        request[ENTRY].machine, request[ENTRY].model = machine.uid, model
        await self.service.tasks.carry_out(self._wants(machine, model, count))
        return web.Response(status=204)

    def purpose(self, path: str, body: t.Any) -> str:
        """Return ``attach`` or ``detach``, ``change`` if the node has the number already."""
        try:
            return in_a_word(self._wants(*self._asked(body)))
        except RedfishError:
            return "change"

    def _asked(self, body: t.Any) -> tuple[MachineSpec, str, int]:
        name, model, count = _count_in(body)
        machine = next((m for m in self.pool.machines.values() if m.name == name), None)
        if machine is None:
            raise RedfishError(404, f"there is no system {name}")
        return machine, model, count

    def _wants(self, machine: MachineSpec, model: str, count: int) -> list[PoolChange]:
        has = [d for d in self.pool.on(machine.uid) if d.spec.model == model]
        if count < len(has):
            leaving = [d for d in has if d.state == ATTACHED][count:]
            return [PoolChange(machine.uid, d.spec.uid, False) for d in leaving]
        free = list(self.pool.free_devices(machine.fabric, model, "gpu"))
        if len(has) + len(free) < count:
            text = f"the request is for {count} of {model}, but only {len(has) + len(free)} are available"
            raise RedfishError(400, text, "ResourceExhaustion")
        return [PoolChange(machine.uid, d.spec.uid, True) for d in free[:count - len(has)]]


def _count_in(body: t.Any) -> tuple[str, str, int]:
    try:
        member, = body["Processors"]["Members"]
        name, model, count = body["Name"], member["Model"], member["@Redfish.RequestCount"]
    except (KeyError, TypeError, ValueError):
        raise RedfishError(400, "Name and one member of Processors.Members are required", "PropertyMissing") from None
    if member.get("ProcessorType") != "GPU" or not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise RedfishError(400, "a member must have ProcessorType GPU and a count from 0", "PropertyValueError")
    if not (isinstance(name, str) and isinstance(model, str)):
        raise RedfishError(400, "Name and Model must be texts", "PropertyValueTypeError")
    return name, model, count
