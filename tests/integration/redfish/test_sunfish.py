# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sunfish in both ways: its agents' fabrics as a Redfish tree, and CoHDI's numbers of GPUs per node."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.sunfish.driver import SunfishDriver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Missing,
    Refused,
    Uncertain,
    Withdrawn,
)
from ansible_collections.composable.infra.tests.integration.redfish.conftest import (
    GPU,
    MEMORY,
    NODE_0,
    NODE_1,
    Bench,
    attached,
    effects,
)

Make = t.Callable[[Emulator], SunfishDriver]


@pytest.fixture
def sunfish() -> Iterator[Make]:
    """Makes clients through the table of managers, as every caller does."""
    made: list[SunfishDriver] = []

    def make(emulator: Emulator) -> SunfishDriver:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config()))
        assert isinstance(fabric, SunfishDriver)
        made.append(fabric)
        return fabric

    yield make
    for fabric in made:
        fabric.close()


def patches(emulator: Emulator) -> list[dict[str, t.Any]]:
    return [entry for entry in emulator.log() if entry["method"] == "PATCH"]


def test_with_agents_it_is_a_redfish_tree(start: Bench, sunfish: Make) -> None:
    emulator = start(manager="sunfish")
    fabric = sunfish(emulator)
    assert fabric.capabilities.lists_free
    assert fabric.snapshot([GPU, MEMORY]).free == {(GPU, 1): 4, (MEMORY, 1): 2}
    device = fabric.attach(NODE_0, MEMORY, kind="memory").devices[0]
    assert attached(emulator) == {device.uid: NODE_0}
    assert [entry["path"] for entry in emulator.log() if entry["method"] == "POST"] == [
        "/redfish/v1/Fabrics/1/Connections"]
    fabric.detach(NODE_0, device.uid)
    assert attached(emulator) == {}


@pytest.fixture
def numbers(start: Bench) -> Emulator:
    """Sunfish without agents."""
    return start({"agents": False}, manager="sunfish")


def test_without_agents_cohdis_request_is_sent(numbers: Emulator, sunfish: Make) -> None:
    fabric = sunfish(numbers)
    device = fabric.attach(NODE_0, GPU).devices[0]
    assert attached(numbers) == {device.uid: NODE_0}
    assert fabric.machine(NODE_0).devices == (device,)
    assert [entry["path"] for entry in patches(numbers)] == ["/redfish/v1/Systems/System"]
    fabric.detach(NODE_0, device.uid)
    assert attached(numbers) == {}
    assert fabric.detach(NODE_0, device.uid).done
    assert len(patches(numbers)) == 2


def test_attaches_to_one_machine_are_one_number(numbers: Emulator, sunfish: Make) -> None:
    """Concurrent numbers would undo each other: while one is sent, the others gather."""
    numbers.set_timing(attach=0.3)
    fabric = sunfish(numbers)
    with ThreadPoolExecutor(4) as pool:
        tasks = list(pool.map(lambda n: fabric.attach((NODE_0, NODE_1)[n % 2], GPU), range(4)))
    uids = [task.devices[0].uid for task in tasks]
    assert attached(numbers) == {uid: (NODE_0, NODE_1)[n % 2] for n, uid in enumerate(uids)}
    assert len(fabric.machine(NODE_0).devices) == 2


def test_a_number_cannot_name_a_device(numbers: Emulator, sunfish: Make) -> None:
    fabric = sunfish(numbers)
    first, second = fabric.attach(NODE_0, GPU, 2).devices
    with pytest.raises(Refused, match=second.uid):
        fabric.detach(NODE_0, first.uid)
    assert len(attached(numbers)) == 2


def test_a_device_that_came_after_the_first_look_stays(numbers: Emulator, sunfish: Make,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """The number 0 would take it, too."""
    fabric, other = sunfish(numbers), sunfish(numbers)
    (first,) = fabric.attach(NODE_0, GPU).devices
    way = fabric.way()
    read, came = way.machine, list[Device]()

    def machine(uid: str) -> Machine:
        found = read(uid)
        if not came:
            came.extend(other.attach(NODE_0, GPU).devices)
        return found

    monkeypatch.setattr(way, "machine", machine)
    with pytest.raises(Withdrawn, match="it could take"):
        fabric.detach(NODE_0, first.uid)
    assert attached(numbers) == {first.uid: NODE_0, came[0].uid: NODE_0}


def test_a_lost_reply_is_answered_by_the_same_number(numbers: Emulator, sunfish: Make) -> None:
    fabric = sunfish(numbers)
    numbers.set_faults({"kind": "lost_reply", "method": "PATCH", "nth": 1})
    device = fabric.attach(NODE_0, GPU).devices[0]
    assert attached(numbers) == {device.uid: NODE_0}
    assert len(patches(numbers)) == 2
    assert effects(numbers) == ["attached"]


def test_a_lost_reply_stays_uncertain_when_the_same_number_cannot_be_sent(numbers: Emulator, sunfish: Make) -> None:
    fabric = sunfish(numbers)
    numbers.set_faults({"kind": "lost_reply", "method": "PATCH", "nth": 1},
                       {"kind": "status", "method": "PATCH", "status": 503, "nth": list(range(2, 20))})
    with pytest.raises(Uncertain):
        fabric.attach(NODE_0, GPU)
    assert len(attached(numbers)) == 1


def test_a_reply_that_never_comes_is_uncertain(numbers: Emulator, sunfish: Make) -> None:
    numbers.set_faults({"kind": "lost_request", "method": "PATCH"})
    with pytest.raises(Uncertain):
        sunfish(numbers).attach(NODE_0, GPU)


def test_more_than_there_is(numbers: Emulator, sunfish: Make) -> None:
    fabric = sunfish(numbers)
    with pytest.raises(Refused) as refused:
        fabric.attach(NODE_0, GPU, 5)
    assert refused.value.exhausted
    assert attached(numbers) == {}


def test_what_is_not_told_is_said(numbers: Emulator, sunfish: Make) -> None:
    fabric = sunfish(numbers)
    snapshot = fabric.snapshot([GPU])
    assert snapshot.free == {}
    assert "how many" in snapshot.problems[f"{GPU}/1"]
    assert not fabric.capabilities.lists_free
    with pytest.raises(Refused, match="how many"):
        fabric.free(NODE_0, GPU)
    with pytest.raises(Refused, match="only GPUs"):
        fabric.attach(NODE_0, MEMORY, kind="memory")
    with pytest.raises(Missing):
        fabric.machine("nobody")
    with pytest.raises(Missing):
        fabric.resume(("anything",))
