# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each claim is counted to the second while leaders are killed every few seconds.

Simulated: the clock, the API server with its memory of changes, and what a leader does to the devices. A process sees
a change at once, reads the changes every second, and stores the sums every minute, as controller/accounting.py does.
"""

from __future__ import annotations

import copy
import json
import random
import typing as t
from dataclasses import dataclass, field

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time, format_time
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.accounting.accounting_support import Process, World
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

Json = dict[str, t.Any]
DEVICES: t.Final = 4
TICK: t.Final = 0.1
ATTACH, HOLD, DETACH, TAKE_OVER, RENEWAL = 0.5, 2.0, 0.5, 12.0, 2.0


@dataclass
class RememberingApi(FakeApi):
    """An API server that remembers the changes of claims and Leases."""

    now: float = 0.0
    history: dict[str, list[Json]] = field(default_factory=lambda: {"resourceclaims": [], "leases": []})

    def text(self, path: str) -> str:
        """The changes after a version."""
        kind = "leases" if "/leases?" in path else "resourceclaims"
        since = int(path.partition("resourceVersion=")[2].partition("&")[0])
        return "\n".join(json.dumps(event) for event in self.history[kind]
                         if int(event["object"]["metadata"]["resourceVersion"]) > since)

    def put(self, resource: ApiResource, obj: Json) -> Json:
        """Have an object as it is, and remember it."""
        new = super().put(resource, obj)
        if resource == CLAIMS:
            self._remember("MODIFIED", new)
        return new

    def remove(self, resource: ApiResource, name: str, namespace: str = "") -> None:
        """Have an object gone, and remember it."""
        old = self.one(resource, name, namespace)
        super().remove(resource, name, namespace)
        if resource == CLAIMS:
            self.history["resourceclaims"].pop()  # the fake's own put before it deletes
            self._remember("DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(self._version)}})

    def renew(self) -> None:
        """An agent renews its Lease."""
        self._version += 1
        self.history["leases"].append({"type": "MODIFIED", "object": {
            "metadata": {"resourceVersion": str(self._version)}, "spec": {"renewTime": format_micro_time(self.now)}}})

    def _remember(self, kind: str, claim: Json) -> None:
        claim = copy.deepcopy(claim)
        wrote = self.now if claims.results(claim) else 0.0
        claim["metadata"]["managedFields"] = [{"time": format_time(wrote)}]
        self.history["resourceclaims"].append({"type": kind, "object": claim})


@dataclass
class Device:
    """A device from its request until it has left. ``claim``: name of the claim that it comes for."""

    name: str
    claim: str
    requested: float
    attached: float = 0.0
    allocated: float = 0.0
    released: float = 0.0
    hidden: float = 0.0
    used: float = 0.0
    leaving: float = 0.5

    @property
    def namespace(self) -> str:
        """That of the claim."""
        return f"job-{int(self.claim) % 100}"


class Life(World):
    """A cluster in which claims come and go, and leaders are killed."""

    def __init__(self, seed: int) -> None:
        super().__init__(api := RememberingApi())
        self.memory, self.chance = api, random.Random(seed)
        self.devices: list[Device] = []
        self.seconds: dict[str, float] = {}
        self.leader: Process | None = self.process()
        self.standby, self.started, self.ticks = self.process(), 0, 0
        self.keep_at, self.lead_at, self.start_at, self.kills = 0.0, 0.0, 0.0, 0

    def tick(self) -> None:
        """A tenth of a second passes."""
        self.now += TICK
        self.memory.now = self.now
        self.ticks += 1
        if self.ticks % round(RENEWAL / TICK) == 0:
            self.memory.renew()
        self._take_over()
        self._count()
        if self.leader is not None:
            for device in [*self.devices]:
                self._lead(self.leader, device)
        for device in self.devices:  # the scheduler goes on without a leader
            if device.attached and not device.allocated and self.now >= device.attached + 0.3:
                device.allocated = self.now
                self._claim(device, allocated=True)

    def _take_over(self) -> None:
        """The process that stood by leads, and a new one starts some seconds later."""
        if self.leader is None and self.now >= self.lead_at:
            self.standby = self.standby if self.processes else self.process()
            self.leader, self.keep_at = self.standby, self.now
            self.start_at = self.now + self.chance.uniform(0.0, 4.0)
        if self.leader is self.standby and self.now >= self.start_at:
            self.standby = self.process()

    def _count(self) -> None:
        """Every process reads the changes once a second. The leader stores the sums once a minute."""
        for number, process in enumerate(self.processes):
            if (self.ticks + 3 * number) % round(1 / TICK) == 0:
                process.keeper.update()
                if process is self.leader and self.now >= self.keep_at:
                    self.keep_at = self.now + 60.0
                    process.keeper.keep()

    def _lead(self, leader: Process, device: Device) -> None:
        name, now = f"r-{device.name}", self.now
        if not device.attached and now >= device.requested + ATTACH:
            self.device(name, device.name, created=device.requested, meant=device.namespace)
            device.attached = now
            self._show()
        elif device.allocated and not device.released and not device.used and self.chance.random() < 0.5:
            device.used = now
            leader.touch(name, in_use=True)
        elif device.released and device.used and self.chance.random() < 0.5:
            device.used = 0.0
            leader.touch(name, in_use=False)
        elif device.released and not device.used and not device.hidden and now >= device.released + HOLD:
            device.hidden, device.leaving = now, self.chance.uniform(0.2, 3.0)
            leader.writer.resources.ask_release(name)
            self._show()
        elif device.hidden and now >= device.hidden + device.leaving:
            self.device(name, "")
            leader.writer.resources.finish(name)
            self.remove(COMPOSABLE_RESOURCES, name)
            self.devices.remove(device)

    def _show(self) -> None:
        made = objects.local_slice()
        made["spec"]["devices"] = [{"name": each.name, "attributes": {"uuid": {"string": each.name}}}
                                   for each in self.devices if each.attached and not each.hidden]
        self.put(SLICES, made)

    def _claim(self, device: Device, *, allocated: bool) -> None:
        self.claim(device.claim, device.name if allocated else "", device.namespace)

    def begin(self) -> None:
        """A pod asks for a device, and the leader requests one."""
        number = self.started = self.started + 1
        device = Device(f"d{number}", f"{number}", self.now)
        self.devices.append(device)
        self._claim(device, allocated=False)
        self.device(f"r-{device.name}", "", created=self.now, meant=device.namespace)

    def end(self) -> None:
        """A pod that runs ends in some seconds, and its claim."""
        self.wait(self.chance.uniform(0.2, 4.0))
        device = self.chance.choice([each for each in self.devices if each.allocated and not each.released])
        device.released = self.now
        self._claim(device, allocated=False)
        self.remove(CLAIMS, device.claim, device.namespace)
        held = device.released - device.allocated
        self.seconds[device.namespace] = self.seconds.get(device.namespace, 0.0) + held

    def running(self) -> int:
        """How many claims have a device."""
        return sum(bool(each.allocated and not each.released) for each in self.devices)

    def kill(self) -> None:
        """The leader is killed. The other process leads when its Lease has expired. Sometimes both are killed."""
        assert self.leader is not None
        self.processes.remove(self.leader)
        self.leader, self.lead_at = None, self.now + self.chance.uniform(3.0, TAKE_OVER)
        if self.chance.random() < 0.2:
            self.wait(self.chance.uniform(0.0, 2.0))
            self.processes.clear()
        self.kills += 1

    def replace(self) -> None:
        """Another process leads, and a third one stands by."""
        while self.leader is None or self.leader is self.standby:
            self.tick()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        for _tick in range(round(seconds / TICK)):
            self.tick()

    def step(self) -> None:
        """A claim comes or goes, or the leader is killed, and claims end before another one leads."""
        dice = self.chance.random()
        if len(self.devices) < DEVICES and dice < 0.6:
            self.begin()
            while not self.devices[-1].allocated:
                self.tick()
        elif self.running() and dice < 0.8:
            self.end()
        else:
            self.kill()
            for _claim in range(self.chance.randrange(3)):
                if self.running():
                    self.end()
            self.replace()


@pytest.mark.parametrize("seed", range(2))
def test_each_claim_is_counted_to_the_second(seed: int) -> None:
    life = Life(seed)
    while life.started < 60:
        life.wait(life.chance.choice([0.0, 0.1, 1.0, 3.0]))
        life.step()
    while life.devices:
        life.end() if life.running() else life.tick()
    assert life.leader is not None
    counted = {name: row.used for name, row in life.leader.sums().items() if name}
    wrong = {name: round(counted.get(name, 0.0) - seconds, 1) for name, seconds in life.seconds.items()}
    assert {name: seconds for name, seconds in wrong.items() if abs(seconds) > 1.5} == {}
    assert life.leader.keeper.known().uncertain < life.kills
