# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan and apply many wanted attachments, with one result for each.

Check mode (``foresee``) and ``apply`` use the same plan.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..api import FabricManager, Machine
from ..errors import BadConfiguration, FabricError, Missing, Refused
from ..operations import handles
from . import lookup
from .attachment import AttachmentResult, AttachmentSpec, refuse_doubles, refuse_incomplete
from .executor import Executor, Say, of_model
from .layout import dispensable
from .step import ATTACH, DETACH, RESUME, Step, StepOutcome, together


@dataclass(slots=True)
class AttachmentPlan:
    """Wanted attachments at one manager.

    ``attach_deadline`` is the time in seconds in which an attach without a reply may still take
    effect. With ``wait``, ``apply`` waits for the operations of an asynchronous manager. ``say``
    receives the number of finished attachments after each attachment.
    """

    fabric: FabricManager
    attach_deadline: float
    wait: bool = True
    say: Say = lambda text: None

    def plan(self, specs: Sequence[AttachmentSpec]) -> list[AttachmentResult]:
        """Return the changes of each spec in their order. Only read.

        If a machine is unknown or cannot be read, its result has the ``error``. Raise
        BadConfiguration for an incomplete spec and for two specs about one object, and FabricError
        if the machines cannot be listed.
        """
        for spec in specs:
            refuse_incomplete(spec)
        find = self._finder(specs)
        planned = {n: self._planned(find, spec) for n, spec in enumerate(specs) if spec.state == "detached"}
        leaving = frozenset(device.uid for one in planned.values() for device in one.devices)
        planned |= {n: self._planned(find, spec, leaving) for n, spec in enumerate(specs) if n not in planned}
        ordered = [planned[n] for n in range(len(specs))]
        refuse_doubles(ordered)
        return ordered

    def foresee(self, specs: Sequence[AttachmentSpec]) -> list[AttachmentResult]:
        """Return the plan with the refusals that ``apply`` would get for lack of free devices.

        Only read. Raise as ``plan``.
        """
        planned = self.plan(specs)
        left: Counter[tuple[int | None, str]] = Counter()
        for one in planned:
            if one.changed and one.devices and one.machine:
                left[one.machine.fabric, one.devices[0].model] += len(one.devices)
        return [self._short(one, left) if one.after > one.before else one for one in planned]

    def apply(self, specs: Sequence[AttachmentSpec]) -> list[AttachmentResult]:
        """Apply each spec and return the results in their order, with ``error`` on failure.

        Raise as ``plan``. A spec that is already satisfied changes nothing, so a caller may repeat
        ``apply``.
        """
        planned = self.plan(specs)
        todo = [n for n, one in enumerate(planned) if one.error is None and (one.changed or one.spec.handle)]
        executor = Executor(self.fabric, self.attach_deadline, self.wait, self.say)
        steps = {n: _steps(planned[n]) for n in todo}
        done = iter(executor.carry_out([step for n in todo for step in steps[n]]))
        for n in todo:
            planned[n] = self._result(planned[n], together([next(done) for _unused in steps[n]]))
        return planned

    def _finder(self, specs: Sequence[AttachmentSpec]) -> Callable[[AttachmentSpec], Machine]:
        """Return a function that finds a machine. Read a single one alone, or list all."""
        if len({spec.machine for spec in specs}) == 1:
            return lambda spec: lookup.machine(self.fabric, spec.machine, f"{spec.where}machine")
        machines = self.fabric.machines()
        return lambda spec: lookup.pick(machines, spec.machine, f"{spec.where}machine")

    def _planned(self, find: Callable[[AttachmentSpec], Machine], spec: AttachmentSpec,
                 leaving: frozenset[str] = frozenset()) -> AttachmentResult:
        """Plan one spec. ``leaving`` are the uids of devices that other specs detach."""
        try:
            machine = find(spec)
            if spec.state == "detached":
                return self._leaving(spec, machine) if spec.device else self._without_model(spec, machine)
            if not spec.handle and spec.kind not in self.fabric.capabilities.kinds:
                raise Refused(f"{spec.where}kind: the CDI Manager attaches no {spec.kind}. Allowed are "
                              f"{', '.join(self.fabric.capabilities.kinds)}")
        except FabricError as error:
            return AttachmentResult(spec, error=error)
        if spec.exact:
            return _exactly(spec, machine, leaving)
        have = sum(d.uid not in leaving for d in of_model(machine, spec.model)) if spec.model else 0
        return AttachmentResult(spec, machine, spec.model, have, have if spec.handle else max(have, spec.total))

    def _leaving(self, spec: AttachmentSpec, machine: Machine) -> AttachmentResult:
        """Plan the detach of one device. Raise Missing if the fabric has no such device.

        A device that is on another machine needs no change.
        """
        found = next((d for d in machine.devices if d.uid == spec.device), None)
        if found is not None:
            have = len(of_model(machine, found.model))
            return AttachmentResult(spec, machine, found.model, have, have - 1, (found,))
        if self.fabric.capabilities.lists_free and spec.device not in {d.uid for d in self.fabric.devices()}:
            raise Missing(f"{spec.where}device: the CDI Manager knows no device {spec.device}. Allowed are the uids "
                          "that fabric_info returns")
        return AttachmentResult(spec, machine)

    def _without_model(self, spec: AttachmentSpec, machine: Machine) -> AttachmentResult:
        """Plan the detach of all devices of a model. Raise BadConfiguration for an unknown model.

        A machine without a device of a known model needs no change.
        """
        model = t.cast(str, spec.model)
        if not of_model(machine, model) and self.fabric.capabilities.lists_free:
            known = lookup.models(self.fabric.devices())
            if model not in known:
                raise BadConfiguration(f"{spec.where}model", model, f"allowed are {lookup.several(known)}")
        return _exactly(spec, machine, frozenset())

    def _short(self, one: AttachmentResult, left: Counter[tuple[int | None, str]]) -> AttachmentResult:
        """Return the result with the refusal that it would get, if any.

        ``left`` counts the devices that detaching frees. Subtract the devices that this result
        uses.
        """
        if not self.fabric.capabilities.counts_free:
            return one
        machine, model = t.cast(Machine, one.machine), t.cast(str, one.model)
        need, key = one.after - one.before, (machine.fabric, model)
        try:
            free = self.fabric.free(machine.uid, model) + left[key]
        except FabricError as error:
            return replace(one, after=one.before, error=error)
        if free >= need:
            left[key] -= need
            return one
        refusal = Refused(f"model: {need} x {model} would be attached to machine {machine.name}, "
                          f"its fabric has {max(free, 0)} free: insufficient", exhausted=True)
        return replace(one, after=one.before, error=lookup.not_enough(self.fabric, model, refusal))

    def _result(self, planned: AttachmentResult, outcome: StepOutcome) -> AttachmentResult:
        """Combine plan and outcome. After a failure, count the devices on the machine again.

        The manager may have attached some of several devices.
        """
        planned = replace(planned, seconds=outcome.seconds)
        if outcome.error is None:
            return replace(planned, devices=outcome.devices, handles=outcome.handles)
        try:
            there = lookup.machine(self.fabric, t.cast(Machine, planned.machine).uid)
        except FabricError:
            return replace(planned, after=planned.before, devices=outcome.devices, error=outcome.error)
        have = len(of_model(there, planned.model or ""))
        return replace(planned, after=have if planned.model else 0, devices=outcome.devices, error=outcome.error)


def _exactly(spec: AttachmentSpec, machine: Machine, leaving: frozenset[str]) -> AttachmentResult:
    """Plan the exact number of devices. Unhealthy devices leave first."""
    staying = [d for d in of_model(machine, spec.model or "") if d.state != "detaching" and d.uid not in leaving]
    surplus = sorted(staying, key=dispensable)[:max(len(staying) - spec.total, 0)]
    return AttachmentResult(spec, machine, spec.model, len(staying), spec.total, tuple(surplus))


def _steps(planned: AttachmentResult) -> list[Step]:
    spec, machine, model = planned.spec, t.cast(Machine, planned.machine), planned.model or ""
    if spec.handle:
        return [Step(RESUME, machine, model, handles=handles.read(spec.handle))]
    if planned.devices:
        return [Step(DETACH, machine, model, device=device) for device in planned.devices]
    return [Step(ATTACH, machine, model, spec.kind, planned.after - planned.before, spec.total)]
