# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fsas Fabric Manager's dialect over the pool: synchronous, one device per request."""

from __future__ import annotations

import functools
import json
import typing as t
import uuid

from aiohttp import web

from .bench import Bench
from .fm_body import attach_wish, detach_wish, queried_model
from .fm_errors import UNKNOWN_TENANT, FmError
from .parts import MachineSpec
from .pool import PooledDevice
from .request_log import ENTRY
from .tenanted import Tenanted

PREFIX: t.Final = "/fabric_manager/api/v1/machines"
_OP_STATUS: t.Final = {"OK": "00", "Warning": "10", "Critical": "20"}
_IN_USE: t.Final = 4
_RUNNING: t.Final = 15


def routes(bench: Bench) -> list[web.RouteDef]:
    """Everything that FM answers."""
    fm = _Fm(bench)
    one = PREFIX + "/{machine}"
    return [
        web.get(PREFIX, fm.guarded(fm.collection)),
        web.get(one, fm.guarded(fm.machine)),
        web.get(f"{one}/available-reserved-resources", fm.guarded(fm.available)),
        web.patch(f"{one}/update", fm.guarded(fm.attach)),
        web.delete(f"{one}/update", fm.guarded(fm.detach)),
    ]


class _Fm(Tenanted):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.numbers = {uid: number for number, uid in enumerate(bench.pool.machines, 1)}

    def admit(self, request: web.Request) -> None:
        """Also whose it is."""
        super().admit(request)
        tenant = request.query.get("tenant_uuid")
        if not tenant:
            raise FmError.malformed("tenant_uuid", "it is required")
        if tenant != self.bench.spec.tenant:
            raise FmError(404, UNKNOWN_TENANT, f"tenant {tenant} not found")

    async def collection(self, request: web.Request) -> t.Any:
        """GET of all machines."""
        return {"data": {"machines": [self._brief(machine) for machine in self.machines.values()]}}

    async def machine(self, request: web.Request) -> t.Any:
        """GET of one machine."""
        return {"data": {"machines": [self._full(self.asked(request))]}}

    async def available(self, request: web.Request) -> t.Any:
        """GET of the number of devices that could be attached; a model that nobody has counts 0."""
        machine = self.asked(request)
        kind, model = queried_model(request.query)
        request[ENTRY].model = model
        return {
            "fabric_uuid": _fabric_uuid(machine.fabric), "fabric_id": machine.fabric,
            "reserved_res_num_per_fabric": self.pool.free(machine.uid, model, kind),
        }

    async def attach(self, request: web.Request) -> t.Any:
        """PATCH: the reply is the machine with the new resource first."""
        machine = self.asked(request)
        wish = attach_wish(await _json(request), self.bench.spec.tenant, machine.uid)
        request[ENTRY].model = wish.model
        device = await self.pool.run(self.pool.attach(machine.uid, wish.model, wish.kind))
        reply = self._full(machine)
        reply["resources"].sort(key=lambda resource: resource["res_uuid"] != device.spec.uid)
        return {"data": {"machines": [reply]}}

    async def detach(self, request: web.Request) -> t.Any:
        """DELETE of one resource."""
        machine = self.asked(request)
        wish = detach_wish(await _json(request), self.bench.spec.tenant, machine.uid)
        request[ENTRY].device = wish.uid
        await self.pool.run(self.pool.detach(machine.uid, wish.uid))
        return {"data": {"machines": [self._full(machine)]}}

    def _brief(self, machine: MachineSpec) -> dict[str, t.Any]:
        return {
            "fabric_uuid": _fabric_uuid(machine.fabric), "fabric_id": machine.fabric, "mach_uuid": machine.uid,
            "mach_id": self.numbers[machine.uid], "mach_name": machine.name, "mach_owner": "composable",
            "resources": [*_builtin(machine.uid), *(resource(d) for d in self.pool.shown(machine.uid))],
        }

    def _full(self, machine: MachineSpec) -> dict[str, t.Any]:
        return {
            **self._brief(machine), "tenant_uuid": self.bench.spec.tenant, "mach_status": _RUNNING,
            "mach_op_status": "00", "mach_status_detail": "running", "boot_ssd": "", "lanports": [],
        }


async def _json(request: web.Request) -> t.Any:
    try:
        return await request.json(loads=json.loads)
    except ValueError:
        raise FmError.malformed("body", "it must be JSON") from None


@functools.cache
def _builtin(machine_uid: str) -> tuple[dict[str, t.Any], ...]:
    """What a machine has of its own; FM lists it among the composable devices."""
    return tuple(
        _resource(str(uuid.uuid5(uuid.UUID(machine_uid), kind)), f"{kind}-1", kind, "00", "", f"builtin-{kind}")
        for kind in ("compute", "memory")
    )


def resource(device: PooledDevice) -> dict[str, t.Any]:
    """A device as FM, and CM in its ``detail``, show it."""
    op_status = _OP_STATUS.get(device.health, "")
    return _resource(device.spec.uid, device.spec.name, device.kind, op_status, device.spec.serial, device.spec.model)


def _resource(uid: str, name: str, kind: str, op_status: str, serial: str, model: str) -> dict[str, t.Any]:
    return {
        "res_uuid": uid, "res_name": name, "res_type": kind, "res_status": _IN_USE, "res_op_status": op_status,
        "res_serial_num": serial,
        "res_spec": {"condition": [{"column": "model", "operator": "eq", "value": model}]},
    }


def _fabric_uuid(fabric: int | None) -> str | None:
    return None if fabric is None else str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{fabric}.fabric.composable.infra"))
