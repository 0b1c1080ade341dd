# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that only read."""

from __future__ import annotations

import functools
import typing as t
import uuid
from concurrent.futures import ThreadPoolExecutor

from ..api import Device, Machine
from ..errors import FabricError, Missing, Refused
from .steady import patiently, refusal_of
from .subject import Skipped, Subject, Unsupported, must

HEALTHS: t.Final = ("OK", "Warning", "Critical", "Unknown")
STATES: t.Final = ("free", "attaching", "attached", "detaching", "unavailable")
SAMPLE: t.Final = 5
READERS: t.Final = 8
NO_MODEL: t.Final = "no such model"


def _machines(subject: Subject) -> tuple[Machine, ...]:
    return patiently(subject, subject.fabric.machines)


def _devices(subject: Subject) -> tuple[Device, ...]:
    return patiently(subject, subject.fabric.devices)


def machines_are_listed(subject: Subject) -> str:
    """Every machine is listed once and has a name."""
    machines = _machines(subject)
    must(bool(machines), "no machine is listed")
    must(len({m.uid for m in machines}) == len(machines), "a machine is listed twice")
    must(all(m.uid and m.name for m in machines), "a machine has no uid or no name")
    return ""


def a_machine_reads_as_it_is_listed(subject: Subject) -> str:
    """A machine has the same uid, name, fabric and devices in the list and when it is read alone."""
    for machine in _sample(subject, _machines(subject)):
        _reads_the_same(machine, patiently(subject, functools.partial(subject.fabric.machine, machine.uid)))
    return ""


def _reads_the_same(listed_so: Machine, alone: Machine) -> None:
    same = (alone.uid, alone.name, alone.fabric) == (listed_so.uid, listed_so.name, listed_so.fabric)
    must(same, f"machine {listed_so.uid} reads differently alone")
    found, wanted = {d.uid for d in alone.devices}, {d.uid for d in listed_so.devices}
    must(found == wanted, f"machine {listed_so.uid} has {sorted(found)} alone and {sorted(wanted)} in the list")


def _sample(subject: Subject, machines: tuple[Machine, ...]) -> list[Machine]:
    """Return a few machines, first the machine for changes and machines with devices."""
    first = sorted(machines, key=lambda m: (m.uid != subject.machine, not m.devices, m.uid))
    return first[:SAMPLE]


def an_unknown_machine_is_missing(subject: Subject) -> str:
    """Reading an unknown machine gives Missing. It gives no empty machine and no Unavailable."""
    unknown = str(uuid.uuid4())
    error = refusal_of(subject, lambda fabric: fabric.machine(unknown))
    must(isinstance(error, Missing), f"machine {unknown} was answered with {_said(error)}")
    return ""


def _said(error: FabricError | None) -> str:
    return "a machine" if error is None else f"{type(error).__name__}: {error}"


def every_device_is_listed_once(subject: Subject) -> str:
    """No uid is listed twice. An attached device is on the machine that it names."""
    devices, machines = _devices(subject), {m.uid: m for m in _machines(subject)}
    must(len({d.uid for d in devices}) == len(devices), "a device is listed twice")
    for device in devices:
        if device.state == "attached":
            owner = machines.get(device.machine or "")
            must(owner is not None and any(d.uid == device.uid for d in owner.devices),
                 f"device {device.uid} names machine {device.machine}, which does not show it")
    return "free devices too" if subject.fabric.capabilities.lists_free else "attached devices, others counted"


def devices_say_what_they_are(subject: Subject) -> str:
    """Kind, state and health are values that the interface defines. A memory device has a size."""
    kinds = subject.fabric.capabilities.kinds
    for device in _devices(subject):
        must(device.kind in kinds, f"device {device.uid} is of kind {device.kind!r}, not one of {kinds}")
        must(device.state in STATES, f"device {device.uid} is in state {device.state!r}")
        must(device.health in HEALTHS, f"device {device.uid} has health {device.health!r}")
        must(bool(device.model), f"device {device.uid} has no model")
        must(device.kind != "memory" or bool(device.size), f"memory device {device.uid} has no size")
    return f"kinds: {', '.join(kinds)}"


def free_devices_are_counted(subject: Subject) -> str:
    """The number of free devices is the same by machine, in the list of free devices and in the snapshot."""
    machine, model = subject.on, subject.wanted
    number = patiently(subject, lambda: subject.fabric.machine(machine)).fabric
    counted(subject)
    count = patiently(subject, lambda: subject.fabric.free(machine, model))
    must(count >= 0, f"{count} devices are free")
    if subject.fabric.capabilities.lists_free:
        free = [d for d in _devices(subject) if d.state == "free" and d.model == model and d.fabric in (number, None)]
        usable = [d for d in free if d.health != "Critical"]
        must(len(usable) <= count <= len(free), f"{count} are counted, {len(free)} listed")
    snapshot = patiently(subject, lambda: subject.fabric.snapshot([model]))
    must(machine in snapshot.machines, f"the snapshot lacks machine {machine}")
    if number is not None:
        shown = snapshot.free.get((model, number))
        must(shown == count, f"the snapshot counts {shown}, the machine {count}: {dict(snapshot.problems)}")
    return ""


def counted(subject: Subject) -> None:
    """Raise Unsupported if the manager does not count free devices. Call it after a request."""
    if not subject.fabric.capabilities.counts_free:
        raise Unsupported("the CDI Manager does not report the number of free devices")


def an_unknown_model_has_no_free_devices(subject: Subject) -> str:
    """The number of free devices is 0, or the request is refused."""
    count: list[int] = []
    error = refusal_of(subject, lambda fabric: count.append(fabric.free(subject.on, NO_MODEL)))
    must(isinstance(error, (Missing, Refused)) or count[-1:] == [0], f"{NO_MODEL!r} counts {count} ({error})")
    return "0" if error is None else type(error).__name__


def names_are_complete(subject: Subject) -> str:
    """Names arrive unchanged, with all their characters."""
    names = [m.name for m in _machines(subject)] + [d.name or "" for d in _devices(subject)]
    torn = [name for name in names if "\ufffd" in name or "Ã" in name]
    must(not torn, f"wrongly decoded names: {torn}")
    absent = [name for name in subject.names if name not in names]
    must(not absent, f"missing names: {absent}")
    return ""


def nothing_is_left_out(subject: Subject) -> str:
    """All devices are shown, also when the manager splits the list into pages."""
    if not subject.devices:
        raise Skipped("the option devices is not set")
    found = _devices(subject)
    free = 0
    if not subject.fabric.capabilities.lists_free:
        free = patiently(subject, lambda: subject.fabric.free(subject.on, subject.wanted))
    shown = len(found) + free
    must(shown >= subject.devices, f"{shown} devices are shown, there are at least {subject.devices}")
    return ""


def many_readers_see_the_same(subject: Subject) -> str:
    """Several readers at the same time get what one reader gets."""
    with ThreadPoolExecutor(READERS) as pool:
        seen = list(pool.map(lambda _number: _machines(subject), range(READERS)))
    different = {frozenset(machine.uid for machine in machines) for machines in seen}
    must(len(different) == 1, "readers at the same time got different machines")
    return ""


def an_unknown_operation_is_missing(subject: Subject) -> str:
    """An operation that the manager does not know ends in Missing. The caller then reads the machine."""
    error = refusal_of(subject, lambda fabric: fabric.resume((str(uuid.uuid4()),)))
    must(isinstance(error, Missing), f"an unknown operation was answered with {_said(error)}")
    return "asynchronous" if subject.fabric.capabilities.asynchronous else "synchronous"


def a_foreign_machine_is_missing(subject: Subject) -> str:
    """A machine of another tenant is not listed and cannot be read."""
    foreign = subject.theirs
    must(foreign not in {m.uid for m in _machines(subject)}, f"machine {foreign} of another tenant is listed")
    error = refusal_of(subject, lambda fabric: fabric.machine(foreign))
    must(error is not None, f"machine {foreign} of another tenant can be read")
    return ""
