# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI Manager over the emulator's pool of devices, with the emulator's states and in virtual
time.

``fate`` decides which requests and replies fail. The log has the requests and their effects, and
the invariants are judged by it. The hardware continues even if the process that sent the request is
killed or frozen.
"""

from __future__ import annotations

import asyncio
import random
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ansible_collections.composable.infra.emulator.pool.fabric_spec import FabricSpec, simple_spec
from ansible_collections.composable.infra.emulator.pool.pool import (
    ATTACHED,
    DevicePool,
    Operation,
    PooledDevice,
    PoolError,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricSnapshot,
    Machine,
    Proof,
    Started,
    Task,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation

LATENCY = (0.001, 0.02)
# The fates of a request for a change.
FINE, BUSY, REFUSED, LOST, REPLY_LOST, LATE, OLD_REPLY, HANGS = (
    "fine", "busy", "refused", "lost", "reply lost", "late", "old reply", "hangs")
# The faults of an answer, if the CDI Manager is reached by HTTP.
DRIPS, ANOTHER_MACHINE, INCOMPLETE, PROXY_404, UNAVAILABLE_AFTER = (
    "drips", "another machine", "incomplete", "404 of a proxy", "503 after the effect")
LIES = (DRIPS, ANOTHER_MACHINE, INCOMPLETE, PROXY_404, UNAVAILABLE_AFTER)
FATES = (BUSY, REFUSED, LOST, REPLY_LOST, LATE, OLD_REPLY, HANGS)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the log.

    ``what``: asked, attached, answered, detached, or placed (by an administrator). ``token``: the
    mark of the request, the UID of a ComposableResource. ``process``: the process that sent the
    request.
    """

    at: float
    what: str
    machine: str
    device: str = ""
    token: str = ""
    process: str = ""


@dataclass
class CdiManager:
    """The CDI Manager. ``asynchronous``: it returns handles, and reports results later. ``down``:
    it cannot be reached.
    """

    simulation: Simulation
    pool: DevicePool
    asynchronous: bool = False
    down: bool = False
    late_seconds: float = 5.0
    fate: Callable[[str], str] = lambda what: FINE
    lie: Callable[[], str] = lambda: ""
    at_point: Callable[[str, Process], object] = lambda point, process: None
    listeners: list[Callable[[Entry], object]] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    process: Process = field(default_factory=lambda: Process("fabric"))
    replies: dict[tuple[str, str], Device] = field(default_factory=dict)
    begun: dict[str, stand_ins.Future] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.simulation.rng.random())
        self.loop = asyncio.new_event_loop()

    def note(self, what: str, machine: str, device: str = "", token: str = "", process: str = "") -> None:
        """Add a line to the log, and notify the listeners."""
        entry = Entry(self.simulation.now, what, machine, device, token, process)
        self.log.append(entry)
        for listener in self.listeners:
            listener(entry)

    def carry_through(self, operation: Operation, seconds: float) -> stand_ins.Future:
        """Let the hardware work for ``seconds``, even if the requesting process ends."""
        future = stand_ins.Future()
        self.operations.append(operation)

        def work() -> None:
            self.simulation.sleep(seconds)
            try:
                future.finish(self.loop.run_until_complete(operation), None)
            except PoolError as error:
                future.finish(None, error)

        self.simulation.spawn(self.process, "hardware", work)
        return future

    def place(self, machine: str, model: str) -> str:
        """Attach a device by hand as an administrator. Return its UID, empty if there is none."""
        fabric = self.pool.machine(machine).fabric
        free = list(self.pool.free_devices(fabric, model, "gpu"))
        if not free:
            return ""
        operation = self.pool.begin_attach(machine, free[-1].spec.uid)
        self.note("placed", machine, free[-1].spec.uid)
        self.loop.run_until_complete(operation)
        return free[-1].spec.uid

    def attached(self) -> dict[str, PooledDevice]:
        """Return the devices that belong to a machine, by UID."""
        return {uid: device for uid, device in self.pool.devices.items() if device.machine}

    def driver(self, process: Process) -> Driver:
        """Return the driver of one process."""
        return Driver(self, process)

    def close(self) -> None:
        """End everything, including unfinished operations of the hardware."""
        for operation in self.operations:
            operation.close()
        self.loop.close()


class Driver:
    """A FabricManager of one process."""

    def __init__(self, manager: CdiManager, process: Process) -> None:
        self._manager, self._process = manager, process

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(asynchronous=self._manager.asynchronous, batch=False)

    def machines(self) -> tuple[Machine, ...]:
        self._way()
        found = tuple(self._machine(uid) for uid in self._manager.pool.machines)
        self._way()
        return found

    def machine(self, uid: str) -> Machine:
        self._way()
        if uid not in self._manager.pool.machines:
            raise Missing(f"no machine {uid}")
        found = self._machine(uid)
        self._way()
        return found

    def now(self, uid: str) -> Machine:
        """Return one machine at this moment, as it is in the answer to a change."""
        return self._machine(uid)

    def free(self, machine_uid: str, model: str) -> int:
        self._way()
        return self._manager.pool.free(machine_uid, model, "gpu")

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        taken = stand_ins.Time.time()
        machines = {machine.uid: machine for machine in self.machines()}
        pool = self._manager.pool
        fabrics = {m.fabric for m in machines.values() if m.fabric is not None}
        free = {(model, fabric): len(pool.free_devices(fabric, model, "gpu")) for model in models for fabric in fabrics}
        self._way()
        return FabricSnapshot(machines, free, taken)

    def devices(self) -> tuple[Device, ...]:
        return tuple(device for machine in self.machines() for device in machine.devices)

    def attach(self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
               started: Started | None = None, proof: Proof | None = None) -> Task:
        self._come_to("before attach", proof)
        return self.accept_attach(machine_uid, model, token or "", started)

    def _come_to(self, point: str, proof: Proof | None) -> None:
        manager = self._manager
        manager.simulation.sleep(manager.rng.uniform(*LATENCY))
        manager.at_point(point, self._process)
        if proof:
            proof()

    def accept_attach(self, machine_uid: str, model: str, mark: str, started: Started | None = None) -> Task:
        """Execute an attach request that has arrived."""
        manager = self._manager
        fate = self._sent("attach")
        manager.note("asked", machine_uid, token=mark, process=self._process.name)
        if fate == BUSY:
            raise Busy("the machine is being changed")
        if fate == REFUSED:
            raise Refused("the manager refuses")
        if fate == LOST:
            manager.simulation.sleep(2.0)
            raise Uncertain("the reply was lost")
        future = self._begin_attach(machine_uid, model, mark, fate)
        if manager.asynchronous and started:
            handle = f"operation-{len(manager.begun)}"
            manager.begun[handle] = future
            started((handle,))
        return Task(True, (self._attached(future, machine_uid, mark, fate),))

    def _begin_attach(self, machine: str, model: str, token: str, fate: str) -> stand_ins.Future:
        manager = self._manager
        fabric = manager.pool.machine(machine).fabric
        device = next(iter(manager.pool.free_devices(fabric, model, "gpu")), None)
        if device is None:
            raise Refused("no device is left", exhausted=True)
        uid, seconds = device.spec.uid, manager.pool.spec.attach * manager.rng.uniform(0.5, 1.5)
        operation = manager.pool.begin_attach(machine, uid)
        manager.note("attached", machine, uid, token, self._process.name)
        return manager.carry_through(operation, manager.late_seconds if fate == LATE else seconds)

    def _attached(self, future: stand_ins.Future, machine: str, token: str, fate: str) -> Device:
        manager = self._manager
        if fate in (LATE, HANGS):
            manager.simulation.sleep(1.0 if fate == LATE else 10.0)
            raise Uncertain("no reply in time")
        device = self._device(future.result())
        manager.simulation.sleep(manager.rng.uniform(*LATENCY))
        manager.at_point("after attach", self._process)
        if fate == REPLY_LOST or manager.down:
            raise Uncertain("the reply was lost")
        old = manager.replies.get((machine, device.model))
        manager.replies[machine, device.model] = device
        if fate == OLD_REPLY and old and manager.pool.devices[old.uid].machine == machine:
            return old  # an earlier reply to the same request arrives once more
        manager.note("answered", machine, device.uid, token, self._process.name)
        return device

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        self._come_to("before detach", proof)
        return self.accept_detach(machine_uid, device_uid)

    def accept_detach(self, machine_uid: str, device_uid: str) -> Task:
        """Execute a detach request that has arrived."""
        manager = self._manager
        fate = self._sent("detach")
        if fate in (BUSY, REFUSED):
            raise Busy("the machine is being changed") if fate == BUSY else Refused("the manager refuses")
        if fate == LOST:
            manager.simulation.sleep(2.0)
            raise Uncertain("the reply was lost")
        known = manager.pool.devices.get(device_uid)
        if known is None or known.machine != machine_uid:
            return Task(True)
        if known.state != ATTACHED:
            raise Busy(f"device {device_uid} is {known.state}")
        operation = manager.pool.begin_detach(machine_uid, device_uid)
        manager.note("detached", machine_uid, device_uid, process=self._process.name)
        future = manager.carry_through(operation, manager.pool.spec.detach * manager.rng.uniform(0.5, 1.5))
        if fate in (LATE, HANGS):
            manager.simulation.sleep(1.0)
            raise Uncertain("no reply in time")
        future.result()
        manager.simulation.sleep(manager.rng.uniform(*LATENCY))
        manager.at_point("after detach", self._process)
        if fate == REPLY_LOST or manager.down:
            raise Uncertain("the reply was lost")
        return Task(True)

    def resume(self, handles: tuple[str, ...]) -> Task:
        self._way()
        found = [self._manager.begun.get(handle) for handle in handles]
        if None in found or not found:
            raise Missing(f"no operation {', '.join(handles)}")
        try:
            devices = tuple(self._device(future.result()) for future in found if future)
        except PoolError as error:
            raise Refused(str(error)) from None
        self._way()
        # A device that was detached since then belongs to no machine any more.
        return Task(True, tuple(d for d in devices if d.machine), handles)

    def close(self) -> None:
        """Do nothing, there is nothing to close."""

    def _way(self) -> None:
        """Take the time of the way to or from the CDI Manager."""
        manager = self._manager
        manager.simulation.sleep(manager.rng.uniform(*LATENCY))
        if manager.down:
            raise Unavailable("the CDI Manager does not answer")

    def _sent(self, what: str) -> str:
        if self._manager.down:
            raise Unavailable("the CDI Manager does not answer")
        return self._manager.fate(what)

    def _machine(self, uid: str) -> Machine:
        pool = self._manager.pool
        spec = pool.machine(uid)
        return Machine(uid, spec.name, spec.fabric, tuple(self._device(d) for d in pool.shown(uid)))

    @staticmethod
    def _device(device: PooledDevice) -> Device:
        return Device(device.spec.uid, device.spec.model, fabric=device.spec.fabric, machine=device.machine,
                      state=device.state, health="OK", serial=device.spec.serial)


def fabric(nodes: list[str], models: dict[str, int], fabrics: int, attach: float, detach: float) -> DevicePool:
    """Return the emulator's pool. Its own clock stands still, since the model simulates the time of
    the hardware.
    """
    spec: dict[str, t.Any] = simple_spec(nodes, models, fabrics, attach, detach)
    pool = DevicePool(FabricSpec.parse(spec))
    pool.set_timing(0.0, 0.0)
    return pool
