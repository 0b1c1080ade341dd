# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fsas Cluster Manager (CM): asynchronous, one counter of devices per machine and model.

What it is asked and how a lost reply is made good is in ``cm_resize``, what its documents mean in ``cm_wire``.

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

from . import cm_wire as wire
from . import polling
from .batches import HANDLES, Batches, Wish, task_of
from .cm_outcome import Key
from .cm_resize import Resizer
from .config import FabricConfig
from .errors import FabricError, Missing
from .fm import FabricManager
from .fm_wire import Unreadable, read_error
from .parallel import outcomes
from .polling import Patience, tolerant
from .session import Session
from .types import Capabilities, Device, FabricSnapshot, Machine, Started, Task
from .verdicts import Call, malformed

LOOKS: t.Final = 3
PREFIX: t.Final = "/cluster_manager/cluster_autoscaler"

T = t.TypeVar("T")


class ClusterManager:
    """Client of one CM for one cluster of one tenant. Thread-safe; see ``types.Fabric``.

    Calls for one machine and model that come while CM is at work on it gather and go as one request.
    """

    capabilities: t.Final = Capabilities(
        asynchronous=True, batch=True, concurrent_per_machine=True, names_device=False, lists_all=True
    )

    def __init__(self, config: FabricConfig) -> None:
        self._config = config
        self._session = Session(config, read_error)
        self._fm = FabricManager(config, self._session)
        self._resizer = Resizer(
            self._session.call, self._sheet, self._free, lambda uid: f"{self._path(uid)}/actions/resize",
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
        sheet = self._sheet(uid)
        fabric = sheet.fabric()
        if fabric is None and uid not in self._fabrics:
            self._fabrics[uid] = self._fm.machine(uid).fabric
        fabric = self._fabrics.get(uid) if fabric is None else fabric
        return Machine(uid, sheet.name, fabric, tuple(replace(d, fabric=fabric) for d in sheet.devices()))

    def free(self, machine_uid: str, model: str) -> int:
        """Devices of ``model`` that FM could still give to the machine."""
        return self._fm.free(machine_uid, model)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """FM's list of machines and its count of free devices per (model, fabric)."""
        return self._fm.snapshot(models)

    def devices(self) -> tuple[Device, ...]:
        """Devices attached to any machine; free ones are only counted."""
        return tuple(device for machine in self.machines() for device in machine.devices)

    def sizes(self) -> Mapping[str, Mapping[str, wire.Size]]:
        """How many of each model every machine must and may have: by machine uid, then by model.

        A node group's machines are alike, so one member speaks for all, as in CoHDI (its labels ``size-min`` and
        ``size-max``). A group that cannot be read is left out.
        """
        groups = self._read(Call("GET", self._v2(), "list the node groups"), wire.groups)
        found = outcomes(self._group_sizes, groups)
        return {uid: sizes for group in found if isinstance(group, dict) for uid, sizes in group.items()}

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None,
    ) -> Task:
        """Attach ``count`` devices. Refused with ``device``: CM lists it, failed or sick; it must be detached.

        A resize names a number only, so CM cannot know a ``token``.
        """
        return task_of(self._batches.run(Key(machine_uid, kind, model), [None] * count, started))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None) -> Task:
        """Detach one device, or strike one off that failed to come."""
        spec = self._sheet(machine_uid).holder(device_uid)
        if spec is None:
            return Task(True)
        wishes = self._batches.run(Key(machine_uid, spec.kind, spec.model), [device_uid], started)
        entry = spec.entry(device_uid)
        done = task_of(wishes)
        return replace(done, devices=(entry.device,) if entry and entry.device else ())

    def resume(self, handle: str) -> Task:
        """Wait for what an earlier process asked for; Missing when CM's document shows nothing of it."""
        wishes = []
        for result in outcomes(self._resume, handle.split(HANDLES)):
            wish = result if isinstance(result, Wish) else Wish(None)
            if isinstance(result, FabricError):
                wish.fail(result)
            wishes.append(wish)
        return replace(task_of(wishes), handle=handle)

    def close(self) -> None:
        """Close all kept connections."""
        self._session.close()

    def _resume(self, handle: str) -> Wish[str | None]:
        told = _told(handle)
        key = Key(told["machine"], told["kind"], told["model"])
        wish: Wish[str | None] = Wish(told.get("device"))
        if wish.what is not None:
            self._await_trace(handle, key, lambda spec: not (e := spec.entry(str(wish.what))) or not e.ended)
            self._resizer.await_removed(key, [wish])
        else:
            before = frozenset(told["before"])
            self._await_trace(handle, key, lambda spec: any(e.uid not in before for e in spec.entries))
            self._resizer.await_added(key, before, told["count"], {told["slot"]: wish})
        return wish

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

    def _group_sizes(self, group: str) -> dict[str, Mapping[str, wire.Size]]:
        members = self._read(Call("GET", self._v2(group), f"read node group {group}"), wire.members)
        if not members:
            return {}
        sizes = {spec.model: spec.size for spec in self._sheet(members[0]).specs if spec.model}
        return dict.fromkeys(members, sizes)

    def _sheet(self, uid: str) -> wire.Sheet:
        purpose = f"read machine {uid} of cluster {self._config.cluster}"
        return self._read(Call("GET", self._path(uid), purpose), wire.sheet)

    def _read(self, call: Call, read: Callable[[t.Any], T]) -> T:
        body = self._session.call(call)
        try:
            return read(body)
        except Unreadable as error:
            raise malformed(call, str(error)) from None

    def _path(self, machine: str) -> str:
        return f"{self._base('v3')}/machines/{quote(machine, safe='')}"

    def _v2(self, group: str = "") -> str:
        return f"{self._base('v2')}/nodegroups{'/' if group else ''}{quote(group, safe='')}"

    def _base(self, version: str) -> str:
        return f"{PREFIX}/{version}/tenants/{self._config.tenant}/clusters/{self._config.cluster}"


def _told(handle: str) -> dict[str, t.Any]:
    """What ``cm_resize.handle`` wrote. Raises Missing."""
    try:
        told = json.loads(handle)
        if {"machine", "kind", "model"} <= told.keys() and ("device" in told or {"before", "slot"} <= told.keys()):
            return t.cast("dict[str, t.Any]", told)
    except (ValueError, AttributeError):
        pass
    raise Missing(f"cannot wait for operation {handle!r}: it is no handle of CM")
