# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wanted layout of a whole fabric: what must move to get there, whether it can, and how long it may take.

Pure: what the manager shows comes in, a plan goes out. A machine that the layout names shall have exactly what the
layout says of it.
"""

from __future__ import annotations

import math
import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..api import Capabilities, Device, Machine
from ..errors import BadConfiguration
from ..operations.parallel import MOST_AT_ONCE
from . import lookup
from .step import ATTACH, DETACH, Step

# What goes first when a machine has too many of a model.
_WORST_FIRST: t.Final = ("Critical", "Warning", "Unknown", "OK")

Wanted = Mapping[str, Mapping[str, int]]
PoolKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """``steps`` in the order in which they are begun; ``before`` and ``after`` are layouts by machine name or uid."""

    steps: tuple[Step, ...]
    before: Mapping[str, Mapping[str, int]]
    after: Mapping[str, Mapping[str, int]]

    def moves(self, action: str) -> tuple[Step, ...]:
        """All steps of one sort."""
        return tuple(s for s in self.steps if s.action == action)


def read(layout: t.Any) -> dict[str, dict[str, int]]:
    """The layout that a user wrote, checked: ``{machine: {model: count}}``, machines by uid or name.

    A machine that shall have no devices may be empty (None or {}). Raises BadConfiguration, naming the place.
    """
    if not isinstance(layout, Mapping):
        raise BadConfiguration("layout", layout, "it must map machines to {model: number of devices}")
    return {str(machine): _read_models(str(machine), models) for machine, models in layout.items()}


def _read_models(machine: str, models: t.Any) -> dict[str, int]:
    if models is None:
        return {}
    if not isinstance(models, Mapping):
        raise BadConfiguration(f"layout.{machine}", models, "it must map models to numbers of devices")
    return {str(model): _read_count(f"layout.{machine}.{model}", count) for model, count in models.items()}


def _read_count(where: str, count: t.Any) -> int:
    text = str(count)
    if isinstance(count, bool) or not text.isdecimal():
        raise BadConfiguration(where, count, "it must be a whole number of devices, 0 or more")
    return int(text)


def plan(machines: Sequence[Machine], wanted: Wanted, *, empty_others: bool = False,
         kinds: Mapping[str, str] | None = None) -> LayoutPlan:
    """What must be done to get from what the manager shows to what is wanted.

    ``machines``: all of the tenant. ``wanted``: by machine (uid or name) and model the exact number of devices; a
    model that is not named is not wanted. ``empty_others``: machines that the layout does not name give all devices
    back. ``kinds``: by model, for models of which no machine has a device yet. Raises Missing for an unknown machine,
    BadConfiguration for one that is named twice or not uniquely.
    """
    targets = _targets(machines, wanted, empty_others=empty_others)
    kind_of = {**{d.model: d.kind for m in machines for d in m.devices}, **(kinds or {})}
    names = Counter(machine.name for machine in machines)
    steps: dict[str, list[Step]] = {DETACH: [], ATTACH: []}
    before: dict[str, Mapping[str, int]] = {}
    after: dict[str, Mapping[str, int]] = {}
    for machine, models in targets:
        steps[DETACH] += _detaches(machine, models)
        steps[ATTACH] += _attaches(machine, models, kind_of)
        shown = machine.name if names[machine.name] == 1 else machine.uid
        before[shown] = _have(machine)
        after[shown] = {model: count for model, count in sorted(models.items()) if count}
    return LayoutPlan((*steps[DETACH], *steps[ATTACH]), before, after)


def _targets(
    machines: Sequence[Machine], wanted: Wanted, *, empty_others: bool
) -> list[tuple[Machine, Mapping[str, int]]]:
    """Machines that the layout is about, by name, with the numbers that each shall have."""
    by_uid = {machine.uid: machine for machine in machines}
    by_name: dict[str, list[Machine]] = {}
    for machine in machines:
        by_name.setdefault(machine.name, []).append(machine)
    named: dict[str, Mapping[str, int]] = {}
    for name, models in wanted.items():
        found = by_uid.get(name)
        if found is None and len(by_name.get(name, ())) == 1:
            found = by_name[name][0]
        found = found or lookup.pick(machines, name, "layout")
        if found.uid in named:
            raise BadConfiguration("layout", name, f"machine {found.uid} is named twice; name it once")
        named[found.uid] = models
    return [(machine, named.get(machine.uid, {})) for machine in sorted(machines, key=lambda m: (m.name, m.uid))
            if machine.uid in named or empty_others]


def _have(machine: Machine) -> dict[str, int]:
    return dict(sorted(Counter(d.model for d in _staying(machine)).items()))


def _staying(machine: Machine) -> list[Device]:
    return [d for d in machine.devices if d.state != "detaching"]


def _detaches(machine: Machine, models: Mapping[str, int]) -> list[Step]:
    steps = []
    for model, have in _have(machine).items():
        surplus = have - models.get(model, 0)
        if surplus > 0:
            devices = sorted((d for d in _staying(machine) if d.model == model), key=dispensable)[:surplus]
            reason = f"{machine.name} has {have} x {model}, {models.get(model, 0)} wanted"
            steps += [Step(DETACH, machine, model, d.kind, total=models.get(model, 0), device=d, reason=reason)
                      for d in devices]
    return steps


def dispensable(device: Device) -> tuple[int, str]:
    """By what to sort devices of which some must leave: those in bad health first, then by uid."""
    rank = _WORST_FIRST.index(device.health) if device.health in _WORST_FIRST else len(_WORST_FIRST)
    return rank, device.uid


def _attaches(machine: Machine, models: Mapping[str, int], kinds: Mapping[str, str]) -> list[Step]:
    have = _have(machine)
    return [Step(ATTACH, machine, model, kinds.get(model, "gpu"), count - have.get(model, 0), count,
                 reason=f"{machine.name} has {have.get(model, 0)} x {model}, {count} wanted")
            for model, count in sorted(models.items()) if count > have.get(model, 0)]


def shortages(found: LayoutPlan, free: Mapping[PoolKey, int]) -> list[str]:
    """Why the plan cannot be carried out, one sentence per model and fabric.

    ``free``: free devices by (model, fabric); what it does not count is not judged.
    """
    said = [f"layout: machine {step.machine.name} is on no fabric and cannot get {step.count} x {step.model}"
            for step in found.moves(ATTACH) if step.machine.fabric is None]
    given_back = _devices_by_pool(found.moves(DETACH))
    for (model, fabric), need in sorted(_devices_by_pool(found.moves(ATTACH)).items()):
        if (model, fabric) in free:
            back = given_back[model, fabric]
            allowed = free[model, fabric] + back
            if need > allowed:
                said.append(f"layout: {need} x {model} would be attached on fabric {fabric}, allowed are {allowed} "
                            f"({free[model, fabric]} free, {back} given back by the layout)")
    return said


def _devices_by_pool(steps: Iterable[Step]) -> Counter[PoolKey]:
    counted: Counter[PoolKey] = Counter()
    for step in steps:
        if step.machine.fabric is not None:
            counted[step.model, step.machine.fabric] += step.count
    return counted


def predict(found: LayoutPlan, able: Capabilities, attach_seconds: float, detach_seconds: float) -> float:
    """Seconds that carrying out may take, as so many operations go at once as the executor begins.

    ``able``: what the manager can do. ``attach_seconds`` and ``detach_seconds``: what one operation takes.
    """
    attaches = found.moves(ATTACH)
    operations = len({step.machine.uid for step in attaches}) if able.batch else sum(step.count for step in attaches)
    return (math.ceil(len(found.moves(DETACH)) / MOST_AT_ONCE) * detach_seconds
            + math.ceil(operations / MOST_AT_ONCE) * attach_seconds)
