# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that only read."""

from __future__ import annotations

import functools
import typing as t
import uuid
from concurrent.futures import ThreadPoolExecutor

from ..errors import FabricError, Missing, Refused
from ..types import Device, Machine
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
    """Every machine once, each with a name."""
    machines = _machines(subject)
    must(bool(machines), "no machine is listed")
    must(len({m.uid for m in machines}) == len(machines), "a machine is listed twice")
    must(all(m.uid and m.name for m in machines), "a machine has no uid or no name")
    return "by one call" if subject.fabric.capabilities.lists_all else "one by one"


def a_machine_reads_as_it_is_listed(subject: Subject) -> str:
    """Uid, name, fabric and devices are the same in the list and alone."""
    for machine in _sample(subject, _machines(subject)):
        _reads_the_same(machine, patiently(subject, functools.partial(subject.fabric.machine, machine.uid)))
    return ""


def _reads_the_same(listed_so: Machine, alone: Machine) -> None:
    same = (alone.uid, alone.name, alone.fabric) == (listed_so.uid, listed_so.name, listed_so.fabric)
    must(same, f"machine {listed_so.uid} reads differently alone")
    found, wanted = {d.uid for d in alone.devices}, {d.uid for d in listed_so.devices}
    must(found == wanted, f"machine {listed_so.uid} has {sorted(found)} alone and {sorted(wanted)} in the list")


def _sample(subject: Subject, machines: tuple[Machine, ...]) -> list[Machine]:
    """A few machines, the one to be changed and some with devices among them."""
    first = sorted(machines, key=lambda m: (m.uid != subject.machine, not m.devices, m.uid))
    return first[:SAMPLE]


def an_unknown_machine_is_missing(subject: Subject) -> str:
    """Missing, not an empty machine, and not an outage."""
    unknown = str(uuid.uuid4())
    error = refusal_of(subject, lambda fabric: fabric.machine(unknown))
    must(isinstance(error, Missing), f"machine {unknown} was answered with {_said(error)}")
    return ""


def _said(error: FabricError | None) -> str:
    return "a machine" if error is None else f"{type(error).__name__}: {error}"


def every_device_is_there_once(subject: Subject) -> str:
    """No uid twice, and an attached device is on the machine that it names."""
    devices, machines = _devices(subject), {m.uid: m for m in _machines(subject)}
    must(len({d.uid for d in devices}) == len(devices), "a device is listed twice")
    for device in devices:
        if device.state == "attached":
            owner = machines.get(device.machine or "")
            must(owner is not None and any(d.uid == device.uid for d in owner.devices),
                 f"device {device.uid} names machine {device.machine}, which does not show it")
    return "free ones too" if subject.fabric.capabilities.lists_free else "attached ones; free ones are counted"


def devices_say_what_they_are(subject: Subject) -> str:
    """Kind, state and health are words that the interface knows; memory has a size."""
    kinds = subject.fabric.capabilities.kinds
    for device in _devices(subject):
        must(device.kind in kinds, f"device {device.uid} is of kind {device.kind!r}, not one of {kinds}")
        must(device.state in STATES, f"device {device.uid} is in state {device.state!r}")
        must(device.health in HEALTHS, f"device {device.uid} has health {device.health!r}")
        must(bool(device.model), f"device {device.uid} has no model")
        must(device.kind != "memory" or bool(device.size), f"memory device {device.uid} has no size")
    return f"kinds: {', '.join(kinds)}"


def free_devices_are_counted(subject: Subject) -> str:
    """The count through a machine agrees with the list where free devices are listed, and with the snapshot."""
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
    """Raise Unsupported where the manager does not say how many devices are free; it was asked something before."""
    if not subject.fabric.capabilities.counts_free:
        raise Unsupported("it does not say how many are free")


def a_model_that_nobody_has_counts_nothing(subject: Subject) -> str:
    """0, or a refusal; never a number."""
    count: list[int] = []
    error = refusal_of(subject, lambda fabric: count.append(fabric.free(subject.on, NO_MODEL)))
    must(isinstance(error, (Missing, Refused)) or count[-1:] == [0], f"{NO_MODEL!r} counts {count} ({error})")
    return "0" if error is None else type(error).__name__


def names_are_whole(subject: Subject) -> str:
    """Names come over as they are, whatever their letters."""
    names = [m.name for m in _machines(subject)] + [d.name or "" for d in _devices(subject)]
    torn = [name for name in names if "\ufffd" in name or "Ã" in name]
    must(not torn, f"torn names: {torn}")
    absent = [name for name in subject.names if name not in names]
    must(not absent, f"names that are not shown: {absent}")
    return ""


def nothing_is_left_out(subject: Subject) -> str:
    """All devices are shown, however many pages the manager makes of them."""
    if not subject.devices:
        raise Skipped("devices is not given")
    found = _devices(subject)
    free = 0
    if not subject.fabric.capabilities.lists_free:
        free = patiently(subject, lambda: subject.fabric.free(subject.on, subject.wanted))
    shown = len(found) + free
    must(shown >= subject.devices, f"{shown} devices are shown, there are at least {subject.devices}")
    return ""


def many_readers_see_the_same(subject: Subject) -> str:
    """Several at once read what one reads."""
    with ThreadPoolExecutor(READERS) as pool:
        seen = list(pool.map(lambda _number: _machines(subject), range(READERS)))
    different = {frozenset(machine.uid for machine in machines) for machines in seen}
    must(len(different) == 1, "readers at once saw different machines")
    return ""


def an_unknown_operation_is_missing(subject: Subject) -> str:
    """An operation that the manager does not know (any more) ends in Missing, so that the caller looks."""
    error = refusal_of(subject, lambda fabric: fabric.resume(str(uuid.uuid4())))
    must(isinstance(error, Missing), f"an unknown operation was answered with {_said(error)}")
    return "asynchronous" if subject.fabric.capabilities.asynchronous else "synchronous"


def another_tenants_machine_is_missing(subject: Subject) -> str:
    """It is neither listed nor readable."""
    foreign = subject.theirs
    must(foreign not in {m.uid for m in _machines(subject)}, f"machine {foreign} of another tenant is listed")
    error = refusal_of(subject, lambda fabric: fabric.machine(foreign))
    must(error is not None, f"machine {foreign} of another tenant can be read")
    return ""
