# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI Manager that does as the test says: answers in order, errors, replies held back until they are let go."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricSnapshot,
    Machine,
    Proof,
    Started,
    Switch,
    Task,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing
from ansible_collections.composable.infra.tests.unit.planning.builders import A100

Answer = Callable[[str, str], Device]


def device(uid: str, model: str = A100, **more: t.Any) -> Device:
    """A device whose serial is its uid with a prefix."""
    return Device(**{"uid": uid, "model": model, "machine": "machine-0", "fabric": 1, "serial": f"GPU-{uid}", **more})


@dataclass
class FakeFabric:
    """Machine ``machine-0`` on fabric 1. ``answers`` are taken in turn: an exception to raise or None to attach.

    ``power``: that of ``machine-0``. ``others``: uids of further machines there. ``fabrics``: those of machines that
    are not on fabric 1. ``hangs``: by uid, machines whose reading waits until the event is set; ``stuck``: the same for
    attaches. ``queued`` is called while a detach waits for its turn.
    """

    answers: list[BaseException | None] = field(default_factory=list)
    attached: dict[str, Device] = field(default_factory=dict)
    attaches: list[tuple[str, str]] = field(default_factory=list)
    detaches: list[tuple[str, str]] = field(default_factory=list)
    detach_error: BaseException | None = None
    machine_error: BaseException | None = None
    snapshot_error: BaseException | None = None
    free_count: int = 4
    reads: int = 0
    gate: threading.Event | None = None
    asked: threading.Event = field(default_factory=threading.Event)
    serials: bool = True
    operations: dict[str, list[Device] | BaseException] = field(default_factory=dict)
    resumed: list[str] = field(default_factory=list)
    handle: str = ""
    power: str | None = None
    others: tuple[str, ...] = ()
    hangs: dict[str, threading.Event] = field(default_factory=dict)
    stuck: dict[str, threading.Event] = field(default_factory=dict)
    fabrics: dict[str, int] = field(default_factory=dict)
    free_in_boxes: dict[tuple[str, int, str], int] = field(default_factory=dict)
    switches: tuple[Switch, ...] = ()
    switches_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    queued: Callable[[], object] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(asynchronous=False, batch=False)

    def machines(self) -> tuple[Machine, ...]:
        with self._lock:
            here = {uid: tuple(d for d in self.attached.values() if d.machine == uid) for uid in self.others}
            first = tuple(d for d in self.attached.values() if d.machine not in here)
            return (Machine("machine-0", "node-0", 1, first, self.power),
                    *(Machine(uid, uid.replace("machine", "node"), self.fabrics.get(uid, 1), devices)
                      for uid, devices in here.items()))

    def machine(self, uid: str) -> Machine:
        self.reads += 1
        if uid in self.hangs:
            assert self.hangs[uid].wait(10), "the test never let the reading go"
        if self.machine_error:
            raise self.machine_error
        for found in self.machines():
            if found.uid == uid:
                return found
        raise Missing(f"the CDI Manager knows no machine {uid}")

    def free(self, machine_uid: str, model: str) -> int:
        return self.free_count

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        if self.snapshot_error:
            raise self.snapshot_error
        free = {(m, number): self.free_count for m in models for number in {1, *self.fabrics.values()}}
        return FabricSnapshot({m.uid: m for m in self.machines()}, free, time.time(),
                              free_in_boxes=dict(self.free_in_boxes), switches=self.switches,
                              switches_of=dict(self.switches_of))

    @staticmethod
    def _reply(answer: BaseException | None) -> None:
        if answer is None:
            return
        raise answer

    def devices(self) -> tuple[Device, ...]:
        """What is attached."""
        with self._lock:
            return tuple(self.attached.values())

    def resume(self, handles: tuple[str, ...]) -> Task:
        """What ``operations`` says of a handle."""
        (handle,) = handles
        self.resumed.append(handle)
        found = self.operations.get(handle)
        if found is None:
            raise Missing(f"no operation {handle}")
        if isinstance(found, BaseException):
            raise found
        for new in found:
            self.attached[new.uid] = new
        return Task(True, tuple(found), handles)

    def attach(self, machine_uid: str, model: str, count: int = 1, token: str | None = None,
               kind: str = "gpu", started: Started | None = None, proof: Proof | None = None) -> Task:
        if proof:
            proof()
        with self._lock:
            self.attaches.append((machine_uid, model))
            number = len(self.attaches)
            answer = self.answers.pop(0) if self.answers else None
        self.asked.set()
        if self.handle and started:
            started((self.handle,))
        for held_back in filter(None, (self.gate, self.stuck.get(machine_uid))):
            assert held_back.wait(10), "the test never let the reply go"
        self._reply(answer)
        new = device(f"d{number}", model, machine=machine_uid)
        new = new if self.serials else replace(new, serial=None)
        with self._lock:
            self.attached[new.uid] = new
        return Task(True, (new,))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        if self.queued:
            self.queued()
        if proof and device_uid in self.attached:  # no driver sends a request for a device that has left
            proof()
        with self._lock:
            self.detaches.append((machine_uid, device_uid))
        if self.detach_error:
            raise self.detach_error
        with self._lock:
            self.attached.pop(device_uid, None)
        return Task(True)

    def close(self) -> None:
        """Nothing to close."""
