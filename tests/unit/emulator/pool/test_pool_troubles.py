# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool when a device is asked for by name, pulled out, or made to fail; and how all is put back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import FabricSpec, simple_spec
from ansible_collections.composable.infra.emulator.pool.journal import Journal
from ansible_collections.composable.infra.emulator.pool.pool import (
    DevicePool,
    DeviceTaken,
    OperationFailed,
    UnknownDevice,
)
from ansible_collections.composable.infra.emulator.pool.pooled import MISCHIEF, Mischief, record
from ansible_collections.composable.infra.tests.unit.emulator.pool.pool_support import (
    A,
    B,
    owners,
    run,
    spec,
)


def test_a_given_device_can_be_asked_for() -> None:
    async def work() -> None:
        pool = DevicePool(FabricSpec.parse(simple_spec(["a", "b"], {"m": 1}, fabrics=2, attach=0)))
        mine, other = pool.devices
        assert (await pool.begin_attach(A, mine)).machine == A
        for machine in (A, B):
            with pytest.raises(UnknownDevice):
                await pool.begin_attach(machine, "x")
        with pytest.raises(DeviceTaken) as caught:
            await pool.begin_attach(A, mine)
        assert caught.value.machine == A
        with pytest.raises(UnknownDevice, match="fabric 1 has no device"):
            await pool.begin_attach(A, other)

    run(work())


def test_what_has_begun_is_written_down_before_anything_else_happens(tmp_path: Path) -> None:
    async def work() -> None:
        pool = DevicePool(spec(1), Journal(tmp_path / "pool"))
        uid = next(iter(pool.devices))
        for begin in (pool.begin_attach, pool.begin_detach):
            operation = begin(A, uid)
            written = list(Journal(tmp_path / "pool").read())[-1]
            assert written == record(pool.devices[uid])
            assert written["state"] == ("attaching" if begin == pool.begin_attach else "detaching")
            await operation

    run(work())


def test_a_device_that_vanishes_is_nowhere_and_comes_back_free(tmp_path: Path) -> None:
    async def work() -> None:
        pool = DevicePool(spec(1), Journal(tmp_path / "pool"))
        told: list[str] = []
        pool.on_effect = lambda device, effect: told.append(effect)
        device = await pool.attach(A, "m", "gpu")
        uid = device.spec.uid
        pool.set_present(uid, False)
        assert (pool.shown(A), pool.free(A, "m", "gpu"), device.state) == ([], 0, "vanished")
        with pytest.raises(UnknownDevice):
            await pool.begin_attach(A, uid)
        assert DevicePool(spec(1), Journal(tmp_path / "pool")).devices[uid].state == "vanished"
        pool.set_present(uid, True)
        pool.set_present(uid, True)
        assert (pool.free(A, "m", "gpu"), device.state) == (1, "free")
        assert told == [f"attached {uid} to {A}", f"vanished {uid} from {A}"]
        with pytest.raises(UnknownDevice):
            pool.set_present("x", True)

    run(work())


def test_a_device_that_vanishes_on_its_way_fails_the_operation() -> None:
    async def work() -> None:
        pool = DevicePool(spec(1))
        pool.set_timing(0.01, None)
        attach = asyncio.ensure_future(pool.attach(A, "m", "gpu"))
        await asyncio.sleep(0)
        (uid,) = pool.devices
        pool.set_present(uid, False)
        with pytest.raises(OperationFailed, match="is vanished"):
            await attach

    run(work())


def test_what_is_told_to_go_wrong_goes_wrong_once() -> None:
    async def work() -> None:
        pool = DevicePool(spec(3))
        MISCHIEF.set(Mischief(failures=1))
        with pytest.raises(OperationFailed, match="could not be attached") as caught:
            await pool.attach(A, "m", "gpu")
        assert (caught.value.device.state, owners(pool)) == ("free", {None: 3})
        device = await pool.attach(A, "m", "gpu")
        MISCHIEF.set(Mischief(failures=1))
        with pytest.raises(OperationFailed, match="could not be detached"):
            await pool.detach(A, device.spec.uid)
        assert pool.shown(A) == [device]
        MISCHIEF.set(Mischief(health="Critical"))
        assert (await pool.attach(A, "m", "gpu")).health == "Critical"
        MISCHIEF.set(Mischief(vanish=True))
        assert (await pool.attach(A, "m", "gpu")).state == "vanished"

    run(work())


def test_what_came_back_last_is_given_out_last() -> None:
    async def work() -> None:
        pool = DevicePool(spec(3))
        first = await pool.attach(A, "m", "gpu")
        await pool.detach(A, first.spec.uid)
        assert list(pool.free_devices(1, "m", "gpu"))[-1] == first
        assert list(pool.free_devices(None, "m", "gpu")) == []
        assert await pool.attach(A, "m", "gpu") != first

    run(work())


def test_a_reset_is_as_the_document_has_it(tmp_path: Path) -> None:
    async def work() -> None:
        document = simple_spec(["a", "b"], {"m": 2}, attach=0, detach=0)
        document["fabrics"][0]["devices"].append({"model": "m", "machine": "b"})
        pool = DevicePool(FabricSpec.parse(document), Journal(tmp_path / "pool"))
        *_free, kept = pool.devices
        assert [d.spec.uid for d in pool.shown(B)] == [kept]
        await pool.detach(B, kept)
        assert DevicePool(FabricSpec.parse(document), Journal(tmp_path / "pool")).shown(B) == []
        attached = await pool.attach(A, "m", "gpu")
        pool.set_health(attached.spec.uid, "Critical")
        pool.reset()
        assert ([d.spec.uid for d in pool.shown(B)], pool.shown(A)) == ([kept], [])
        assert {d.health for d in pool.devices.values()} == {"OK"}
        assert pool.free(A, "m", "gpu") == 2

    run(work())


@pytest.mark.parametrize("lanes", [{}, {"concurrency": {"per_machine": 1}}])
def test_a_reset_ends_what_is_under_way(lanes: dict[str, dict[str, int]]) -> None:
    async def work() -> None:
        pool = DevicePool(FabricSpec.parse({**simple_spec(["a"], {"m": 2}, attach=1000), **lanes}))
        waiting = [asyncio.create_task(pool.attach(A, "m", "gpu")) for _device in range(2)]
        await pool.changed_since(pool.generation, 5)
        pool.reset()
        for task in waiting:
            with pytest.raises(OperationFailed):
                await asyncio.wait_for(task, 5)

    run(work())
