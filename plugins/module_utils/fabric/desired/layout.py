# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the steps to a wanted layout of a fabric, whether they can work, and how long they take.

Pure functions from the inventory to a plan. A machine in the layout gets exactly the devices that
the layout lists.
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

# Order in which surplus devices of a model leave.
_WORST_FIRST: t.Final = ("Critical", "Warning", "Unknown", "OK")

Wanted = Mapping[str, Mapping[str, int]]
PoolKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """``steps`` in the order of their start. ``before`` and ``after`` are by machine."""

    steps: tuple[Step, ...]
    before: Mapping[str, Mapping[str, int]]
    after: Mapping[str, Mapping[str, int]]

    def moves(self, action: str) -> tuple[Step, ...]:
        """Return all steps with this action."""
        return tuple(s for s in self.steps if s.action == action)


def read(layout: t.Any) -> dict[str, dict[str, int]]:
    """Check a user's layout and return ``{machine: {model: count}}``, machines by uid or name.

    A machine without devices may be None or {}. Raise BadConfiguration with the place of the error.
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
    """Return the steps from the present to the wanted state.

    ``machines`` are all machines of the tenant. ``wanted`` is the exact number of devices by
    machine (uid or name) and model. Models that are not named are detached. With ``empty_others``,
    machines outside the layout lose all devices. ``kinds`` are by model, for models without an
    attached device. Raise Missing for an unknown machine, and BadConfiguration for a machine that
    is named twice or ambiguously.
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
    """Return the machines of the layout by name, each with its wanted counts."""
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
            raise BadConfiguration("layout", name, f"machine {found.uid} is named twice. Name it once")
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
    """Return a sort key for devices of which some must leave: unhealthy first, then by uid."""
    rank = _WORST_FIRST.index(device.health) if device.health in _WORST_FIRST else len(_WORST_FIRST)
    return rank, device.uid


def _attaches(machine: Machine, models: Mapping[str, int], kinds: Mapping[str, str]) -> list[Step]:
    have = _have(machine)
    return [Step(ATTACH, machine, model, kinds.get(model, "gpu"), count - have.get(model, 0), count,
                 reason=f"{machine.name} has {have.get(model, 0)} x {model}, {count} wanted")
            for model, count in sorted(models.items()) if count > have.get(model, 0)]


def shortages(found: LayoutPlan, free: Mapping[PoolKey, int]) -> list[str]:
    """Return the reasons why the plan cannot work, as one sentence for each model and fabric.

    ``free`` counts free devices by (model, fabric). Pairs without a count are not judged.
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
    """Return the seconds that the plan may take with the parallel operations of the executor.

    ``able`` are the abilities of the manager. ``attach_seconds`` and ``detach_seconds`` are the
    durations of one operation.
    """
    attaches = found.moves(ATTACH)
    operations = len({step.machine.uid for step in attaches}) if able.batch else sum(step.count for step in attaches)
    return (math.ceil(len(found.moves(DETACH)) / MOST_AT_ONCE) * detach_seconds
            + math.ceil(operations / MOST_AT_ONCE) * attach_seconds)
