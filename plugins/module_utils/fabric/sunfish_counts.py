# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sunfish as CoHDI asks it: how many GPUs of a model a node shall have.

The number names no device, so a device can be taken from a machine only when it is the last one of its model there. It
is the wanted end: sending it again after a lost reply does nothing more, so a lost reply is answered by the same
request, and what the machine then has is adopted.
"""

from __future__ import annotations

import time
import typing as t
from collections import defaultdict
from collections.abc import Iterable, Sequence

from .batches import Batches, Take, Wish, task_of
from .config import FabricConfig
from .errors import Busy, FabricError, Missing, Refused, Unavailable, Uncertain
from .fm import healthy
from .redfish import kinds
from .redfish.compose import names
from .redfish.resources import ComputerSystem, Part
from .redfish.service import Service, read_error
from .session import Session
from .types import Capabilities, Device, FabricSnapshot, Machine, Started, Task
from .verdicts import Call

COMPOSED: t.Final = "/redfish/v1/Systems/System"
EXHAUSTED: t.Final = "ResourceExhaustion"
REPEATS: t.Final = 3


class Counts:
    """Numbers of GPUs per node. Several wishes for one machine go as one number. Thread-safe."""

    capabilities: t.Final = Capabilities(
        asynchronous=False, batch=True, concurrent_per_machine=True, names_device=False, lists_all=True,
        counts_free=False,
    )

    def __init__(self, config: FabricConfig) -> None:
        self._config = config
        self._session = Session(config, read_error)
        self._service = Service(self._session)
        self._batches: Batches[tuple[str, int]] = Batches(self._raise)

    def machines(self) -> tuple[Machine, ...]:
        """All systems with their GPUs; Sunfish tells of no fabric, so all are on the first."""
        return tuple(self._machine(system, uid) for system, uid in self._systems())

    def machine(self, uid: str) -> Machine:
        """One of them."""
        found = next((system for system, known in self._systems() if known == uid), None)
        if found is None:
            raise Missing(f"machine {uid}: Sunfish knows no such machine")
        return self._machine(found, uid)

    def free(self, machine_uid: str, model: str) -> int:
        """Sunfish does not say."""
        raise Refused(f"Sunfish without agents does not say how many {model} are free")

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Machines, and why there are no numbers."""
        taken = time.time()
        machines = {machine.uid: machine for machine in self.machines()}
        why = "fabric 1: Sunfish without agents does not say how many devices are free"
        return FabricSnapshot(machines, {}, taken, {f"{model}/1": why for model in models})

    def devices(self) -> tuple[Device, ...]:
        """Attached ones."""
        return tuple(device for machine in self.machines() for device in machine.devices)

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None,
    ) -> Task:
        """Raise the machine's number by ``count``."""
        if kind != "gpu":
            raise Refused(f"cannot attach a {model} to machine {machine_uid}: Sunfish without agents has only GPUs")
        return task_of(self._batches.run(machine_uid, [(model, n) for n in range(count)], started))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None) -> Task:
        """Lower the number to 0, when the device is the only one of its model."""
        machine = self.machine(machine_uid)
        device = next((d for d in machine.devices if d.uid == device_uid), None)
        if device is None:
            return Task(True)
        others = [d.uid for d in machine.devices if d.model == device.model and d.uid != device_uid]
        if others:
            raise Refused(
                f"cannot detach device {device_uid} from machine {machine.name}: Sunfish without agents takes only a "
                f"number of {device.model}, so it could take {', '.join(others)} instead"
            )
        if self._set(machine, device.model, 0):
            raise Uncertain(f"cannot detach device {device_uid} from machine {machine.name}: Sunfish still shows it")
        return Task(True, (device,))

    def resume(self, handle: str) -> Task:
        """Sunfish answers when it is done."""
        raise Missing(f"cannot wait for operation {handle}: Sunfish without agents has no asynchronous operations")

    def close(self) -> None:
        """Close all kept connections."""
        self._session.close()

    def _raise(self, uid: str, take: Take[tuple[str, int]]) -> None:
        machine, wishes = self.machine(uid), take()
        by_model: defaultdict[str, list[Wish[tuple[str, int]]]] = defaultdict(list)
        for wish in wishes:
            by_model[wish.what[0]].append(wish)
        for model, wanted in by_model.items():
            try:
                self._more(machine, model, wanted)
            except FabricError as error:
                for wish in wanted:
                    wish.fail(error)

    def _more(self, machine: Machine, model: str, wishes: Sequence[Wish[tuple[str, int]]]) -> None:
        had = {d.uid for d in machine.devices if d.model == model}
        new = [d for d in self._set(machine, model, len(had) + len(wishes)) if d.uid not in had]
        short = Uncertain(f"cannot attach a {model} to machine {machine.name}: Sunfish says done, but does not show it")
        for number, wish in enumerate(wishes):
            try:
                if number >= len(new):
                    raise short
                wish.fulfil(_sound(new[number]))
            except FabricError as error:
                wish.fail(error)

    def _set(self, machine: Machine, model: str, count: int) -> list[Device]:
        """The machine's devices of the model once the number is in force; repeated when the reply was lost."""
        member = {"@Redfish.RequestCount": count, "ProcessorType": "GPU", "Model": model}
        call = Call(
            "PATCH", COMPOSED, f"give {count} {model} to machine {machine.name}", effect=True, reads=False,
            body={"Name": machine.name, "Processors": {"Members": [member]}}, timeout=self._config.attach_timeout,
        )
        lost: list[Uncertain] = []
        while True:
            try:
                self._session.call(call)
                break
            except Uncertain as error:
                lost.append(error)
                if len(lost) == REPEATS:
                    raise
            except (Unavailable, Busy):
                # this one has done nothing, but the one before may have
                if lost:
                    raise lost[0] from None
                raise
            except Refused as error:
                error.exhausted = EXHAUSTED in (error.code or "")
                raise
        return [d for d in self.machine(machine.uid).devices if d.model == model]

    def _systems(self) -> list[tuple[ComputerSystem, str]]:
        systems = self._service.members(ComputerSystem, self._service.root().systems)
        known = names(systems)
        return [(system, known[system.uri]) for system in systems]

    def _machine(self, system: ComputerSystem, uid: str) -> Machine:
        parts = self._service.members(Part, system.processors)
        found = [_device(part, uid) for part in parts if kinds.kind_of(part) == "gpu"]
        return Machine(uid, system.name or uid, 1, tuple(sorted(found, key=lambda device: device.uid)))


def _sound(device: Device) -> Device:
    """The device; Refused when it says that it is broken."""
    return healthy(device, "Status.Health") if device.health == "Critical" else device


def _device(part: Part, machine: str) -> Device:
    traits = kinds.traits([part])
    return Device(
        uid=part.uuid or part.uri, model=traits.model, kind=traits.kind, fabric=1, machine=machine,
        health=kinds.worst(part.status), serial=traits.serial, name=part.name,
    )
