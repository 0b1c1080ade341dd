# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric itself: one pool of devices that all emulated managers share. Knows nothing of HTTP.

Runs in one event loop. A device belongs to a machine from the moment its attach begins, so nobody else can get
it, and shows there when the attach is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import typing as t
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass

from .fabric_spec import FabricSpec
from .journal import Journal
from .parts import DeviceSpec, MachineSpec

FREE: t.Final = "free"
ATTACHING: t.Final = "attaching"
ATTACHED: t.Final = "attached"
DETACHING: t.Final = "detaching"


class PoolError(Exception):
    """The fabric cannot do what was asked."""


class UnknownMachine(PoolError):
    """There is no such machine."""


class UnknownDevice(PoolError):
    """The machine has no such device."""


class Exhausted(PoolError):
    """No free device of that model is left on the machine's fabric."""


class DeviceBusy(PoolError):
    """The device is being attached or detached."""


@dataclass(slots=True)
class PooledDevice:
    """A device and where it is; ``changed`` is the generation of its last change, ``due`` seconds since 1970."""

    spec: DeviceSpec
    kind: str
    health: str
    state: str = FREE
    machine: str | None = None
    changed: int = 0
    due: float = 0.0


class Pool:
    """Devices and machines of one tenant; times in seconds."""

    def __init__(self, spec: FabricSpec, journal: Journal | None = None) -> None:
        self.spec = spec
        self.attach_time, self.detach_time = spec.attach, spec.detach
        self.machines = {machine.uid: machine for machine in spec.machines}
        # Greater than in any earlier life of this emulator: whoever waits for a newer one is not left waiting.
        self.generation = self.born = int(time.time() * 1000)
        self._journal = journal
        self._changes = asyncio.Event()
        self._tasks: set[asyncio.Task[t.Any]] = set()
        self._free: defaultdict[tuple[int, str, str], dict[str, PooledDevice]] = defaultdict(dict)
        self._on: defaultdict[str, dict[str, PooledDevice]] = defaultdict(dict)
        self._lanes = {m: asyncio.Semaphore(spec.per_machine) for m in self.machines} if spec.per_machine else {}
        kinds = {name: model.kind for name, model in spec.models.items()}
        self.devices = {d.uid: PooledDevice(d, kinds[d.model], d.health) for d in spec.devices}
        self._remember()

    def machine(self, uid: str) -> MachineSpec:
        """Raises UnknownMachine."""
        try:
            return self.machines[uid]
        except KeyError:
            raise UnknownMachine(f"machine {uid} does not exist") from None

    def shown(self, machine_uid: str) -> list[PooledDevice]:
        """Devices that the machine has: a device on its way in is not there yet, one on its way out still is."""
        return [d for d in self._on[machine_uid].values() if d.state in (ATTACHED, DETACHING)]

    def free(self, machine_uid: str, model: str, kind: str) -> int:
        """Devices that could be attached to the machine now. Raises UnknownMachine."""
        fabric = self.machine(machine_uid).fabric
        return 0 if fabric is None else len(self._free[fabric, model, kind])

    def run(self, work: Coroutine[t.Any, t.Any, t.Any]) -> asyncio.Future[t.Any]:
        """Carry an operation through, whoever asked for it may go away meanwhile."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def attach(self, machine_uid: str, model: str, kind: str) -> PooledDevice:
        """Attach a free device. Raises UnknownMachine, Exhausted."""
        fabric = self.machine(machine_uid).fabric
        shelf = {} if fabric is None else self._free[fabric, model, kind]
        if not shelf:
            raise Exhausted(f"no free {kind} of model {model} is left on fabric {fabric}")
        device = shelf.pop(next(iter(shelf)))
        self._set(device, ATTACHING, machine_uid, self.attach_time)
        await self._finish(device)
        return device

    async def detach(self, machine_uid: str, device_uid: str) -> PooledDevice:
        """Return a device to the pool. Raises UnknownMachine, UnknownDevice, DeviceBusy."""
        self.machine(machine_uid)
        device = self._on[machine_uid].get(device_uid)
        if device is None:
            raise UnknownDevice(f"machine {machine_uid} has no resource {device_uid}")
        if device.state != ATTACHED:
            raise DeviceBusy(f"resource {device_uid} is {device.state}")
        self._set(device, DETACHING, machine_uid, self.detach_time)
        await self._finish(device)
        return device

    def resume(self) -> None:
        """Carry on what was under way when the emulator ended: hardware does not stop with its manager."""
        for device in self.devices.values():
            if device.state in (ATTACHING, DETACHING):
                self.run(self._finish(device))

    def set_timing(self, attach: float | None, detach: float | None) -> None:
        """For operations that begin from now on."""
        self.attach_time = self.attach_time if attach is None else attach
        self.detach_time = self.detach_time if detach is None else detach
        if self._journal:
            self._journal.write({"timing": [self.attach_time, self.detach_time]})

    def set_health(self, device_uid: str, health: str) -> None:
        """Raises UnknownDevice."""
        device = self.devices.get(device_uid)
        if device is None:
            raise UnknownDevice(f"device {device_uid} does not exist")
        device.health = health
        self._announce(device)

    async def changed_since(self, generation: int, longest: float) -> None:
        """Return as soon as the pool's generation differs from ``generation``, at the latest after ``longest``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                while self.generation == generation:
                    await self._changes.wait()

    async def _finish(self, device: PooledDevice) -> None:
        machine = t.cast(str, device.machine)
        async with self._lanes.get(machine, contextlib.nullcontext()):
            left = device.due - time.time() if not self._lanes else self._full_time(device)
            await asyncio.sleep(max(left, 0))
        if device.state == ATTACHING:
            self._set(device, ATTACHED, machine, 0)
        else:
            self._set(device, FREE, None, 0)

    def _full_time(self, device: PooledDevice) -> float:
        return self.attach_time if device.state == ATTACHING else self.detach_time

    def _set(self, device: PooledDevice, state: str, machine: str | None, seconds: float) -> None:
        device.state, device.due = state, time.time() + seconds
        self._place(device, machine)
        self._announce(device)

    def _place(self, device: PooledDevice, machine: str | None) -> None:
        if device.machine is not None:
            self._on[device.machine].pop(device.spec.uid, None)
        device.machine = machine
        shelf = self._free[device.spec.fabric, device.spec.model, device.kind]
        shelf.pop(device.spec.uid, None)
        if machine is None:
            shelf[device.spec.uid] = device
        else:
            self._on[machine][device.spec.uid] = device

    def _announce(self, device: PooledDevice) -> None:
        self.generation += 1
        device.changed = self.generation
        if self._journal:
            self._journal.write(_record(device))
        self._changes.set()
        self._changes = asyncio.Event()

    def _remember(self) -> None:
        """Put every device where the journal of an earlier life says."""
        for record in self._journal.read() if self._journal else ():
            if timing := record.get("timing"):
                self.attach_time, self.detach_time = timing
            elif device := self.devices.get(record.get("device", "")):
                device.state, device.health, device.due = record["state"], record["health"], record["due"]
                device.machine = record["machine"] if record["machine"] in self.machines else None
                device.state = device.state if device.machine else FREE
        for device in self.devices.values():
            self._place(device, device.machine)
        if self._journal:
            used = [_record(d) for d in self.devices.values() if d.state != FREE or d.health != d.spec.health]
            self._journal.replace([{"timing": [self.attach_time, self.detach_time]}, *used])


def _record(device: PooledDevice) -> dict[str, t.Any]:
    return {
        "device": device.spec.uid, "state": device.state, "machine": device.machine, "health": device.health,
        "due": device.due,
    }
