# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule by which every front door lives with a manager that may misbehave: look, then adopt or ask.

What was for certain not processed is asked again; after a lost reply the machine is looked at first; what came twice is
given back.
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

# A manager that tried and could not may do better with another device.
REFUSALS: t.Final = 3
PUT_OFF: t.Final = (Unavailable, Busy, Uncertain)

V = t.TypeVar("V")


@dataclass(frozen=True, slots=True)
class Gained:
    """Devices that were asked for and came, and how many more came with them and were given back."""

    devices: tuple[Device, ...]
    surplus: int = 0


def patiently(subject: Subject, work: Callable[[], V]) -> V:
    """What ``work`` gives; tried again while the manager is away, busy, or its reply got lost. Only for what may be."""
    deadline = time.monotonic() + subject.patience
    while True:
        try:
            return work()
        except PUT_OFF:
            if time.monotonic() >= deadline:
                raise
        time.sleep(subject.pause)


def held(subject: Subject, model: str, machine: str | None = None) -> dict[str, Device]:
    """Devices of the model on the machine, by uid."""
    uid = machine or subject.on
    return {d.uid: d for d in of_model(patiently(subject, lambda: subject.fabric.machine(uid)), model)}


def gain(subject: Subject, model: str, count: int, kind: str = "gpu", machine: str | None = None) -> Gained:
    """``count`` more devices on the machine, whatever goes wrong on the way. Raises Failed, FabricError."""
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
                subject.fabric, uid, model, len(before) + count, subject.attach_deadline, kind))
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
    """Detach until the machine has none of them. Raises Failed, FabricError."""
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
    """What attaches brought whose asker is gone or whose reply got lost: wait for their operations if they are known,
    else look until ``count`` came, or no more may come."""
    if handles:
        with contextlib.suppress(Missing, Refused):
            patiently(subject, lambda: subject.fabric.resume(handles))
    deadline = time.monotonic() + subject.attach_deadline
    while len(new := _new(subject, model, subject.on, before)) < count and time.monotonic() < deadline:
        time.sleep(subject.pause)
    return new


def refused_attach(subject: Subject, model: str, machine: str | None = None) -> FabricError | None:
    """The error by which an attach is refused for good; None: it was done. What a lost reply left is given back."""
    uid = machine or subject.on

    def ask() -> FabricError | None:
        before = held(subject, model)
        try:
            subject.fabric.attach(uid, model)
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
    """The error by which the manager says no for good; None: it did what was asked."""

    def ask() -> FabricError | None:
        try:
            work(subject.fabric)
        except PUT_OFF:
            raise
        except FabricError as error:
            return error
        return None

    return patiently(subject, ask)
