# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sunfish without agents, as CoHDI uses it: the wanted number of GPUs of a model on a node.

The number names no device, so only the last device of a model can be detached from a machine. The
number is the wanted state, so the driver repeats the same request after a lost reply and adopts the
resulting devices.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ...api import Capabilities, Device, FabricSnapshot, Machine, Proof, Started, Task
from ...config import FabricConfig
from ...errors import FabricError, Missing, Refused, Uncertain, Withdrawn
from ...http.request import Request
from ...http.session import Session
from ...operations.batches import Batches, PendingOperation, Take, proof_of, task_of
from ...operations.polling import Patience
from ..shared.redfish import device_kinds
from ..shared.redfish.resources import ComputerSystem, Part, system_uids
from ..shared.redfish.service import Service, read_error
from ..shared.replies import healthy

COMPOSED: t.Final = "/redfish/v1/Systems/System"
EXHAUSTED: t.Final = "ResourceExhaustion"
REPEATS: t.Final = 3


class Counts:
    """Sets numbers of GPUs by node. Operations for one machine share a number. Thread-safe."""

    capabilities: t.Final = Capabilities(asynchronous=False, batch=True, counts_free=False)

    def __init__(self, config: FabricConfig) -> None:
        self._config = config
        self._session = Session(config, read_error)
        self._service = Service(self._session)
        self._batches: Batches[tuple[str, int]] = Batches(self._raise)
        self._turns: dict[str, threading.Lock] = {}

    def machines(self) -> tuple[Machine, ...]:
        """Return all systems with their GPUs. Sunfish shows no fabric, so all are on fabric 1."""
        return tuple(self._machine(system, uid) for system, uid in self._systems())

    def machine(self, uid: str) -> Machine:
        """Return one machine. Raise Missing if it is unknown."""
        found = next((system for system, known in self._systems() if known == uid), None)
        if found is None:
            raise Missing(f"machine {uid}: Sunfish knows no such machine")
        return self._machine(found, uid)

    def free(self, machine_uid: str, model: str) -> int:
        """Raise Refused, as Sunfish does not count free devices."""
        raise Refused(f"Sunfish without agents does not report how many {model} are free")

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return the machines, and problems instead of free counts."""
        taken = time.time()
        machines = {machine.uid: machine for machine in self.machines()}
        why = "fabric 1: Sunfish without agents does not report how many devices are free"
        return FabricSnapshot(machines, {}, taken, {f"{model}/1": why for model in models})

    def devices(self) -> tuple[Device, ...]:
        """Return the attached devices."""
        return tuple(device for machine in self.machines() for device in machine.devices)

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Increase the machine's number by ``count``."""
        if kind != "gpu":
            raise Refused(f"cannot attach a {model} to machine {machine_uid}: Sunfish without agents has only GPUs")
        return task_of(self._batches.run(machine_uid, [(model, n) for n in range(count)], started, proof))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Set the number to 0 if the device is the only one of its model.

        Read the machine again right before each request, as 0 detaches any device of the model.
        Raise Withdrawn if another device is there.
        """
        with self._turn(machine_uid):
            # Two readings must lack the device before it counts as detached without a request.
            for _look in range(2):
                machine = self.machine(machine_uid)
                device = next((d for d in machine.devices if d.uid == device_uid), None)
                if device is not None:
                    break
            else:
                return Task(True)
            if why := _beside(machine, device):
                raise Refused(why)
            if self._set(machine, device.model, 0, partial(self._prove_alone, device, proof)):
                told = f"cannot detach device {device_uid} from machine {machine.name}"
                raise Uncertain(f"{told}: Sunfish still shows it")
            return Task(True, (device,))

    def _prove_alone(self, device: Device, proof: Proof | None) -> None:
        if why := _beside(self.machine(str(device.machine)), device):
            raise Withdrawn(why)
        if proof:
            proof()

    def _turn(self, machine_uid: str) -> threading.Lock:
        """Allow one number at a time for each machine, as a second one would use an old reading."""
        return self._turns.setdefault(machine_uid, threading.Lock())

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Raise Missing, as Sunfish answers when it is done."""
        told = ", ".join(handles)
        raise Missing(f"cannot wait for operation {told}: Sunfish without agents has no asynchronous operations")

    def close(self) -> None:
        """Close all idle connections."""
        self._session.close()

    def _raise(self, uid: str, take: Take[tuple[str, int]]) -> None:
        with self._turn(uid):
            self._raise_in_turn(uid, take)

    def _raise_in_turn(self, uid: str, take: Take[tuple[str, int]]) -> None:
        machine, operations = self.machine(uid), take()
        by_model: defaultdict[str, list[PendingOperation[tuple[str, int]]]] = defaultdict(list)
        for operation in [o for o in operations if o.wanted()]:
            by_model[operation.what[0]].append(operation)
        for model, wanted in by_model.items():
            try:
                self._more(machine, model, wanted)
            except FabricError as error:
                for operation in wanted:
                    operation.fail(error)

    def _more(self, machine: Machine, model: str, operations: Sequence[PendingOperation[tuple[str, int]]]) -> None:
        had = {d.uid for d in machine.devices if d.model == model}
        has = self._set(machine, model, len(had) + len(operations), proof_of(operations))
        new = [d for d in has if d.uid not in had]
        short = Uncertain(f"cannot attach a {model} to machine {machine.name}: Sunfish reported success, but "
                          "does not show the device")
        for number, operation in enumerate(operations):
            try:
                if number >= len(new):
                    raise short
                operation.fulfil(_sound(new[number]))
            except FabricError as error:
                operation.fail(error)

    def _set(self, machine: Machine, model: str, count: int, proof: Proof | None) -> list[Device]:
        """Set the number and return the machine's devices of the model.

        After a lost reply, repeat up to ``REPEATS`` requests within the attach timeout.
        """
        if [system.name for system, _uid in self._systems()].count(machine.name) != 1:
            raise Refused(f"cannot give {count} {model} to machine {machine.uid}: Sunfish identifies machines by "
                          f"Name, and the name {machine.name!r} is not unique. Give each machine its own name")
        member = {"@Redfish.RequestCount": count, "ProcessorType": "GPU", "Model": model}
        request = Request(
            "PATCH", COMPOSED, f"give {count} {model} to machine {machine.name}", effect=True, reads=False,
            body={"Name": machine.name, "Processors": {"Members": [member]}}, proof=proof,
        )
        lost: list[Uncertain] = []
        patience = Patience(self._config.attach_timeout)
        while True:
            try:
                self._session.call(replace(request, timeout=patience.left))
                break
            except Uncertain as error:
                lost.append(error)
                if len(lost) == REPEATS or patience.over:
                    raise
            except FabricError as error:
                # This request did nothing, but an earlier one may have taken effect.
                if lost:
                    raise lost[0] from None
                if isinstance(error, Refused):
                    error.exhausted = EXHAUSTED in (error.code or "")
                raise
        return [d for d in self.machine(machine.uid).devices if d.model == model]

    def _systems(self) -> list[tuple[ComputerSystem, str]]:
        systems = self._service.members(ComputerSystem, self._service.root().systems)
        known = system_uids(systems)
        return [(system, known[system.uri]) for system in systems]

    def _machine(self, system: ComputerSystem, uid: str) -> Machine:
        parts = self._service.members(Part, system.processors)
        found = [_device(part, uid) for part in parts if device_kinds.kind_of(part) == "gpu"]
        return Machine(uid, system.name or uid, 1, tuple(sorted(found, key=lambda device: device.uid)))


def _beside(machine: Machine, device: Device) -> str:
    """Return why a number cannot detach this device alone, or an empty text."""
    others = [d.uid for d in machine.devices if d.model == device.model and d.uid != device.uid]
    told = f"cannot detach device {device.uid} from machine {machine.name}: Sunfish without agents takes only a number"
    return f"{told} of {device.model}, so it could take {', '.join(others)} instead" if others else ""


def _sound(device: Device) -> Device:
    """Return the device. Raise Refused if its health is Critical."""
    return healthy(device, "Status.Health") if device.health == "Critical" else device


def _device(part: Part, machine: str) -> Device:
    traits = device_kinds.traits([part])
    return Device(
        uid=part.uuid or part.uri, model=traits.model, kind=traits.kind, fabric=1, machine=machine,
        health=device_kinds.worst(part.status), serial=traits.serial, name=part.name,
    )
