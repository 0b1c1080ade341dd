# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace modules by stand-ins while a simulation runs, and restore them."""

from __future__ import annotations

import random
import sys
import threading
import time
import types
import typing as t
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Simulation

_ROOT = "ansible_collections.composable.infra."
_FABRIC = _ROOT + "emulator.pool."
PATCHED = (_ROOT + "plugins.module_utils.", _ROOT + "controller.", _FABRIC)
# Tasks never hold these locks where they may give up their turn, and use them very often.
_REAL_LOCKS = tuple(_ROOT + "plugins.module_utils." + name for name in (
    "kube.watch.store", "reconcile.state.memory", "reconcile.state.device_holds", "reconcile.state.reservations"))
_CLOCKS: dict[object, object] = {time.time: stand_ins.Time.time, time.monotonic: stand_ins.Time.monotonic}


def _replacements(module: str, rng: random.Random) -> dict[int, object]:
    """Return the replacement of each object of a module, by the identity of the object."""
    found: dict[int, object] = {
        id(time): stand_ins.TimeElsewhere() if module.startswith(_FABRIC) else stand_ins.Time(),
        id(random): rng, id(futures.Future): stand_ins.Future,
        id(futures.ThreadPoolExecutor): stand_ins.ThreadPoolExecutor}
    return found if module in _REAL_LOCKS else {**found, id(threading): stand_ins.Threading()}


@contextmanager
def running(simulation: Simulation) -> Iterator[None]:
    """Let the engine and the emulated pool use the virtual clock until the end of the block."""
    undo: list[tuple[t.Any, str, object]] = []
    stand_ins.use(simulation)
    try:
        for name, module in list(sys.modules.items()):
            if name.startswith(PATCHED):
                _patch(module, _replacements(name, simulation.rng), undo)
        yield
    finally:
        for owner, attribute, value in reversed(undo):
            setattr(owner, attribute, value)
        stand_ins.use(None)


def _patch(module: types.ModuleType, replacements: dict[int, object], undo: list[tuple[t.Any, str, object]]) -> None:
    for attribute, value in list(vars(module).items()):
        if id(value) in replacements:
            undo.append((module, attribute, value))
            setattr(module, attribute, replacements[id(value)])
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for function in vars(value).values():
                if isinstance(function, types.FunctionType):
                    _patch_defaults(function, undo)


def _patch_defaults(function: types.FunctionType, undo: list[tuple[t.Any, str, object]]) -> None:
    """Replace clocks in default arguments."""
    for attribute, values in (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__)):
        found: t.Any = dict(values) if isinstance(values, dict) else None
        if isinstance(values, tuple) and any(_is_clock(value) for value in values):
            found = tuple(_CLOCKS[value] if _is_clock(value) else value for value in values)
        elif found and any(_is_clock(value) for value in found.values()):
            found = {key: _CLOCKS[value] if _is_clock(value) else value for key, value in found.items()}
        else:
            continue
        undo.append((function, attribute, values))
        setattr(function, attribute, found)


def _is_clock(value: object) -> bool:
    return isinstance(value, types.BuiltinFunctionType) and value in _CLOCKS
