# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated CDIM accepts what the client sends in its own generation's spelling, and its lists say who has what."""

from __future__ import annotations

import asyncio
import typing as t

import pytest

from ansible_collections.composable.infra.emulator import machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.dialects.nec.body import INVALID, NecError, Procedure, procedures
from ansible_collections.composable.infra.emulator.dialects.nec.parts import Parts
from ansible_collections.composable.infra.emulator.pool.fabric_spec import FabricSpec
from ansible_collections.composable.infra.emulator.pool.pool import DevicePool
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec import wire
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec.procedures import (
    ADAPTERS,
    CPUS,
    WantedDevice,
    body,
    plan,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.batches import PendingOperation

GENERATIONS = {"adapters": ADAPTERS, "cpus": CPUS}
NODE = machine_uuid("node-0")


def pool() -> DevicePool:
    return DevicePool(FabricSpec.parse(simple_spec(["node-0", "node-1"], {"A100": 2}, attach=0.0, detach=0.0)))


def seen(fabric: DevicePool, generation: str, *, uuids: bool = False) -> wire.Layout:
    """What the client reads from the emulator's lists."""
    parts = Parts(fabric, generation, uuids=uuids)
    return wire.layout({"resources": parts.resources()}, {"nodes": parts.nodes()})


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_the_client_plans_from_the_lists_is_understood(generation: str) -> None:
    fabric = pool()
    pending = [PendingOperation(WantedDevice(NODE, "A100")), PendingOperation(WantedDevice(NODE, "A100"))]
    steps = plan(seen(fabric, generation), pending, {})
    found = procedures(body(steps, GENERATIONS[generation]), generation)
    assert [(p.number, p.operation, p.after) for p in found] == [(1, "connect", ()), (2, "connect", ())]
    assert {p.device for p in found} == set(fabric.devices)
    sources = Parts(fabric, generation, uuids=False).sources
    assert {sources[p.source].uid for p in found} == {NODE}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_an_attached_device_is_shown_with_its_machine_and_one_on_its_way_is_not_free(generation: str) -> None:
    async def work() -> None:
        fabric = pool()
        fabric.attach_time = 0.0
        device = await fabric.attach(NODE, "A100", "gpu")
        layout = seen(fabric, generation)
        assert layout.owner(device.spec.uid) == NODE
        assert len(layout.free("A100", 1)) == 1
        fabric.attach_time = 30.0
        fabric.run(fabric.attach(NODE, "A100", "gpu"))
        await asyncio.sleep(0)
        assert seen(fabric, generation).free("A100", 1) == []

    asyncio.run(work())


def test_uuids_are_told_only_on_request() -> None:
    fabric = pool()
    assert {d.serial for d in seen(fabric, "adapters").devices()} == {None}
    told = {d.serial for d in seen(fabric, "adapters", uuids=True).devices()}
    assert told == {device.spec.serial for device in fabric.devices.values()}


GOOD = {"operationID": 1, "operation": "connect", "sourceDeviceID": "a", "destinationDeviceID": "d", "dependencies": []}


def test_procedures_may_wait_for_earlier_ones() -> None:
    found = procedures({"procedures": [GOOD, {**GOOD, "operationID": 2, "dependencies": [1]}]}, "adapters")
    assert found[1] == Procedure(2, "connect", "a", "d", (1,))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (None, "procedures"), ({}, "procedures"), ({"procedures": []}, "procedures"),
        ({"procedures": [None]}, "procedures[0]"),
        ({"procedures": [{**GOOD, "more": 1}]}, "procedures[0]"),
        ({"procedures": [{**GOOD, "operationID": "1"}]}, "procedures[0].operationID"),
        ({"procedures": [{**GOOD, "operation": "boot"}]}, "procedures[0].operation"),
        ({"procedures": [{**GOOD, "sourceDeviceID": ""}]}, "procedures[0].sourceDeviceID"),
        ({"procedures": [{**GOOD, "dependencies": None}]}, "procedures[0].dependencies"),
        ({"procedures": [{**GOOD, "dependencies": [2]}]}, "procedures"),
        ({"procedures": [GOOD, GOOD]}, "procedures"),
    ],
)
def test_anything_else_is_refused_by_its_field(wrong: t.Any, field: str) -> None:
    with pytest.raises(NecError) as caught:
        procedures(wrong, "adapters")
    assert (caught.value.status, caught.value.code) == (400, INVALID)
    assert str(caught.value).startswith(f"{field}: ")


def test_the_other_generations_spelling_is_refused() -> None:
    with pytest.raises(NecError, match="targetCPUID, targetDeviceID"):
        procedures({"procedures": [GOOD]}, "cpus")
