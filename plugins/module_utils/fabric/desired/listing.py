# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter and sort a manager's machines, devices, free counts and links, up to 40,000 devices."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..api import Device, FabricManager, Machine
from ..errors import FabricError
from . import lookup

PARTS: t.Final = ("machines", "devices", "free", "links")
DEVICE_FILTERS: t.Final = ("model", "kind", "state", "health")
Json = dict[str, t.Any]
Free = dict[tuple[str, "int | None"], int]


@dataclass(frozen=True, slots=True)
class Question:
    """The requested data. ``filters`` are allowed values by name.

    The filters ``fabric`` and ``machine`` select machines too.
    """

    parts: frozenset[str]
    models: tuple[str, ...] = ()
    machine: str | None = None
    filters: Mapping[str, frozenset[t.Any]] = field(default_factory=dict)

    def device(self, found: Device) -> bool:
        """Return whether a device passes the filters."""
        return all(getattr(found, name) in allowed for name, allowed in self.filters.items() if name != "machine")

    def picky(self) -> bool:
        """Return whether a filter selects devices by their properties."""
        return any(name in self.filters for name in DEVICE_FILTERS)


def ask(fabric: FabricManager, question: Question) -> Json:
    """Return all requested parts and ``problems``. Raise FabricError."""
    machines, counted, problems = _look(fabric, question)
    shown = _shown(machines, question)
    parts: dict[str, Callable[[], list[Json]]] = {
        "machines": lambda: [machine_row(m) for m in shown],
        "devices": lambda: [device_row(d) for d in _devices(fabric, question, shown)],
        "free": lambda: [{"model": model, "fabric": number, "free": n}
                         for (model, number), n in sorted(counted.items(), key=str)
                         if number in question.filters.get("fabric", (number,))],
        "links": lambda: [row for m in shown for row in link_rows(m)],
    }
    return {**{name: parts[name]() for name in PARTS if name in question.parts}, "problems": problems}


def _look(fabric: FabricManager, question: Question) -> tuple[tuple[Machine, ...], Free, Json]:
    if question.machine:
        one = lookup.machine(fabric, question.machine)
        counted, problems = _through(fabric, one, question.models)
        return (one,), counted, problems
    if "free" in question.parts:
        return look(fabric, question.models)
    return tuple(fabric.snapshot(()).machines.values()), {}, {}


def look(fabric: FabricManager, models: tuple[str, ...]) -> tuple[tuple[Machine, ...], Free, Json]:
    """Return machines, free devices by model and fabric, and the counts that failed.

    Without models, count all listed free devices.
    """
    found = fabric.snapshot(models)
    free: Free = {(model, number): n for (model, number), n in found.free.items()}
    if not models and fabric.capabilities.lists_free:
        free = dict(Counter((d.model, d.fabric) for d in fabric.devices() if d.state == "free"))
    return tuple(found.machines.values()), free, dict(found.problems)


def _through(fabric: FabricManager, one: Machine, models: Iterable[str]) -> tuple[Free, Json]:
    """Count the devices that can be attached to one machine."""
    counted: Free = {}
    problems: Json = {}
    for model in models if one.fabric is not None else ():
        try:
            counted[model, one.fabric] = fabric.free(one.uid, model)
        except FabricError as error:
            problems[f"{model}/{one.fabric}"] = error.message
    return counted, problems


def _shown(machines: Iterable[Machine], question: Question) -> list[Machine]:
    picked = (m for m in machines if _passes(m, question))
    if question.filters:
        picked = (replace(m, devices=tuple(d for d in m.devices if question.device(d))) for m in picked)
    return sorted((m for m in picked if m.devices or not question.picky()), key=lambda m: (m.name, m.uid))


def _passes(machine: Machine, question: Question) -> bool:
    wanted = question.filters.get("machine")
    return ((wanted is None or machine.uid in wanted or machine.name in wanted)
            and machine.fabric in question.filters.get("fabric", (machine.fabric,)))


def _devices(fabric: FabricManager, question: Question, shown: Iterable[Machine]) -> list[Device]:
    """Return the devices. Leave out free devices if machines are selected."""
    attached = (d for m in shown for d in m.devices)
    free: Iterable[Device] = ()
    if fabric.capabilities.lists_free and not question.machine and "machine" not in question.filters:
        free = (d for d in fabric.devices() if d.machine is None and question.device(d))
    return sorted((*attached, *free), key=lambda d: d.uid)


def device_row(device: Device) -> Json:
    """Return a device as plain data."""
    return {name: getattr(device, name) for name in Device.__slots__}


def machine_row(machine: Machine) -> Json:
    """Return a machine with its devices as plain data."""
    return {"uid": machine.uid, "name": machine.name, "fabric": machine.fabric, "power_state": machine.power,
            "devices": [device_row(d) for d in machine.devices]}


def link_rows(machine: Machine) -> list[Json]:
    """Return a row for each device of the machine, with the fabric between them."""
    return [{"fabric": d.fabric if d.fabric is not None else machine.fabric, "machine": machine.uid,
             "name": machine.name, "device": d.uid, "model": d.model, "state": d.state} for d in machine.devices]
