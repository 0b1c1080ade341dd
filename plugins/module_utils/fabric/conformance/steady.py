# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change a machine although its CDI Manager may fail: read first, then adopt or request.

If a request was certainly not processed, repeat it. After a lost reply, read the machine first.
Detach surplus devices.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass

from ..api import Device, FabricManager
from ..desired.executor import attach_missing, detach_present, of_model
from ..errors import Busy, FabricError, Missing, Refused, Unavailable, Uncertain
from .subject import Failed, Subject

# A manager that failed with one device may succeed with another device.
REFUSALS: t.Final = 3
PUT_OFF: t.Final = (Unavailable, Busy, Uncertain)

V = t.TypeVar("V")


@dataclass(frozen=True, slots=True)
class Gained:
    """The devices that a request attached. ``surplus`` counts further devices, already detached."""

    devices: tuple[Device, ...]
    surplus: int = 0


def patiently(subject: Subject, work: Callable[[], V]) -> V:
    """Return the result of ``work``. Repeat it after Unavailable, Busy or Uncertain.

    Use it only for work that may be repeated.
    """
    deadline = time.monotonic() + subject.patience
    while True:
        try:
            return work()
        except PUT_OFF:
            if time.monotonic() >= deadline:
                raise
        time.sleep(subject.pause)


def held(subject: Subject, model: str, machine: str | None = None) -> dict[str, Device]:
    """Return the devices of the model on the machine, by uid."""
    uid = machine or subject.on
    return {d.uid: d for d in of_model(patiently(subject, lambda: subject.fabric.machine(uid)), model)}


def gain(subject: Subject, model: str, count: int, kind: str | None = None, machine: str | None = None) -> Gained:
    """Attach ``count`` more devices whatever fails in between. Raise Failed, FabricError."""
    uid = machine or subject.on
    before = held(subject, model, uid)
    new: list[Device] = []
    refusals = 0
    deadline = time.monotonic() + subject.patience
    while len(new) < count:
        if time.monotonic() >= deadline:
            raise Failed(f"only {len(new)} of {count} {model} came within {subject.patience:g} s")
        try:
            patiently(subject, lambda: attach_missing(
                subject.fabric, uid, model, len(before) + count, subject.attach_deadline, kind or subject.kind))
            refusal = None
        except Refused as error:
            refusal, refusals = error, refusals + 1
        new = _new(subject, model, uid, before)
        if refusal and len(new) < count and (refusal.exhausted or refusals >= REFUSALS):
            give_back(subject, new, uid)
            raise refusal
    give_back(subject, new[count:], uid)
    return Gained(tuple(new[:count]), len(new) - count)


def _new(subject: Subject, model: str, machine: str, before: t.Container[str]) -> list[Device]:
    return [device for uid, device in held(subject, model, machine).items() if uid not in before]


def give_back(subject: Subject, devices: t.Iterable[Device], machine: str | None = None) -> None:
    """Detach until the machine has none of the devices. Raise Failed, FabricError."""
    uid = machine or subject.on
    for device in devices:
        _return(subject, device, uid)


def _return(subject: Subject, device: Device, machine: str) -> None:
    refusals = 0
    deadline = time.monotonic() + subject.patience
    there = True
    while there:
        if time.monotonic() >= deadline:
            raise Failed(f"device {device.uid} is still on machine {machine} after {subject.patience:g} s")
        try:
            patiently(subject, lambda: detach_present(subject.fabric, machine, device.uid, subject.attach_deadline))
        except Refused:
            refusals += 1
            if refusals >= REFUSALS:
                raise
        there = device.uid in held(subject, device.model, machine)


def adopt(
    subject: Subject, model: str, before: t.Container[str], handles: tuple[str, ...] = (), count: int = 1
) -> list[Device]:
    """Return the devices of attaches with a lost caller or a lost reply.

    Wait for the operations if ``handles`` are known. Then read the machine until ``count`` devices
    are there, or ``attach_deadline`` is over.
    """
    if handles:
        with contextlib.suppress(Missing, Refused):
            patiently(subject, lambda: subject.fabric.resume(handles))
    deadline = time.monotonic() + subject.attach_deadline
    while len(new := _new(subject, model, subject.on, before)) < count and time.monotonic() < deadline:
        time.sleep(subject.pause)
    return new


def refused_attach(subject: Subject, model: str, machine: str | None = None) -> FabricError | None:
    """Return the error that refuses an attach for good, or None if the attach succeeded.

    Detach the devices that an attach with a lost reply brought.
    """
    uid = machine or subject.on

    def ask() -> FabricError | None:
        before = held(subject, model)
        try:
            subject.fabric.attach(uid, model, kind=subject.kind)
        except Uncertain:
            give_back(subject, adopt(subject, model, before))
            raise
        except PUT_OFF:
            raise
        except FabricError as error:
            return error
        return None

    return patiently(subject, ask)


def refusal_of(subject: Subject, work: Callable[[FabricManager], object]) -> FabricError | None:
    """Return the error by which the manager refuses ``work`` for good, or None on success."""

    def ask() -> FabricError | None:
        try:
            work(subject.fabric)
        except PUT_OFF:
            raise
        except FabricError as error:
            return error
        return None

    return patiently(subject, ask)
