# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole fabric in a dictionary: machines, free devices, and an error for whoever shall have one."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricSnapshot,
    Machine,
    Proof,
    Started,
    Task,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError, Missing, Refused

A, B, MEM = "A100 40G", "A100 80G", "CXL-512G"
ABLE = Capabilities(asynchronous=False, batch=False)


def devices(model: str, count: int, fabric: int = 1, **more: t.Any) -> list[Device]:
    """Free devices; uids are made of fabric, model and number."""
    return [Device(f"{fabric}/{model}/{n}", model, **{"fabric": fabric, "state": "free", "health": "OK", **more})
            for n in range(count)]


@dataclass
class FakeManager:
    """``names`` maps machines to fabrics; their uid is the name with ``uid-`` before it.

    ``fails``: an error for each attach to or detach from a machine; ``log``: what was asked, in order.
    """

    names: dict[str, int | None]
    stock: dict[str, Device]
    able: Capabilities = ABLE
    fails: dict[str, list[FabricError]] = field(default_factory=dict)
    log: list[tuple[str, str, str, int]] = field(default_factory=list)
    gate: threading.Event | None = None
    most: int = 0
    _now: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, names: dict[str, int | None], *stock: list[Device], **more: t.Any) -> FakeManager:
        return cls(names, {d.uid: d for some in stock for d in some}, **more)

    @property
    def capabilities(self) -> Capabilities:
        return self.able

    def put(self, machine: str, model: str, count: int = 1, **more: t.Any) -> list[str]:
        """Have devices attached from the start; their uids."""
        free = [d for d in self.stock.values() if d.machine is None and d.model == model
                and d.fabric == self.names[machine]][:count]
        assert len(free) == count
        for device in free:
            self.stock[device.uid] = replace(device, machine=f"uid-{machine}", state="attached", **more)
        return [d.uid for d in free]

    def machines(self) -> tuple[Machine, ...]:
        with self._lock:
            return tuple(Machine(f"uid-{n}", n, f, tuple(d for d in self.stock.values() if d.machine == f"uid-{n}"))
                         for n, f in self.names.items())

    def machine(self, uid: str) -> Machine:
        for found in self.machines():
            if found.uid == uid:
                return found
        raise Missing(f"the CDI Manager knows no machine {uid}")

    def free(self, machine_uid: str, model: str) -> int:
        fabric = self.machine(machine_uid).fabric
        return sum(d.machine is None and d.model == model and d.fabric == fabric for d in self.stock.values())

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        fabrics = {f for f in self.names.values() if f is not None}
        free = {(m, f): sum(d.machine is None and d.model == m and d.fabric == f for d in self.stock.values())
                for m in models for f in fabrics}
        return FabricSnapshot({m.uid: m for m in self.machines()}, free, time.time())

    def devices(self) -> tuple[Device, ...]:
        with self._lock:
            return tuple(d for d in self.stock.values() if d.machine or self.able.lists_free)

    def attach(self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
               started: Started | None = None, proof: Proof | None = None) -> Task:
        self._asked("attach", machine_uid, model, count)
        handles = (f"op-{machine_uid}-{model}",) if self.able.asynchronous else ()
        if handles and started:
            started(handles)
        if self.gate:
            assert self.gate.wait(10), "the test never opened the gate"
        with self._lock:
            fabric = self.machine(machine_uid).fabric
            free = [d for d in self.stock.values() if d.machine is None and d.model == model and d.fabric == fabric]
            if len(free) < count:
                raise Refused(f"insufficient {model}", exhausted=True)
            new = [replace(d, machine=machine_uid, state="attached") for d in free[:count]]
            self.stock.update({d.uid: d for d in new})
        return Task(True, tuple(new), handles)

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        self._asked("detach", machine_uid, device_uid, 1)
        with self._lock:
            device = self.stock[device_uid]
            self.stock[device_uid] = replace(device, machine=None, state="free")
        return Task(True, (device,))

    def resume(self, handles: tuple[str, ...]) -> Task:
        if unknown := [handle for handle in handles if not handle.startswith("op-")]:
            raise Missing(f"no operation {unknown[0]}")
        found = (d for d in self.stock.values() if d.machine and any(d.machine in handle for handle in handles))
        return Task(True, tuple(found), handles)

    def close(self) -> None:
        """Nothing to close."""

    def _asked(self, what: str, machine: str, about: str, count: int) -> None:
        with self._lock:
            self.log.append((what, machine, about, count))
            errors = self.fails.get(machine)
            error = errors.pop(0) if errors else None
        _raise(error)


def _raise(error: FabricError | None) -> None:
    if error is not None:
        raise error
