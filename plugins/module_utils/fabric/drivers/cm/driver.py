# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fsas Cluster Manager (CM): asynchronous, one counter of devices per machine and model.

What it is asked and how a lost reply is made good is in ``resize``, what its documents mean in ``wire``.

CM tells nothing of free devices and of fabrics. As CoHDI does, both are asked of the Fabric Manager that stands behind
it at the same address with the same login: ``free`` and ``snapshot`` are FM's count of reservable devices, ``machines``
FM's list. What one machine has comes from CM's own document, since that knows what is still on its way.
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
    """What CM's client asks of the Fabric Manager that stands behind it. All of it blocks and raises FabricError."""

    def machines(self) -> tuple[Machine, ...]:
        """All machines of the tenant."""

    def machine(self, uid: str) -> Machine:
        """One of them, with its fabric."""

    def free(self, machine_uid: str, model: str, kind: str = "gpu") -> int:
        """How many devices could be attached to the machine now."""

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Machines, and free devices of each of ``models`` per fabric."""


class CmDriver:
    """Client of one CM for one cluster of one tenant. Thread-safe; see ``api.FabricManager``.

    Calls for one machine and model that come while CM is at work on it gather and go as one request.
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
        """All machines of the tenant, by one request to FM."""
        found = self._fm.machines()
        self._fabrics = {machine.uid: machine.fabric for machine in found}
        return found

    def machine(self, uid: str) -> Machine:
        """One machine with the devices that CM has attached; Missing when CM does not know it."""
        document = self._document(uid)
        fabric = document.fabric()
        if fabric is None and uid not in self._fabrics:
            self._fabrics[uid] = self._fm.machine(uid).fabric
        fabric = self._fabrics.get(uid) if fabric is None else fabric
        return Machine(uid, document.name, fabric, tuple(replace(d, fabric=fabric) for d in document.devices()))

    def free(self, machine_uid: str, model: str) -> int:
        """Devices of ``model`` that FM could still give to the machine."""
        return self._fm.free(machine_uid, model)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """FM's list of machines and its count of free devices per (model, fabric), and CM's limits of machines."""
        found = self._fm.snapshot(models)
        try:
            return replace(found, sizes=self.sizes())
        except FabricError as error:
            return replace(found, problems={**found.problems, "node groups": error.message})

    def devices(self) -> tuple[Device, ...]:
        """Devices attached to any machine; free ones are only counted."""
        return tuple(device for machine in self.machines() for device in machine.devices)

    def sizes(self) -> Mapping[str, Mapping[str, Size]]:
        """How many of each model every machine must and may have: by machine uid, then by model.

        A node group's machines are alike, so one member speaks for all, as in CoHDI (its labels ``size-min`` and
        ``size-max``). A group that cannot be read is left out.
        """
        groups = read_reply(self._session, Request("GET", self._v2(), "list the node groups"), wire.groups)
        found = outcomes(self._group_sizes, groups)
        return {uid: sizes for group in found if isinstance(group, dict) for uid, sizes in group.items()}

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices. Refused with ``device``: CM lists it, failed or sick; it must be detached.

        A resize names a number only, so CM cannot know a ``token``.
        """
        return task_of(self._batches.run(Key(machine_uid, kind, model), [None] * count, started, proof))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device, or strike one off that failed to come.

        It is done without a request if two documents do not name it.
        """
        spec = self._document(machine_uid).holder(device_uid) or self._document(machine_uid).holder(device_uid)
        if spec is None:
            return Task(True)
        operations = self._batches.run(Key(machine_uid, spec.kind, spec.model), [device_uid], started, proof)
        entry = spec.entry(device_uid)
        done = task_of(operations)
        return replace(done, devices=(entry.device,) if entry and entry.device else ())

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for what an earlier process asked for; Missing when CM's document shows nothing of it."""
        operations = []
        for result in outcomes(self._resume, handles):
            operation = result if isinstance(result, PendingOperation) else PendingOperation(None)
            if isinstance(result, FabricError):
                operation.fail(result)
            operations.append(operation)
        return replace(task_of(operations), handles=handles)

    def close(self) -> None:
        """Close all kept connections."""
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
        """Devices that are free; None when that cannot be learned. What a refusal means hangs on it: look again."""
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
    """What ``outcome.handle`` wrote. Raises Missing, and Uncertain for another version."""
    try:
        told = json.loads(handle)
        check_version(told)
        if {"machine", "kind", "model"} <= told.keys() and ("device" in told or {"before", "slot"} <= told.keys()):
            return t.cast("dict[str, t.Any]", told)
    except (ValueError, AttributeError):
        pass
    raise Missing(f"cannot wait for operation {handle!r}: it is no handle of CM")
