# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric itself, as one pool of devices for all emulated managers. It does not use HTTP.

It runs in one event loop. A device belongs to a machine from the start of its attach, so no other
machine can get it. The machine shows the device when the attach is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import typing as t
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine

from .fabric_spec import FabricSpec
from .journal import Journal
from .parts import MachineSpec
from .pooled import (
    ATTACHED,
    ATTACHING,
    DETACHING,
    FREE,
    MISCHIEF,
    VANISHED,
    DeviceBusy,
    DeviceTaken,
    Exhausted,
    OperationFailed,
    PooledDevice,
    PoolError,
    UnknownDevice,
    UnknownMachine,
    at_first,
    recall,
    record,
)

__all__ = [
    "ATTACHED",
    "ATTACHING",
    "DETACHING",
    "FREE",
    "VANISHED",
    "DeviceBusy",
    "DevicePool",
    "DeviceTaken",
    "Exhausted",
    "Operation",
    "OperationFailed",
    "PoolError",
    "PooledDevice",
    "UnknownDevice",
    "UnknownMachine",
]

Operation = Coroutine[t.Any, t.Any, PooledDevice]


class DevicePool:
    """Devices and machines. Times are in seconds.

    ``on_effect`` is called at once for each attach or detach.
    """

    def __init__(self, spec: FabricSpec, journal: Journal | None = None) -> None:
        self.spec = spec
        self.attach_time, self.detach_time = spec.attach, spec.detach
        self.machines = {machine.uid: machine for machine in spec.machines}
        # It is greater than in any earlier run, so that a client that waits for a newer generation
        # gets it.
        self.generation = self.born = int(time.time() * 1000)
        self.resets = 0
        self._journal = journal
        self._changes, self._over = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[t.Any]] = set()
        self._free: defaultdict[tuple[int, str, str], dict[str, PooledDevice]] = defaultdict(dict)
        self._on: defaultdict[str, dict[str, PooledDevice]] = defaultdict(dict)
        self._lanes = {m: asyncio.Semaphore(spec.per_machine) for m in self.machines} if spec.per_machine else {}
        kinds = {name: model.kind for name, model in spec.models.items()}
        self.devices = {d.uid: at_first(d, kinds[d.model]) for d in spec.devices}
        self.on_effect: Callable[[PooledDevice, str], None] = lambda device, effect: None
        self._remember()

    def machine(self, uid: str) -> MachineSpec:
        """Return a machine. Raises UnknownMachine."""
        try:
            return self.machines[uid]
        except KeyError:
            raise UnknownMachine(f"machine {uid} does not exist") from None

    def shown(self, machine_uid: str) -> list[PooledDevice]:
        """Return the machine's devices, without those that are being attached."""
        return [d for d in self._on[machine_uid].values() if d.state in (ATTACHED, DETACHING)]

    def on(self, machine_uid: str) -> list[PooledDevice]:
        """Return the machine's devices, with those that are being attached."""
        return list(self._on[machine_uid].values())

    def free_devices(self, fabric: int | None, model: str, kind: str) -> Collection[PooledDevice]:
        """Return free devices in the order of their use.

        The device that came back last is used last.
        """
        return () if fabric is None else self._free[fabric, model, kind].values()

    def free(self, machine_uid: str, model: str, kind: str) -> int:
        """Return how many devices can be attached to the machine now. Raises UnknownMachine."""
        return len(self.free_devices(self.machine(machine_uid).fabric, model, kind))

    def run(self, work: Coroutine[t.Any, t.Any, t.Any]) -> asyncio.Future[t.Any]:
        """Run an operation to its end, even if its requester disconnects."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return asyncio.shield(task)

    def _ended(self, task: asyncio.Task[t.Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def attach(self, machine_uid: str, model: str, kind: str) -> PooledDevice:
        """Attach a free device. Raises UnknownMachine, Exhausted, OperationFailed."""
        fabric = self.machine(machine_uid).fabric
        device = next(iter(self.free_devices(fabric, model, kind)), None)
        if device is None:
            raise Exhausted(f"no free {kind} of model {model} is left on fabric {fabric}")
        return await self.begin_attach(machine_uid, device.spec.uid)

    def begin_attach(self, machine_uid: str, device_uid: str) -> Operation:
        """Start to attach a given device. Return the operation.

        The hardware has started when this returns, so an accepted operation survives a restart.
        Raises UnknownMachine, UnknownDevice, DeviceTaken. The operation raises OperationFailed.
        """
        fabric = self.machine(machine_uid).fabric
        device = self.devices.get(device_uid)
        if device is None or device.state == VANISHED or device.spec.fabric != fabric:
            raise UnknownDevice(f"fabric {fabric} has no device {device_uid}")
        if device.state != FREE:
            raise DeviceTaken(f"device {device_uid} is {device.state} on machine {device.machine}", device.machine)
        self._set(device, ATTACHING, machine_uid, self.attach_time)
        return self._finish(device)

    async def detach(self, machine_uid: str, device_uid: str) -> PooledDevice:
        """Return a device to the pool.

        Raises the errors of ``begin_detach``, and OperationFailed.
        """
        return await self.begin_detach(machine_uid, device_uid)

    def begin_detach(self, machine_uid: str, device_uid: str) -> Operation:
        """Start to detach a device. Return the operation.

        Raises UnknownMachine, UnknownDevice, DeviceBusy. The operation raises OperationFailed.
        """
        self.machine(machine_uid)
        device = self._on[machine_uid].get(device_uid)
        if device is None:
            raise UnknownDevice(f"machine {machine_uid} has no resource {device_uid}")
        if device.state != ATTACHED:
            raise DeviceBusy(f"resource {device_uid} is {device.state}")
        self._set(device, DETACHING, machine_uid, self.detach_time)
        return self._finish(device)

    def resume(self) -> None:
        """Continue the operations of an earlier run, because hardware does not stop with its
        manager.
        """
        for device in self.devices.values():
            if device.state in (ATTACHING, DETACHING):
                self.run(self._finish(device))

    def set_timing(self, attach: float | None, detach: float | None) -> None:
        """Set the times of future operations."""
        self.attach_time = self.attach_time if attach is None else attach
        self.detach_time = self.detach_time if detach is None else detach
        if self._journal:
            self._journal.write({"timing": [self.attach_time, self.detach_time]})

    def set_health(self, device_uid: str, health: str) -> None:
        """Set a device's health. Raises UnknownDevice."""
        device = self.devices.get(device_uid)
        if device is None:
            raise UnknownDevice(f"device {device_uid} does not exist")
        device.health = health
        self._announce(device)

    def set_present(self, device_uid: str, present: bool) -> None:
        """Make a device vanish from its place, or come back free. Raises UnknownDevice."""
        device = self.devices.get(device_uid)
        if device is None:
            raise UnknownDevice(f"device {device_uid} does not exist")
        if present == (device.state == VANISHED):
            if device.state in (ATTACHED, DETACHING):
                self.on_effect(device, f"vanished {device_uid} from {device.machine}")
            self._set(device, FREE if present else VANISHED, None, 0)

    def reset(self) -> None:
        """Put all devices back as in the document, at once. Operations in flight fail."""
        self.resets += 1
        over, self._over = self._over, asyncio.Event()
        over.set()
        for device in self.devices.values():
            if device.moved:
                first = at_first(device.spec, device.kind)
                device.health = first.health
                self._set(device, first.state, first.machine, 0)

    async def changed_since(self, generation: int, longest: float) -> None:
        """Return when the pool's generation differs from ``generation``, or after ``longest``
        seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                while self.generation == generation:
                    await self._changes.wait()

    async def _finish(self, device: PooledDevice) -> PooledDevice:
        machine, over = t.cast(str, device.machine), self._over
        async with self._lanes.get(machine, contextlib.nullcontext()):
            full = self.attach_time if device.state == ATTACHING else self.detach_time
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), max(full if self._lanes else device.due - time.time(), 0))
        self._end(device, machine)
        return device

    def _end(self, device: PooledDevice, machine: str) -> None:
        """End an operation, with the faults of its request. Raises OperationFailed."""
        uid, mischief = device.spec.uid, MISCHIEF.get()
        if device.machine != machine or device.state not in (ATTACHING, DETACHING):
            raise OperationFailed(f"device {uid} is {device.state}", device)
        attaching = device.state == ATTACHING
        if mischief and mischief.fails():
            self._rest(device, None if attaching else machine)
            raise OperationFailed(f"device {uid} could not be {'attached' if attaching else 'detached'}", device)
        self._rest(device, machine if attaching else None)
        self.on_effect(device, f"attached {uid} to {machine}" if attaching else f"detached {uid} from {machine}")
        if mischief and attaching and mischief.health:
            self.set_health(uid, mischief.health)
        if mischief and attaching and mischief.vanish:
            self.set_present(uid, False)

    def _rest(self, device: PooledDevice, machine: str | None) -> None:
        self._set(device, ATTACHED if machine else FREE, machine, 0)

    def _set(self, device: PooledDevice, state: str, machine: str | None, seconds: float) -> None:
        device.state, device.due = state, time.time() + seconds
        self._place(device, machine)
        self._announce(device)

    def _place(self, device: PooledDevice, machine: str | None) -> None:
        if device.machine is not None:
            self._on[device.machine].pop(device.spec.uid, None)
        device.machine = machine
        available = self._free[device.spec.fabric, device.spec.model, device.kind]
        available.pop(device.spec.uid, None)
        if device.state == FREE:
            available[device.spec.uid] = device
        elif machine is not None:
            self._on[machine][device.spec.uid] = device

    def _announce(self, device: PooledDevice) -> None:
        self.generation += 1
        device.changed = self.generation
        if self._journal:
            self._journal.write(record(device))
        self._changes.set()
        self._changes = asyncio.Event()

    def _remember(self) -> None:
        """Put every device where the journal of an earlier run has it."""
        if timing := recall(self._journal.read() if self._journal else (), self.devices, self.machines):
            self.attach_time, self.detach_time = timing
        for device in self.devices.values():
            self._place(device, device.machine)
        if self._journal:
            moved = [record(d) for d in self.devices.values() if d.moved]
            self._journal.replace([{"timing": [self.attach_time, self.detach_time]}, *moved])
