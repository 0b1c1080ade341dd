# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted attachments, many at once: what each would change, and carrying it out with one result for each.

What check mode says (``foresee``) and what ``apply`` does come from the same plan.
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
    """Wanted attachments against one manager.

    ``attach_deadline``: seconds in which an attach without a reply may still take effect. ``wait``: whether ``apply``
    waits for what an asynchronous manager has accepted. ``say`` hears after each attachment how many are done.
    """

    fabric: FabricManager
    attach_deadline: float
    wait: bool = True
    say: Say = lambda text: None

    def plan(self, specs: Sequence[AttachmentSpec]) -> list[AttachmentResult]:
        """What each spec would change, by reading only: one result for each, in their order.

        A machine that is not known, or cannot be read, is the ``error`` of its result. Raises BadConfiguration for a
        spec that is incomplete and for two about one thing, and FabricError when the machines cannot be listed.
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
        """The plan, with the refusals that ``apply`` would meet for want of free devices. Only reads; raises as it."""
        planned = self.plan(specs)
        left: Counter[tuple[int | None, str]] = Counter()
        for one in planned:
            if one.changed and one.devices and one.machine:
                left[one.machine.fabric, one.devices[0].model] += len(one.devices)
        return [self._short(one, left) if one.after > one.before else one for one in planned]

    def apply(self, specs: Sequence[AttachmentSpec]) -> list[AttachmentResult]:
        """Carry out: one result for each spec, in their order, with its ``error`` when it failed. Raises as ``plan``.

        Asking for what is so already does nothing, so it may be repeated however it ended.
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
        """One question for a single machine, one listing for several."""
        if len({spec.machine for spec in specs}) == 1:
            return lambda spec: lookup.machine(self.fabric, spec.machine, f"{spec.where}machine")
        machines = self.fabric.machines()
        return lambda spec: lookup.pick(machines, spec.machine, f"{spec.where}machine")

    def _planned(self, find: Callable[[AttachmentSpec], Machine], spec: AttachmentSpec,
                 leaving: frozenset[str] = frozenset()) -> AttachmentResult:
        """``leaving``: uids of devices that other specs detach."""
        try:
            machine = find(spec)
            if spec.state == "detached":
                return self._leaving(spec, machine) if spec.device else self._without_model(spec, machine)
            if not spec.handle and spec.kind not in self.fabric.capabilities.kinds:
                raise Refused(f"{spec.where}kind: the CDI Manager attaches no {spec.kind}; allowed are "
                              f"{', '.join(self.fabric.capabilities.kinds)}")
        except FabricError as error:
            return AttachmentResult(spec, error=error)
        if spec.exact:
            return _exactly(spec, machine, leaving)
        have = sum(d.uid not in leaving for d in of_model(machine, spec.model)) if spec.model else 0
        return AttachmentResult(spec, machine, spec.model, have, have if spec.handle else max(have, spec.total))

    def _leaving(self, spec: AttachmentSpec, machine: Machine) -> AttachmentResult:
        """A device that is elsewhere is away from here; one that does not exist at all is a mistake."""
        found = next((d for d in machine.devices if d.uid == spec.device), None)
        if found is not None:
            have = len(of_model(machine, found.model))
            return AttachmentResult(spec, machine, found.model, have, have - 1, (found,))
        if self.fabric.capabilities.lists_free and spec.device not in {d.uid for d in self.fabric.devices()}:
            raise Missing(f"{spec.where}device: the CDI Manager knows no device {spec.device}; allowed are the uids "
                          "that fabric_info returns")
        return AttachmentResult(spec, machine)

    def _without_model(self, spec: AttachmentSpec, machine: Machine) -> AttachmentResult:
        """A machine without a device of the model is as it shall be; a model that nobody has is a mistake."""
        model = t.cast(str, spec.model)
        if not of_model(machine, model) and self.fabric.capabilities.lists_free:
            known = lookup.models(self.fabric.devices())
            if model not in known:
                raise BadConfiguration(f"{spec.where}model", model, f"allowed are {lookup.several(known)}")
        return _exactly(spec, machine, frozenset())

    def _short(self, one: AttachmentResult, left: Counter[tuple[int | None, str]]) -> AttachmentResult:
        """The result with the refusal that it would meet; ``left``: what detaching gives back, and is used up."""
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
        """After a failure the machine is looked at: the manager may have attached some of several devices."""
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
    """As many as are wanted and no more; those in bad health leave first."""
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
