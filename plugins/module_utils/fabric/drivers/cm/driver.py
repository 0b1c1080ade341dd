# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver for Fsas Cluster Manager (CM), which is asynchronous and counts devices.

``resize`` has the requests and the recovery from lost replies. ``wire`` has the meaning of CM's
documents.

CM reports neither free devices nor fabrics. As in CoHDI, the driver reads both from the Fabric
Manager at the same address and login. ``free`` and ``snapshot`` use FM's count of reservable
devices, and ``machines`` uses FM's list. The devices of one machine come from CM's own document,
because only CM knows the operations in flight.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote

from ...api import Capabilities, Device, FabricSnapshot, Machine, Proof, Size, Started, Task
from ...config import FabricConfig
from ...errors import FabricError, Missing
from ...http.request import Request
from ...http.session import Session
from ...operations import polling
from ...operations.batches import Batches, PendingOperation, task_of
from ...operations.handles import check_version
from ...operations.parallel import outcomes
from ...operations.polling import Patience, tolerant
from ..shared.replies import about, read_reply
from . import wire
from .outcome import Key
from .resize import Resizer

LOOKS: t.Final = 3
PREFIX: t.Final = "/cluster_manager/cluster_autoscaler"


class FabricManagerBehind(t.Protocol):
    """The part of FM that CM's driver uses. All calls block and raise FabricError."""

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines of the tenant."""

    def machine(self, uid: str) -> Machine:
        """Return one machine with its fabric."""

    def free(self, machine_uid: str, model: str, kind: str = "gpu") -> int:
        """Return how many devices can be attached to the machine now."""

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return the machines, and the free devices of each of ``models`` by fabric."""


class CmDriver:
    """Client of one CM for one cluster of one tenant. Thread-safe. See ``api.FabricManager``.

    While CM works on a machine and model, further calls for them are collected into one request.
    """

    capabilities: t.Final = Capabilities(asynchronous=True, batch=True)

    def __init__(self, config: FabricConfig, session: Session, fm: FabricManagerBehind) -> None:
        self._config = config
        self._session = session
        self._fm = fm
        self._resizer = Resizer(
            self._session.call, self._document, self._free, lambda uid: f"{self._path(uid)}/actions/resize",
            config.attach_timeout,
        )
        self._batches: Batches[str | None] = Batches(self._resizer.work)
        self._fabrics: dict[str, int | None] = {}

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines of the tenant, by one request to FM."""
        found = self._fm.machines()
        self._fabrics = {machine.uid: machine.fabric for machine in found}
        return found

    def machine(self, uid: str) -> Machine:
        """Return one machine with the devices that CM has attached. Raise Missing."""
        document = self._document(uid)
        fabric = document.fabric()
        if fabric is None and uid not in self._fabrics:
            self._fabrics[uid] = self._fm.machine(uid).fabric
        fabric = self._fabrics.get(uid) if fabric is None else fabric
        return Machine(uid, document.name, fabric, tuple(replace(d, fabric=fabric) for d in document.devices()))

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of ``model`` FM can attach to the machine."""
        return self._fm.free(machine_uid, model)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return FM's machines and free devices by (model, fabric), with CM's limits."""
        found = self._fm.snapshot(models)
        try:
            return replace(found, sizes=self.sizes())
        except FabricError as error:
            return replace(found, problems={**found.problems, "node groups": error.message})

    def devices(self) -> tuple[Device, ...]:
        """Return the devices attached to any machine. Free devices are only counted."""
        return tuple(device for machine in self.machines() for device in machine.devices)

    def sizes(self) -> Mapping[str, Mapping[str, Size]]:
        """Return the minimum and maximum of each model by machine uid, then by model.

        The machines of a node group are alike, so one member represents all, as in CoHDI (labels
        ``size-min`` and ``size-max``). A group that cannot be read is left out.
        """
        groups = read_reply(self._session, Request("GET", self._v2(), "list the node groups"), wire.groups)
        found = outcomes(self._group_sizes, groups)
        return {uid: sizes for group in found if isinstance(group, dict) for uid, sizes in group.items()}

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices. Ignore ``token``, because a resize names only a number.

        Raise Refused with ``device`` if CM lists a failed or unhealthy device, which must be
        detached.
        """
        return task_of(self._batches.run(Key(machine_uid, kind, model), [None] * count, started, proof))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device, or remove a device that failed to attach.

        If two documents do not name the device, send no request.
        """
        spec = self._document(machine_uid).holder(device_uid) or self._document(machine_uid).holder(device_uid)
        if spec is None:
            return Task(True)
        operations = self._batches.run(Key(machine_uid, spec.kind, spec.model), [device_uid], started, proof)
        entry = spec.entry(device_uid)
        done = task_of(operations)
        return replace(done, devices=(entry.device,) if entry and entry.device else ())

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for operations of an earlier process. Raise Missing if CM shows none of them."""
        operations = []
        for result in outcomes(self._resume, handles):
            operation = result if isinstance(result, PendingOperation) else PendingOperation(None)
            if isinstance(result, FabricError):
                operation.fail(result)
            operations.append(operation)
        return replace(task_of(operations), handles=handles)

    def close(self) -> None:
        """Close all idle connections."""
        self._session.close()

    def _resume(self, handle: str) -> PendingOperation[str | None]:
        told = _told(handle)
        key = Key(told["machine"], told["kind"], told["model"])
        operation: PendingOperation[str | None] = PendingOperation(told.get("device"))
        if operation.what is not None:
            self._await_trace(handle, key, lambda spec: not (e := spec.entry(str(operation.what))) or not e.ended)
            self._resizer.await_removed(key, [operation])
        else:
            before = frozenset(told["before"])
            self._await_trace(handle, key, lambda spec: any(e.uid not in before for e in spec.entries))
            self._resizer.await_added(key, before, told["count"], {told["slot"]: operation})
        return operation

    def _await_trace(self, handle: str, key: Key, seen: Callable[[wire.Spec], bool]) -> None:
        patience = Patience(min(polling.NOTICE_SECONDS, self._config.attach_timeout))
        while not seen(self._resizer.spec(key)):
            if patience.over:
                raise Missing(f"cannot wait for operation {handle}: CM's document of the machine shows nothing of it")
            patience.pause()

    def _free(self, key: Key) -> int | None:
        """Return the number of free devices, or None if no poll succeeds.

        The meaning of a refusal depends on this number, so poll several times.
        """
        looks = (tolerant(lambda: self._fm.free(key.machine, key.model, key.kind)) for _attempt in range(LOOKS))
        return next((found for found in looks if found is not None), None)

    def _group_sizes(self, group: str) -> dict[str, Mapping[str, Size]]:
        members = read_reply(self._session, Request("GET", self._v2(group), f"read node group {group}"), wire.members)
        if not members:
            return {}
        sizes = {spec.model: spec.size for spec in self._document(members[0]).specs if spec.model}
        return dict.fromkeys(members, sizes)

    def _document(self, uid: str) -> wire.MachineDocument:
        purpose = f"read machine {uid} of cluster {self._config.cluster}"

        def read(body: t.Any) -> wire.MachineDocument:
            found = wire.document(body)
            about(uid, found.uid, "machine")
            return found

        return read_reply(self._session, Request("GET", self._path(uid), purpose), read)

    def _path(self, machine: str) -> str:
        return f"{self._base('v3')}/machines/{quote(machine, safe='')}"

    def _v2(self, group: str = "") -> str:
        return f"{self._base('v2')}/nodegroups{'/' if group else ''}{quote(group, safe='')}"

    def _base(self, version: str) -> str:
        return f"{PREFIX}/{version}/tenants/{self._config.tenant}/clusters/{self._config.cluster}"


def _told(handle: str) -> dict[str, t.Any]:
    """Read a handle from ``outcome.handle``. Raise Missing, and Uncertain for another version."""
    try:
        told = json.loads(handle)
        check_version(told)
        if {"machine", "kind", "model"} <= told.keys() and ("device" in told or {"before", "slot"} <= told.keys()):
            return t.cast("dict[str, t.Any]", told)
    except (ValueError, AttributeError):
        pass
    raise Missing(f"cannot wait for operation {handle!r}: it is no handle of CM")
