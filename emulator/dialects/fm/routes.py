# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dialect of Fsas Fabric Manager over the pool.

It is synchronous, with one device for each request.
"""

from __future__ import annotations

import functools
import json
import typing as t
import uuid

from aiohttp import web

from ...admin.request_log import ENTRY
from ...context import EmulatorContext
from ...pool.parts import MachineSpec
from ..shared.fsas.errors import UNKNOWN_TENANT, FsasError
from ..shared.fsas.resource import described, resource
from ..shared.fsas.tenanted import Tenanted
from .body import attach_update, detach_update, queried_model

PREFIX: t.Final = "/fabric_manager/api/v1/machines"
_RUNNING: t.Final = 15


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes of FM."""
    fm = _Fm(context)
    one = PREFIX + "/{machine}"
    return [
        web.get(PREFIX, fm.guarded(fm.collection)),
        web.get(one, fm.guarded(fm.machine)),
        web.get(f"{one}/available-reserved-resources", fm.guarded(fm.available)),
        web.patch(f"{one}/update", fm.guarded(fm.attach)),
        web.delete(f"{one}/update", fm.guarded(fm.detach)),
    ]


class _Fm(Tenanted):
    def __init__(self, context: EmulatorContext) -> None:
        super().__init__(context)
        self.numbers = {uid: number for number, uid in enumerate(context.pool.machines, 1)}

    def admit(self, request: web.Request) -> None:
        """Check the token, and the tenant of the query."""
        super().admit(request)
        tenant = request.query.get("tenant_uuid")
        if not tenant:
            raise FsasError.malformed("tenant_uuid", "it is required")
        if tenant != self.context.spec.tenant:
            raise FsasError(404, UNKNOWN_TENANT, f"tenant {tenant} not found")

    async def collection(self, request: web.Request) -> t.Any:
        """GET of all machines."""
        return {"data": {"machines": [self._brief(machine) for machine in self.machines.values()]}}

    async def machine(self, request: web.Request) -> t.Any:
        """GET of one machine."""
        return {"data": {"machines": [self._full(self.asked(request))]}}

    async def available(self, request: web.Request) -> t.Any:
        """GET of the number of devices that can be attached, 0 for an unknown model."""
        machine = self.asked(request)
        kind, model = queried_model(request.query)
        request[ENTRY].model = model
        return {
            "fabric_uuid": _fabric_uuid(machine.fabric), "fabric_id": machine.fabric,
            "reserved_res_num_per_fabric": self.pool.free(machine.uid, model, kind),
        }

    async def attach(self, request: web.Request) -> t.Any:
        """PATCH that attaches a device. The reply is the machine, with the new resource first."""
        machine = self.asked(request)
        update = attach_update(await _json(request), self.context.spec.tenant, machine.uid)
        request[ENTRY].model = update.model
        device = await self.pool.run(self.pool.attach(machine.uid, update.model, update.kind))
        reply = self._full(machine)
        reply["resources"].sort(key=lambda resource: resource["res_uuid"] != device.spec.uid)
        return {"data": {"machines": [reply]}}

    async def detach(self, request: web.Request) -> t.Any:
        """DELETE of one resource."""
        machine = self.asked(request)
        update = detach_update(await _json(request), self.context.spec.tenant, machine.uid)
        request[ENTRY].device = update.uid
        await self.pool.run(self.pool.detach(machine.uid, update.uid))
        return {"data": {"machines": [self._full(machine)]}}

    def _brief(self, machine: MachineSpec) -> dict[str, t.Any]:
        return {
            "fabric_uuid": _fabric_uuid(machine.fabric), "fabric_id": machine.fabric, "mach_uuid": machine.uid,
            "mach_id": self.numbers[machine.uid], "mach_name": machine.name, "mach_owner": "composable",
            "resources": [*_builtin(machine.uid), *(resource(d) for d in self.pool.shown(machine.uid))],
        }

    def _full(self, machine: MachineSpec) -> dict[str, t.Any]:
        return {
            **self._brief(machine), "tenant_uuid": self.context.spec.tenant, "mach_status": _RUNNING,
            "mach_op_status": "00", "mach_status_detail": "running", "boot_ssd": "", "lanports": [],
        }


async def _json(request: web.Request) -> t.Any:
    try:
        return await request.json(loads=json.loads)
    except ValueError:
        raise FsasError.malformed("body", "it must be JSON") from None


@functools.cache
def _builtin(machine_uid: str) -> tuple[dict[str, t.Any], ...]:
    """Return a machine's own parts, which FM lists among the composable devices."""
    return tuple(
        described(str(uuid.uuid5(uuid.UUID(machine_uid), kind)), f"{kind}-1", kind, "00", "", f"builtin-{kind}")
        for kind in ("compute", "memory")
    )


def _fabric_uuid(fabric: int | None) -> str | None:
    return None if fabric is None else str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{fabric}.fabric.composable.infra"))
