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

from . import choose
from .errors import BadConfiguration
from .parallel import MOST_AT_ONCE
from .types import Capabilities, Device, Machine

ATTACH: t.Final = "attach"
DETACH: t.Final = "detach"
# What goes first when a machine has too many of a model.
_WORST_FIRST: t.Final = ("Critical", "Warning", "Unknown", "OK")

Wanted = Mapping[str, Mapping[str, int]]
PoolKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """``count`` devices of ``model`` to a machine, which then has ``total``, or ``device`` away from it."""

    action: str
    machine: Machine
    model: str
    kind: str
    count: int = 1
    total: int = 0
    device: Device | None = None
    reason: str = ""


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
    """Check ``{machine: {model: count}}``; a machine without devices may be empty. Raises BadConfiguration."""
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
    """What must be done. ``empty_others``: machines that the layout does not name give all devices back.

    Raises Missing for an unknown machine, BadConfiguration for one that is named twice or not uniquely.
    """
    named = _resolve(machines, wanted)
    todo = [(m, named.get(m.uid)) for m in sorted(machines, key=lambda m: (m.name, m.uid))]
    targets = [(m, {} if models is None else models) for m, models in todo if models is not None or empty_others]
    known = {**{d.model: d.kind for m in machines for d in m.devices}, **(kinds or {})}
    away = [step for m, models in targets for step in _detaches(m, models)]
    here = [step for m, models in targets for step in _attaches(m, models, known)]
    names = Counter(m.name for m in machines)
    shown = {m.uid: m.name if names[m.name] == 1 else m.uid for m, _unused in targets}
    return LayoutPlan((*away, *here), {shown[m.uid]: _have(m) for m, _unused in targets},
                      {shown[m.uid]: _positive(models) for m, models in targets})


def _resolve(machines: Sequence[Machine], wanted: Wanted) -> dict[str, Mapping[str, int]]:
    by_uid = {m.uid: m for m in machines}
    names: dict[str, list[Machine]] = {}
    for machine in machines:
        names.setdefault(machine.name, []).append(machine)
    found: dict[str, Mapping[str, int]] = {}
    for name, models in wanted.items():
        one = by_uid.get(name) or (names[name][0] if len(names.get(name, ())) == 1 else
                                   choose.pick(machines, name, "layout"))
        if one.uid in found:
            raise BadConfiguration("layout", name, f"machine {one.uid} is named twice; name it once")
        found[one.uid] = models
    return found


def _have(machine: Machine) -> dict[str, int]:
    return dict(sorted(Counter(d.model for d in _staying(machine)).items()))


def _positive(models: Mapping[str, int]) -> dict[str, int]:
    return {model: count for model, count in sorted(models.items()) if count}


def _staying(machine: Machine) -> list[Device]:
    return [d for d in machine.devices if d.state != "detaching"]


def _detaches(machine: Machine, models: Mapping[str, int]) -> list[Step]:
    steps = []
    for model, have in _have(machine).items():
        surplus = have - models.get(model, 0)
        if surplus > 0:
            devices = sorted((d for d in _staying(machine) if d.model == model), key=_dispensable)[:surplus]
            reason = f"{machine.name} has {have} x {model}, {models.get(model, 0)} wanted"
            steps += [Step(DETACH, machine, model, d.kind, total=models.get(model, 0), device=d, reason=reason)
                      for d in devices]
    return steps


def _dispensable(device: Device) -> tuple[int, str]:
    rank = _WORST_FIRST.index(device.health) if device.health in _WORST_FIRST else len(_WORST_FIRST)
    return rank, device.uid


def _attaches(machine: Machine, models: Mapping[str, int], kinds: Mapping[str, str]) -> list[Step]:
    have = _have(machine)
    return [Step(ATTACH, machine, model, kinds.get(model, "gpu"), count - have.get(model, 0), count,
                 reason=f"{machine.name} has {have.get(model, 0)} x {model}, {count} wanted")
            for model, count in sorted(models.items()) if count > have.get(model, 0)]


def shortages(found: LayoutPlan, free: Mapping[PoolKey, int]) -> list[str]:
    """Why the plan cannot be carried out, one sentence per model and fabric; what is not counted is not judged."""
    need: Counter[PoolKey] = Counter()
    back: Counter[PoolKey] = Counter()
    for step in found.steps:
        if step.machine.fabric is not None:
            side = need if step.action == ATTACH else back
            side[step.model, step.machine.fabric] += step.count
    said = [f"layout: machine {s.machine.name} is on no fabric and cannot get {s.count} x {s.model}"
            for s in found.moves(ATTACH) if s.machine.fabric is None]
    return said + [f"layout: {n} x {model} would be attached on fabric {fabric}, allowed are "
                   f"{free[model, fabric] + back[model, fabric]} ({free[model, fabric]} free, "
                   f"{back[model, fabric]} given back by the layout)"
                   for (model, fabric), n in sorted(need.items())
                   if (model, fabric) in free and n > free[model, fabric] + back[model, fabric]]


def predict(found: LayoutPlan, able: Capabilities, attach_seconds: float, detach_seconds: float) -> float:
    """Seconds that carrying out may take, from what the manager can do at once and what one operation takes."""
    return (_rounds(found.moves(DETACH), able, batched=False) * detach_seconds
            + _rounds(found.moves(ATTACH), able, batched=able.batch) * attach_seconds)


def _rounds(steps: Iterable[Step], able: Capabilities, *, batched: bool) -> int:
    """How many operations follow one another: on one machine where it takes one at a time, and for want of room."""
    per_machine: Counter[str] = Counter()
    for step in steps:
        per_machine[step.machine.uid] += 1 if batched else step.count
    if not per_machine:
        return 0
    in_turn = 1 if able.concurrent_per_machine else max(per_machine.values())
    return max(in_turn, math.ceil(len(per_machine if batched else list(per_machine.elements())) / MOST_AT_ONCE))
