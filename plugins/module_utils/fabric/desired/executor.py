# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out the steps of a wanted state, so that none is done twice and one failure hides no other.

Devices are taken away before any is attached, so that a step may use what another gives back. Otherwise all steps are
carried out at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..api import Device, FabricManager, Machine
from ..errors import FabricError, Refused, Uncertain
from ..operations.background_attach import BackgroundAttach
from ..operations.parallel import outcomes
from . import lookup
from .step import DETACH, RESUME, Step, StepOutcome

LOOK_SECONDS = 0.5
LOST_REPLIES = 3

Say = Callable[[str], object]


@dataclass(slots=True)
class Executor:
    """Carries out steps against one manager; each caller makes its own.

    ``attach_deadline``: seconds in which an attach without a reply may still take effect. ``wait``: whether to wait
    for the end of an operation that an asynchronous manager has accepted. ``say`` hears after each step, on any
    thread, how many are done, in the words ``said_of_each``.
    """

    fabric: FabricManager
    attach_deadline: float
    wait: bool = True
    say: Say = lambda text: None
    said_of_each: str = "done"
    _done: int = 0
    _total: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def carry_out(self, steps: Sequence[Step]) -> list[StepOutcome]:
        """Do all steps; one outcome for each, in their order. Never raises FabricError: an outcome holds it."""
        found: dict[int, StepOutcome] = {}
        self._done, self._total = 0, len(steps)
        for detaching in (True, False):
            numbers = [n for n, step in enumerate(steps) if (step.action == DETACH) is detaching]
            done = outcomes(lambda n: self._timed(steps[n]), numbers)
            found |= {n: StepOutcome(error=one) if isinstance(one, FabricError) else one
                      for n, one in zip(numbers, done, strict=True)}
        return [found[n] for n in range(len(steps))]

    def _timed(self, step: Step) -> StepOutcome:
        began = time.monotonic()
        devices, handles = tuple[Device, ...](), tuple[str, ...]()
        failure: FabricError | None = None
        try:
            devices, handles = self._carry_out(step)
        except Refused as error:
            failure = lookup.not_enough(self.fabric, step.model, error) if error.exhausted else error
        except FabricError as error:
            failure = error
        finally:
            with self._lock:
                self._done += 1
                self.say(f"{self._done} of {self._total} {self.said_of_each} after {time.monotonic() - began:.1f} s")
        return StepOutcome(devices, handles, round(time.monotonic() - began, 3), failure)

    def _carry_out(self, step: Step) -> tuple[tuple[Device, ...], tuple[str, ...]]:
        """Devices that came or left, and handles of what still goes on."""
        uid = step.machine.uid
        if step.action == RESUME:
            return self.fabric.resume(step.handles).devices, ()
        if step.device is not None:
            detach_present(self.fabric, uid, step.device.uid, self.attach_deadline)
            return (replace(step.device, state="free", machine=None),), ()
        if not self.wait and self.fabric.capabilities.asynchronous:
            return self._begin(step)
        new = attach_missing(self.fabric, uid, step.model, step.total, self.attach_deadline, step.kind)
        return tuple(new), ()

    def _begin(self, step: Step) -> tuple[tuple[Device, ...], tuple[str, ...]]:
        """Ask, and return as soon as the manager has accepted: it goes on without us."""
        sizes = [step.count] if self.fabric.capabilities.batch else [1] * step.count
        attaches = [BackgroundAttach(self.fabric, step.machine.uid, step.model, size, step.kind) for size in sizes]
        for attach in attaches:
            attach.heard.wait()
        errors = [attach.error for attach in attaches if attach.error is not None]
        if errors:
            raise errors[0]
        return (tuple(device for attach in attaches if attach.task for device in attach.task.devices),
                tuple(handle for attach in attaches for handle in attach.handles))


def of_model(machine: Machine, model: str) -> list[Device]:
    """Devices of one model on a machine, by uid."""
    return sorted((d for d in machine.devices if d.model == model), key=lambda d: d.uid)


def attach_missing(fabric: FabricManager, machine_uid: str, model: str, count: int, attach_deadline: float,
                   kind: str = "gpu") -> list[Device]:
    """Attach until the machine has ``count`` devices of the model; returns the new ones, by uid.

    ``attach_deadline``: seconds after its request in which an attach without a reply may still take effect. So long
    the machine is watched after a lost reply before anything is asked again, and that only ``LOST_REPLIES`` times in
    a row. Raises FabricError. What was attached until then stays attached and is counted by the next call, except for
    a device that the manager attached although it refused, and for one that another machine has too: these are given
    back.
    """
    machine = fabric.machine(machine_uid)
    known = {d.uid for d in of_model(machine, model)}
    before, lost, there = set(known), 0, {d.uid for d in machine.devices}
    while len(known) < count:
        try:
            known.update(d.uid for d in fabric.attach(machine_uid, model, count - len(known), kind=kind).devices)
        except Uncertain:
            found = _watched(fabric, machine_uid, model, count, attach_deadline)
            lost = 0 if found - known else lost + 1
            known |= found
            if lost >= LOST_REPLIES:
                raise
        except FabricError as error:
            # A manager may name a device that the machine had before. It is in use, and it stays.
            if error.device is not None and error.device.uid not in there | known:
                fabric.detach(machine_uid, error.device.uid)
            raise
    new = [d for d in of_model(fabric.machine(machine_uid), model) if d.uid not in before]
    if twice := [d.uid for d in new if d.shared and d.uid not in there]:
        for uid in twice:
            fabric.detach(machine_uid, uid)
        raise Refused(f"device {', '.join(twice)} came to machine {machine_uid}, but another machine has it too. It "
                      "was given back")
    return new


def detach_present(fabric: FabricManager, machine_uid: str, device_uid: str, attach_deadline: float) -> Device | None:
    """Detach a device if the machine has it; returns what was detached, None when it was not there.

    After a lost reply the machine is watched for up to ``attach_deadline`` seconds, and asked again if it kept the
    device. Raises FabricError.
    """
    found = _on(fabric, machine_uid, device_uid)
    lost, there = 0, found
    while there is not None:
        try:
            fabric.detach(machine_uid, device_uid)
            break
        except Uncertain:
            there, lost = _gone(fabric, machine_uid, device_uid, attach_deadline), lost + 1
            if there and lost >= LOST_REPLIES:
                raise
    return found


def _gone(fabric: FabricManager, machine_uid: str, device_uid: str, attach_deadline: float) -> Device | None:
    """The device if the machine still has it when the wait is over."""
    deadline = time.monotonic() + attach_deadline
    while (there := _on(fabric, machine_uid, device_uid)) is not None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return there


def _on(fabric: FabricManager, machine_uid: str, device_uid: str) -> Device | None:
    return next((d for d in fabric.machine(machine_uid).devices if d.uid == device_uid), None)


def _watched(fabric: FabricManager, machine_uid: str, model: str, count: int, attach_deadline: float) -> set[str]:
    """Uids of the model on the machine once there are enough, or when none can come any more."""
    deadline = time.monotonic() + attach_deadline
    while True:
        found = {d.uid for d in of_model(fabric.machine(machine_uid), model)}
        if len(found) >= count or time.monotonic() >= deadline:
            return found
        time.sleep(LOOK_SECONDS)
