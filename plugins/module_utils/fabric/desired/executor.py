# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute the steps of a wanted state, each at most once and each with its own outcome.

All detaches run before any attach, so that an attach can use the freed devices. Otherwise all steps
run in parallel.
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
    """Executes steps at one manager. Each caller makes its own executor.

    ``attach_deadline`` is the time in seconds in which an attach without a reply may still take
    effect. ``wait`` is whether to wait for the operations of an asynchronous manager. ``say``
    receives after each step, on any thread, how many steps are done, with the words
    ``said_of_each``.
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
        """Do all steps and return the outcomes in their order. A FabricError is in its outcome."""
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
        """Return the attached or detached devices, and the handles of operations in flight."""
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
        """Request an attach and return when it is accepted. It continues without us."""
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
    """Return the devices of one model on a machine, sorted by uid."""
    return sorted((d for d in machine.devices if d.model == model), key=lambda d: d.uid)


def attach_missing(fabric: FabricManager, machine_uid: str, model: str, count: int, attach_deadline: float,
                   kind: str = "gpu") -> list[Device]:
    """Attach until the machine has ``count`` devices of the model. Return the new ones by uid.

    ``attach_deadline`` is the time in seconds after a request in which an attach without a reply
    may still take effect. After a lost reply, read the machine for this time before the next
    request, and give up after ``LOST_REPLIES`` lost replies in a row. Raise FabricError. Devices
    that were attached before the error stay, and the next call counts them. Only two kinds of
    devices are detached: a device that the manager attached although it refused, and a device that
    another machine has too.
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
            # A manager may name a device that the machine had before. The device is in use, so keep
            # it.
            if error.device is not None and error.device.uid not in there | known:
                fabric.detach(machine_uid, error.device.uid)
            raise
    new = [d for d in of_model(fabric.machine(machine_uid), model) if d.uid not in before]
    if twice := [d.uid for d in new if d.shared and d.uid not in there]:
        for uid in twice:
            fabric.detach(machine_uid, uid)
        raise Refused(f"device {', '.join(twice)} was attached to machine {machine_uid}, but another machine has it "
                      "too. It was detached again")
    return new


def detach_present(fabric: FabricManager, machine_uid: str, device_uid: str, attach_deadline: float) -> Device | None:
    """Detach a device if the machine has it. Return the device, or None if it was not there.

    After a lost reply, read the machine for up to ``attach_deadline`` seconds. If the device is
    still there, request again. Raise FabricError.
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
    """Return the device if the machine still has it at the deadline."""
    deadline = time.monotonic() + attach_deadline
    while (there := _on(fabric, machine_uid, device_uid)) is not None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return there


def _on(fabric: FabricManager, machine_uid: str, device_uid: str) -> Device | None:
    return next((d for d in fabric.machine(machine_uid).devices if d.uid == device_uid), None)


def _watched(fabric: FabricManager, machine_uid: str, model: str, count: int, attach_deadline: float) -> set[str]:
    """Return the uids of the model on the machine once it has ``count``, or at the deadline."""
    deadline = time.monotonic() + attach_deadline
    while True:
        found = {d.uid for d in of_model(fabric.machine(machine_uid), model)}
        if len(found) >= count or time.monotonic() >= deadline:
            return found
        time.sleep(LOOK_SECONDS)
