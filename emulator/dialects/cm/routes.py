# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dialect of Fsas Cluster Manager over the pool.

It is asynchronous, and clients request numbers of devices.

These settings under ``settings.cm`` select between behaviors that CM does not document.

- ``device_count``: ``all`` counts devices from the start, also those that are being added or
  failed. ``complete`` counts devices after they were added.
- ``limits``: ``{MODEL: [min, max]}``, numbers of devices of one machine, null for no limit.

A device that could not be added stays listed as ADD_FAILED until it is removed. Meanwhile no other
machine gets it. Operations in flight survive a restart, but the record of a failure does not.
"""

from __future__ import annotations

import functools
import json
import typing as t
import uuid

from aiohttp import web

from ...admin.request_log import ENTRY
from ...context import EmulatorContext
from ...pool.fields import SpecError
from ...pool.parts import MachineSpec, Model
from ...pool.pool import ATTACHED, ATTACHING, DETACHING, Operation, OperationFailed, PooledDevice
from ..shared.fsas.errors import BUSY, INSUFFICIENT, UNKNOWN_RESOURCE, UNKNOWN_TENANT, FsasError
from ..shared.fsas.resource import resource
from ..shared.fsas.tenanted import Tenanted
from .body import Resize, resize

PREFIX: t.Final = "/cluster_manager/cluster_autoscaler"
CLUSTER: t.Final = "tenants/{tenant}/clusters/{cluster}"
READINGS: t.Final = ("all", "complete")
_STATUS: t.Final = {ATTACHING: "ADDING", ATTACHED: "ADD_COMPLETE", DETACHING: "REMOVING"}
_LIMIT: t.Final = "E030409"


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes of CM itself."""
    cm = _Cm(context)
    machine = f"{PREFIX}/v3/{CLUSTER}/machines/{{machine}}"
    groups = f"{PREFIX}/v2/{CLUSTER}/nodegroups"
    return [
        web.get(groups, cm.guarded(cm.groups)),
        web.get(f"{groups}/{{group}}", cm.guarded(cm.group)),
        web.get(machine, cm.guarded(cm.machine)),
        web.post(f"{machine}/actions/resize", cm.guarded(cm.resize)),
    ]


class _Cm(Tenanted):
    def __init__(self, context: EmulatorContext) -> None:
        super().__init__(context)
        settings = context.spec.settings.get("cm", {})
        self.reading = settings.get("device_count", READINGS[0])
        if self.reading not in READINGS:
            raise SpecError("settings.cm.device_count", f"{self.reading!r} is not allowed. Allowed are "
                                                        f"{', '.join(READINGS)}")
        self.limits: dict[str, list[int | None]] = settings.get("limits", {})
        # Devices that could not be added or removed, and why, by uid.
        self.lost: dict[str, tuple[str, str]] = {}
        self.stuck: dict[str, str] = {}
        self.resets = self.pool.resets

    def admit(self, request: web.Request) -> None:
        """Check the token, and the tenant and cluster of the path."""
        super().admit(request)
        if self.resets != self.pool.resets:
            self.resets = self.pool.resets
            self.lost, self.stuck = {}, {}
        asked = request.match_info
        for what, known in (("tenant", self.context.spec.tenant), ("cluster", self.context.spec.cluster)):
            if asked[what] != known:
                raise FsasError(404, UNKNOWN_TENANT, f"{what} {asked[what]} not found")

    async def groups(self, request: web.Request) -> t.Any:
        """GET of the node groups. The machines of one fabric are one group."""
        fabrics = sorted({m.fabric for m in self.machines.values()}, key=str)
        return {"nodegroups": [{"uuid": _group_uuid(f), "name": _group_name(f)} for f in fabrics]}

    async def group(self, request: web.Request) -> t.Any:
        """GET of one node group."""
        asked = request.match_info["group"]
        found = [m for m in self.machines.values() if _group_uuid(m.fabric) == asked]
        if not found:
            raise FsasError(404, UNKNOWN_RESOURCE, f"node group {asked} not found")
        return {"uuid": asked, "name": _group_name(found[0].fabric), "mach_ids": [m.uid for m in found]}

    async def machine(self, request: web.Request) -> t.Any:
        """GET of one machine with its resspecs."""
        machine = self.asked(request)
        specs = [self._resspec(machine, model) for model in self.context.spec.models.values()]
        told = {"uuid": machine.uid, "name": machine.name, "status": "ACTIVE", "status_reason": "", "resspecs": specs}
        cluster = {"cluster_uuid": self.context.spec.cluster, "machine": told}
        return {"data": {"tenant_uuid": self.context.spec.tenant, "cluster": cluster}}

    async def resize(self, request: web.Request) -> t.Any:
        """POST of a resize, which is accepted at once and done later."""
        machine = self.asked(request)
        try:
            wanted = resize(await request.json(loads=json.loads))
        except ValueError:
            raise FsasError.malformed("body", "it must be JSON") from None
        model = next((m for m in self.context.spec.models.values() if _spec_uuid(machine.uid, m.name) == wanted.spec),
                     None)
        if model is None:
            raise FsasError(404, UNKNOWN_RESOURCE, f"machine {machine.uid} has no resspec {wanted.spec}")
        request[ENTRY].model = model.name
        if wanted.devices:
            self._remove(machine, model, wanted)
        else:
            self._increase(machine, model, wanted)
        return {}

    def _increase(self, machine: MachineSpec, model: Model, wanted: Resize) -> None:
        most = self._limits(model)[1]
        if most is not None and wanted.count > most:
            raise FsasError(400, _LIMIT, f"device_count {wanted.count} is above max_resspec_count {most}")
        more = wanted.count - self._count(machine, model, adding=True)
        if more < 0:
            raise FsasError.malformed("device_count", "it is lower than the number of devices")
        free = self.pool.free_devices(machine.fabric, model.name, model.kind)
        available = [d for d in free if d.spec.uid not in self.lost]
        if len(available) < more:
            text = f"insufficient resources: {len(available)} of {more} devices of model {model.name} are free"
            raise FsasError(404, INSUFFICIENT, text)
        for device in available[:more]:
            self.pool.run(self._add(machine, self.pool.begin_attach(machine.uid, device.spec.uid)))

    async def _add(self, machine: MachineSpec, operation: Operation) -> None:
        began = self.pool.resets
        try:
            await operation
        except OperationFailed as error:
            if began == self.pool.resets:
                self.lost[error.device.spec.uid] = (machine.uid, str(error))

    def _remove(self, machine: MachineSpec, model: Model, wanted: Resize) -> None:
        listed = {d.spec.serial: d for d in self._listed(machine, model)}
        for serial in wanted.devices:
            if serial not in listed:
                raise FsasError(404, UNKNOWN_RESOURCE, f"machine {machine.uid} has no device {serial}")
            if listed[serial].state in (ATTACHING, DETACHING):
                raise FsasError(409, BUSY, f"device {serial} is {listed[serial].state}")
        going = [listed[serial] for serial in wanted.devices]
        left = self._count(machine, model) - sum(self._counts(machine, d) for d in going)
        if wanted.count != left:
            raise FsasError.malformed("device_count", f"it must be {left}, the count without these devices, not "
                                                      f"{wanted.count}")
        for device in going:
            if self.lost.pop(device.spec.uid, None) is None:
                self.stuck.pop(device.spec.uid, None)
                self.pool.run(self._take(self.pool.begin_detach(machine.uid, device.spec.uid)))

    async def _take(self, operation: Operation) -> None:
        began = self.pool.resets
        try:
            await operation
        except OperationFailed as error:
            if began == self.pool.resets:
                self.stuck[error.device.spec.uid] = str(error)

    def _listed(self, machine: MachineSpec, model: Model) -> list[PooledDevice]:
        lost = [self.pool.devices[uid] for uid, (where, _unused) in self.lost.items() if where == machine.uid]
        return [d for d in (*self.pool.on(machine.uid), *lost) if d.spec.model == model.name]

    def _counts(self, machine: MachineSpec, device: PooledDevice, *, adding: bool = False) -> bool:
        counted = adding or self.reading == "all"
        return self.reading == "all" if device.machine != machine.uid else counted or device.state != ATTACHING

    def _count(self, machine: MachineSpec, model: Model, *, adding: bool = False) -> int:
        return sum(self._counts(machine, d, adding=adding) for d in self._listed(machine, model))

    def _limits(self, model: Model) -> list[int | None]:
        return self.limits.get(model.name, [None, None])

    def _resspec(self, machine: MachineSpec, model: Model) -> dict[str, t.Any]:
        least, most = self._limits(model)
        conditions = [{"column": "model", "operator": "eq", "value": model.name}]
        return {
            "spec_uuid": _spec_uuid(machine.uid, model.name), "type": model.kind,
            "selector": {"version": "v1", "expression": {"conditions": conditions}},
            "min_resspec_count": least, "max_resspec_count": most, "device_count": self._count(machine, model),
            "devices": [self._device(machine, d) for d in self._listed(machine, model)],
        }

    def _device(self, machine: MachineSpec, device: PooledDevice) -> dict[str, t.Any]:
        uid = device.spec.uid
        status, reason = _STATUS.get(device.state, ""), ""
        if uid in self.lost:
            status, reason = "ADD_FAILED", self.lost[uid][1]
        elif device.state == ATTACHED and uid in self.stuck:
            status, reason = "REMOVE_FAILED", self.stuck[uid]
        detail = {"fabric_id": device.spec.fabric, "tenant_uuid": self.context.spec.tenant, "mach_uuid": machine.uid}
        return {
            "device_id": device.spec.serial, "status": status, "status_reason": reason,
            "detail": {**resource(device), **detail},
        }


@functools.cache
def _spec_uuid(machine_uid: str, model: str) -> str:
    return str(uuid.uuid5(uuid.UUID(machine_uid), f"resspec {model}"))


def _group_name(fabric: int | None) -> str:
    return "apart" if fabric is None else f"fabric-{fabric}"


def _group_uuid(fabric: int | None) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{_group_name(fabric)}.nodegroup.composable.infra"))
