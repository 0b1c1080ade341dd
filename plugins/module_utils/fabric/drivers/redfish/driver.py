# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver for Redfish composition by resource blocks or by the endpoints of a fabric.

``dialects`` has the five ways of moving a device, and the meaning of a lost reply for each.
"""

from __future__ import annotations

import time
import typing as t
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...api import Capabilities, Device, FabricSnapshot, Machine, MachinePower, Proof, Started, Task
from ...config import FabricConfig
from ...errors import Busy, Changed, FabricError, Missing, Refused, Unavailable, Uncertain, gravest
from ...http.request import Request
from ...http.session import Session
from ...operations.handle_collector import HandleCollector
from ...operations.parallel import outcomes
from ...operations.polling import NOTICE_SECONDS, Patience, tolerant
from ..shared.redfish.resources import ComputerSystem
from ..shared.redfish.service import Service, read_error
from ..shared.replies import healthy
from .composition.executor import CompositionExecutor
from .composition.preconditions import Change
from .model.build import service_model
from .model.cabling import cabling
from .model.service_model import ServiceModel
from .model.unit_allocator import UnitAllocator, candidates
from .reader import Reader
from .switch_reader import SwitchReader
from .tasks import Operation

# Seconds between readings of the whole service. A single machine is read by its links.
OLDEST_MAP: t.Final = 60.0
# Number of host ports that a problem names.
MOST_NAMED: t.Final = 3
# HTTP status of a request for a resource that another request is changing.
IN_USE: t.Final = 409


class RedfishDriver:
    """Client of one Redfish service. Thread-safe. See ``api.FabricManager``."""

    # A service answers each request at once or by a task, as it chooses.
    capabilities: t.Final = Capabilities(
        asynchronous=True, batch=False, lists_free=True,
        kinds=("gpu", "memory", "fpga", "storage", "network"), powers=True,
    )

    def __init__(self, config: FabricConfig) -> None:
        self._session = Session(config, read_error)
        self.service = Service(self._session)
        self._reader = Reader(self.service, config.machines)
        self._switches = SwitchReader(self.service)
        self._executor = CompositionExecutor(self._session, self.service, config)
        self._allocator = UnitAllocator(lambda: service_model(self._reader.tree()))

    def service_model(self) -> ServiceModel:
        """Return the current model of the service, which has more details than ``api``."""
        return self._allocator.service_model()

    def machines(self) -> tuple[Machine, ...]:
        """Return all computer systems with their composable devices."""
        return self.service_model().machines()

    def machine(self, uid: str) -> Machine:
        """Return one machine by reading only its resources. Raise Missing if it is not shown."""
        found = self._around(uid).machine(uid)
        if found is None:
            raise _no_machine(uid)
        return found

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of ``model`` can be attached to the machine now."""
        shown = self.service_model()
        if machine_uid not in shown.hosts:
            raise _no_machine(machine_uid)
        return sum(1 for _unit in candidates(shown, shown.hosts[machine_uid], model, None))

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return machines, and free devices of each fabric as its first machine sees them."""
        taken = time.time()
        shown = self.service_model()
        through = {host.fabric: host for host in reversed(list(shown.hosts.values())) if host.fabric is not None}
        keys = [(model, fabric) for model in dict.fromkeys(models) for fabric in sorted(through)]
        free = {key: tuple(candidates(shown, through[key[1]], key[0], None)) for key in keys}
        fabrics = [each.fabric for each in shown.tree.fabrics]
        switches, switches_of = cabling(shown, {each.uri: self._switches.of(each) for each in fabrics})
        problems = {f"switches/{shown.numbers[each.uri]}": said for each in fabrics
                    if (said := self._switches.problem(each))}
        problems |= _unreadable(shown) | _no_systems(shown) | _not_ports(shown)
        return FabricSnapshot({machine.uid: machine for machine in shown.machines()},
                              {key: len(units) for key, units in free.items()}, taken, problems,
                              free_in_boxes=Counter((*key, unit.box) for key, units in free.items()
                                                    for unit in units if unit.box),
                              switches=switches, switches_of=switches_of)

    def devices(self) -> tuple[Device, ...]:
        """Return every composable device, with the free devices."""
        shown = self.service_model()
        return tuple(shown.device(unit) for unit in shown.units.values() if unit.traits.kind)

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices in parallel. If only some attach, the error has ``devices``.

        Each ``token`` gives its own order of devices, so that two attaches rarely want the same
        device.
        """
        collector = HandleCollector(count, started)

        def one(number: int) -> Device:
            mark = f"{token} {number}" if token else None
            return collector.run(number, lambda say: self._attach(machine_uid, model, kind, mark, say, proof))

        return _task(outcomes(one, range(count)), collector.handles)

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device. Send no request if two readings show that the machine lacks it."""
        for look in (self._around, lambda _uid: self.service_model()):
            shown = look(machine_uid)
            if machine_uid not in shown.hosts:
                raise _no_machine(machine_uid)
            unit = shown.units.get(device_uid)
            if unit is not None and machine_uid in unit.hosts:
                break
            self._prove_absent(machine_uid, device_uid)
        else:
            return Task(True)
        handle = self._executor.move(Change(shown, shown.hosts[machine_uid], unit, attach=False), started, proof)
        return Task(True, (shown.device(unit, shown.hosts[machine_uid]),), (handle,) if handle else ())

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for operations of an earlier process, and read their effect.

        Raise Missing if a task is done and the device is not where the operation was to move it.
        Then the service has given the path to another task, or the device was moved again.
        """
        found = [self._resume(Operation.read(handle)) for handle in handles]
        return Task(True, tuple(device for device in found if device), handles)

    def power(self, machine_uid: str) -> MachinePower:
        """Return the power of a machine, and the resets that it offers."""
        system = self._system(machine_uid)
        return MachinePower(machine_uid, system.name or machine_uid, system.power or "",
                            system.reset_types if system.reset else (), system.last_reset or "")

    def reset(self, machine_uid: str, reset_type: str) -> None:
        """Send ComputerSystem.Reset. Do not wait for its task, as the power shows the outcome."""
        target = self._system(machine_uid).reset
        purpose = f"reset machine {machine_uid} ({reset_type})"
        if target is None:
            raise Refused(f"cannot {purpose}: the CDI Manager offers no ComputerSystem.Reset for it")
        self._session.call(Request("POST", target, purpose, body={"ResetType": reset_type}, effect=True, reads=False))

    def _resume(self, operation: Operation) -> Device | None:
        """Wait for an operation and return the attached device, or None after a detach."""
        self._executor.wait(operation)
        notice = Patience(NOTICE_SECONDS)
        while operation.machine:
            shown = tolerant(lambda: self._around(operation.machine))
            unit = shown.units.get(operation.device) if shown is not None else None
            there = unit is not None and operation.machine in unit.hosts
            if shown is not None and there is operation.attach:
                brought = unit if operation.attach else None
                return self._usable(shown.device(brought, shown.hosts[operation.machine])) if brought else None
            if notice.over:
                said = f"cannot wait for operation {operation.task}: "
                if shown is None:
                    raise Uncertain(f"{said}the task is done, but machine {operation.machine} cannot be read")
                where = "still" if there else "not"
                raise Missing(f"{said}device {operation.device} is {where} on machine {operation.machine}, so the task "
                              "belongs to another operation")
            notice.pause()
        return None

    def _system(self, uid: str) -> ComputerSystem:
        host = self._allocator.service_model(oldest=OLDEST_MAP).hosts.get(uid)
        host = host or self.service_model().hosts.get(uid)
        if host and host.is_port:
            return host.system  # No resource shows its power.
        system = self.service.read(ComputerSystem, host.system.uri) if host else None
        if system is None:
            raise _no_machine(uid)
        return system

    def close(self) -> None:
        """Log out and close all idle connections."""
        self._session.close()

    def _attach(self, machine: str, model: str, kind: str, token: str | None, started: Started,
                proof: Proof | None) -> Device:
        """Attach a unit. Try other units while other clients take them first."""
        tried: dict[str, Busy] = {}
        while True:
            try:
                change = self._allocator.take(machine, model, kind, token, tried)
            except Refused as exhausted:
                # A unit that was only busy may become free later.
                raise next((e for e in tried.values() if not isinstance(e, Changed)), exhausted) from None
            try:
                return self._move(change, started, proof)
            except Busy as error:
                if not (isinstance(error, Changed) or error.status == IN_USE):
                    raise
                tried[change.unit.uid] = error

    def _move(self, change: Change, started: Started, proof: Proof | None) -> Device:
        try:
            self._executor.move(change, started, proof)
        finally:
            self._allocator.release(change.unit.uid)
        bare = change.service_model.device(change.unit)
        return self._usable(replace(bare, machine=change.host.uid, state="attached", fabric=change.host.fabric))

    def _usable(self, device: Device) -> Device:
        """Return the attached device with its present health.

        Raise Refused with the device if it must be detached, because it is unhealthy or because the
        last reading shows it on another machine too.
        """
        around = tolerant(lambda: self._around(t.cast(str, device.machine)))
        unit = around.units.get(device.uid) if around else None
        device = replace(device, health=unit.health, shared=unit.shared) if unit else device
        if device.shared:
            refusal = Refused(f"device {device.uid} ({device.model}) was attached to machine {device.machine}, but "
                              "another machine has it too. Return it")
            refusal.device = device
            raise refusal
        return device if device.health != "Critical" else healthy(device, "Status.Health")

    def _prove_absent(self, machine: str, device: str) -> None:
        """Raise Unavailable if an unreadable resource may be the device, or was never read.

        Raise Refused if the name is ambiguous since another device with the same name appeared.
        """
        for unit in self._allocator.service_model(oldest=OLDEST_MAP).units.values():
            if machine in unit.hosts and device != unit.uid and device in unit.names:
                raise Refused(f"cannot detach device {device} from machine {machine}: the CDI Manager shows several "
                              f"devices of this name, one of them on the machine: use its uid {unit.uid}")
            if unit.problem and (unit.uid == device or unit.never_read):
                raise Unavailable(f"cannot detach device {device} from machine {machine}: the CDI Manager does not "
                                  f"show whether the machine has it: {unit.problem}")

    def _around(self, uid: str) -> ServiceModel:
        """Read the resources of one machine again."""
        known = self._allocator.service_model(oldest=OLDEST_MAP)
        host = known.hosts.get(uid)
        tree = self._reader.around(known, host) if host else None
        return service_model(tree, known) if tree else self.service_model()


def _unreadable(shown: ServiceModel) -> dict[str, str]:
    """Return the problems of unreadable units and fabrics, by name."""
    units = {f"devices/{unit.uid}": f"device {unit.uid} is not offered: {unit.problem}"
             for unit in shown.units.values() if unit.problem}
    numbers = {shown.numbers[each.fabric.uri]: each.problem for each in shown.tree.fabrics if each.problem}
    return units | {f"connections/{number}": f"fabric {number}: all its devices count as attached: {problem}"
                    for number, problem in numbers.items()}


def _no_systems(shown: ServiceModel) -> dict[str, str]:
    """Return the problem of a service that has host ports but no ComputerSystem."""
    ports = [endpoint.uri for each in shown.tree.fabrics for endpoint in each.endpoints
             if any(entity.role in ("Initiator", "Both") for entity in endpoint.entities())]
    if shown.hosts or shown.tree.machines or not ports:
        return {}
    more = f" and {len(ports) - MOST_NAMED} more" if len(ports) > MOST_NAMED else ""
    return {"machines": f"the CDI Manager shows host ports ({', '.join(ports[:MOST_NAMED])}{more}) and no "
                        "ComputerSystem, so no node has a machine there. Have its administrator add the servers to "
                        "its Systems, or allow this account to read them, or name the port of each server in the "
                        "option machines"}


def _not_ports(shown: ServiceModel) -> dict[str, str]:
    """Return the problems of configured machines that cannot be used, by uid."""
    return {f"machines/{uid}": f"option machines: {path} of machine {uid} must be an endpoint, or a zone of a fabric "
                               "without Connections, and no ComputerSystem may have this endpoint or this uid. Correct "
                               "the path, or leave the machine out"
            for uid, path in shown.tree.machines.items()
            if uid not in shown.hosts or not shown.hosts[uid].is_port}


def _no_machine(uid: str) -> Missing:
    return Missing(f"machine {uid}: the CDI Manager knows no such machine")


def _task(results: Sequence[Device | FabricError], handles: tuple[str, ...]) -> Task:
    devices = tuple(r for r in results if isinstance(r, Device))
    errors = tuple(r for r in results if isinstance(r, FabricError))
    if len(results) == 1 and errors:
        raise errors[0]
    if errors:
        raise gravest(errors, devices)
    return Task(True, devices, handles)
