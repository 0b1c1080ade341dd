# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted attachments, many at once: what each would change, and carrying it out so that one failure hides no other.

Devices are taken away before any is attached, so that a wish may use what another gives back. Otherwise all wishes
are served at the same time.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from . import choose
from .begun import Begun
from .ensure import attach_missing, detach_present, of_model
from .errors import FabricError, Missing, Refused
from .parallel import outcomes
from .types import Fabric, Machine
from .wish import Granted, Wish, after_leaving, arrives, place, refuse_doubles, refuse_incomplete

Say = Callable[[str], object]


@dataclass(slots=True)
class Wishes:
    """One list of wishes against one manager. ``settle``: seconds in which an unanswered attach may take effect."""

    fabric: Fabric
    settle: float
    wait: bool = True
    say: Say = lambda text: None
    _done: int = 0
    _total: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, wishes: Sequence[Wish]) -> list[Granted]:
        """What each wish would change, by reading only. Raises BadConfiguration for wishes that contradict."""
        for wish in wishes:
            refuse_incomplete(wish)
        find = self._finder(wishes)
        planned = [self._planned(find, wish) for wish in wishes]
        refuse_doubles(planned)
        leaving = Counter(place(one) for one in planned if one.wish.state == "detached" and one.changed)
        return [after_leaving(one, leaving[place(one)]) if arrives(one) else one for one in planned]

    def foresee(self, wishes: Sequence[Wish]) -> list[Granted]:
        """The plan, with the refusals that carrying it out would meet for want of free devices."""
        planned = self.plan(wishes)
        left: Counter[tuple[int | None, str]] = Counter()
        for one in planned:
            if one.changed and one.devices and one.machine:
                left[one.machine.fabric, one.devices[0].model] += 1
        return [self._short(one, left) if one.after > one.before else one for one in planned]

    def grant(self, wishes: Sequence[Wish]) -> list[Granted]:
        """Carry out; one result per wish, in their order."""
        planned = self.plan(wishes)
        todo = [i for i, one in enumerate(planned) if one.error is None and (one.changed or one.wish.handle)]
        self._total = len(todo)
        for phase in (True, False):
            keys = [i for i in todo if (planned[i].wish.state == "detached") is phase]
            for i, one in zip(keys, outcomes(lambda i: self._timed(planned[i]), keys), strict=True):
                planned[i] = self._failed(planned[i], one) if isinstance(one, FabricError) else one
        return planned

    def _failed(self, planned: Granted, error: FabricError) -> Granted:
        """What a failed wish left: the manager may have attached some of several devices."""
        try:
            there = choose.machine(self.fabric, t.cast(Machine, planned.machine).uid)
        except FabricError:
            return replace(planned, after=planned.before, devices=(), error=error)
        have = len(of_model(there, planned.model or ""))
        return replace(planned, after=have if planned.model else 0, devices=(), error=error)

    def _finder(self, wishes: Sequence[Wish]) -> Callable[[Wish], Machine]:
        """One question for a single machine, one listing for several."""
        if len({w.machine for w in wishes}) == 1 or not self.fabric.capabilities.lists_all:
            return lambda wish: choose.machine(self.fabric, wish.machine, f"{wish.where}machine")
        machines = self.fabric.machines()
        return lambda wish: choose.pick(machines, wish.machine, f"{wish.where}machine")

    def _planned(self, find: Callable[[Wish], Machine], wish: Wish) -> Granted:
        try:
            machine = find(wish)
            if wish.state == "detached":
                return self._leaving(wish, machine)
        except FabricError as error:
            return Granted(wish, error=error)
        have = len(of_model(machine, wish.model)) if wish.model else 0
        return Granted(wish, machine, wish.model, have, have if wish.handle else max(have, wish.count))

    def _leaving(self, wish: Wish, machine: Machine) -> Granted:
        found = next((d for d in machine.devices if d.uid == wish.device), None)
        if found is None:
            self._refuse_unknown(wish)
            return Granted(wish, machine)
        have = len(of_model(machine, found.model))
        return Granted(wish, machine, found.model, have, have - 1, (found,))

    def _refuse_unknown(self, wish: Wish) -> None:
        """A device that is elsewhere is away from here; one that does not exist at all is a mistake."""
        if self.fabric.capabilities.lists_free and wish.device not in {d.uid for d in self.fabric.devices()}:
            raise Missing(f"{wish.where}device: the CDI Manager knows no device {wish.device}; allowed are the uids "
                          "that fabric_info returns")

    def _short(self, one: Granted, left: Counter[tuple[int | None, str]]) -> Granted:
        """The wish with the refusal that it would meet; ``left`` holds what detaching gives back, and is used up."""
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
        return replace(one, after=one.before, error=choose.not_enough(self.fabric, model, refusal))

    def _timed(self, planned: Granted) -> Granted:
        began = time.monotonic()
        try:
            done = self._carry_out(planned)
        except Refused as error:
            raise (choose.not_enough(self.fabric, planned.model or "", error) if error.exhausted else error) from None
        finally:
            with self._lock:
                self._done += 1
                self.say(f"{self._done} of {self._total} done after {time.monotonic() - began:.1f} s")
        return replace(done, seconds=round(time.monotonic() - began, 3))

    def _carry_out(self, planned: Granted) -> Granted:
        wish, machine = planned.wish, t.cast(Machine, planned.machine)
        if wish.handle:
            return replace(planned, devices=self.fabric.resume(wish.handle).devices)
        if wish.state == "detached":
            detach_present(self.fabric, machine.uid, planned.devices[0].uid, self.settle)
            return planned
        if not self.wait and self.fabric.capabilities.asynchronous:
            return self._begin(planned)
        new = attach_missing(self.fabric, machine.uid, t.cast(str, wish.model), wish.count, self.settle, wish.kind)
        return replace(planned, devices=tuple(new))

    def _begin(self, planned: Granted) -> Granted:
        """Ask, and return as soon as the manager has accepted: it goes on without us."""
        wish, machine = planned.wish, t.cast(Machine, planned.machine)
        missing = planned.after - planned.before
        sizes = [missing] if self.fabric.capabilities.batch else [1] * missing
        begun = [Begun(self.fabric, machine.uid, wish, size) for size in sizes]
        for one in begun:
            one.heard.wait()
        errors = [one.error for one in begun if one.error is not None]
        if errors:
            raise errors[0]
        return replace(planned, devices=tuple(d for one in begun if one.task for d in one.task.devices),
                       handles=tuple(one.handle for one in begun if one.handle))
