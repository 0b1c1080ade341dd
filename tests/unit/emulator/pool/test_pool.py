# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared pool: a device has one owner at every moment, also over a restart and with many askers."""

from __future__ import annotations

import asyncio
import time
import typing as t
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import FabricSpec, simple_spec
from ansible_collections.composable.infra.emulator.pool.journal import Journal
from ansible_collections.composable.infra.emulator.pool.pool import (
    DeviceBusy,
    DevicePool,
    Exhausted,
    UnknownDevice,
    UnknownMachine,
)
from ansible_collections.composable.infra.tests.unit.emulator.pool.pool_support import (
    A,
    B,
    owners,
    run,
    spec,
)


def test_attach_and_detach_move_a_device() -> None:
    async def work() -> None:
        pool = DevicePool(spec())
        device = await pool.attach(A, "m", "gpu")
        assert (device.state, device.machine) == ("attached", A)
        assert pool.shown(A) == [device]
        assert (pool.free(A, "m", "gpu"), pool.free(B, "m", "gpu")) == (1, 1)
        await pool.detach(A, device.spec.uid)
        assert (device.state, device.machine) == ("free", None)
        assert pool.shown(A) == []
        assert pool.free(A, "m", "gpu") == 2

    run(work())


def test_a_device_is_taken_from_the_start_of_the_attach_and_shown_at_its_end() -> None:
    async def work() -> None:
        pool = DevicePool(spec(1))
        pool.set_timing(60, None)
        attach = asyncio.ensure_future(pool.attach(A, "m", "gpu"))
        await asyncio.sleep(0)
        (device,) = pool.devices.values()
        assert (device.state, device.machine) == ("attaching", A)
        assert (pool.shown(A), pool.free(B, "m", "gpu")) == ([], 0)
        with pytest.raises(Exhausted):
            await pool.attach(B, "m", "gpu")
        with pytest.raises(DeviceBusy):
            await pool.detach(A, device.spec.uid)
        attach.cancel()

    run(work())


def test_a_device_on_its_way_out_still_shows_and_is_not_free() -> None:
    async def work() -> None:
        pool = DevicePool(spec(1))
        device = await pool.attach(A, "m", "gpu")
        pool.set_timing(None, 60)
        detach = asyncio.ensure_future(pool.detach(A, device.spec.uid))
        await asyncio.sleep(0)
        assert device.state == "detaching"
        assert (pool.shown(A), pool.free(A, "m", "gpu")) == ([device], 0)
        with pytest.raises(DeviceBusy):
            await pool.detach(A, device.spec.uid)
        detach.cancel()

    run(work())


def test_many_askers_get_a_device_each_or_none() -> None:
    async def work() -> None:
        pool = DevicePool(spec(50))
        asked = [pool.attach((A, B)[n % 2], "m", "gpu") for n in range(80)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        got = [device.spec.uid for device in found if not isinstance(device, BaseException)]
        assert len(got) == len(set(got)) == 50
        assert sum(isinstance(device, Exhausted) for device in found) == 30
        assert owners(pool)[None] == 0

    run(work())


def test_what_is_not_there_is_told_apart() -> None:
    async def work() -> None:
        pool = DevicePool(spec())
        for asked in (pool.attach("x", "m", "gpu"), pool.detach("x", "d")):
            with pytest.raises(UnknownMachine):
                await asked
        with pytest.raises(UnknownMachine):
            pool.free("x", "m", "gpu")
        device = await pool.attach(A, "m", "gpu")
        with pytest.raises(UnknownDevice):
            await pool.detach(B, device.spec.uid)
        with pytest.raises(UnknownDevice):
            pool.set_health("x", "OK")
        for model, kind in (("other", "gpu"), ("m", "cxlmemory")):
            with pytest.raises(Exhausted):
                await pool.attach(A, model, kind)

    run(work())


def test_fabrics_do_not_share_devices() -> None:
    async def work() -> None:
        pool = DevicePool(FabricSpec.parse(simple_spec(["a", "b"], {"m": 1}, fabrics=2, attach=0)))
        await pool.attach(A, "m", "gpu")
        assert (pool.free(A, "m", "gpu"), pool.free(B, "m", "gpu")) == (0, 1)

    run(work())


class CountedWaits(asyncio.Event):
    """Each wait is over after some turns of the loop; ``most`` is how many there were at once."""

    most = 0
    now = 0

    async def wait(self) -> t.Literal[True]:
        self.now += 1
        self.most = max(self.most, self.now)
        for _unused in range(10):
            await asyncio.sleep(0)
        self.now -= 1
        return True


@pytest.mark.parametrize(("limit", "at_once"), [(0, 4), (1, 1), (2, 2)])
def test_operations_on_one_machine_run_side_by_side_unless_limited(limit: int, at_once: int) -> None:
    async def work() -> None:
        pool = DevicePool(spec(4, concurrency={"per_machine": limit}))
        pool.set_timing(1000, None)
        pool._over = waits = CountedWaits()
        await asyncio.gather(*(pool.attach(A, "m", "gpu") for _unused in range(4)))
        assert len(pool.shown(A)) == 4
        assert waits.most == at_once

    run(work())


def test_an_operation_goes_on_though_its_asker_is_gone() -> None:
    async def work() -> None:
        pool = DevicePool(spec(1))
        pool.set_timing(0.01, None)
        asking = asyncio.ensure_future(pool.run(pool.attach(A, "m", "gpu")))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while not pool.shown(A):
            await pool.changed_since(pool.generation, 10)

    run(work())


def test_whoever_waits_for_a_change_is_woken_at_once() -> None:
    async def work() -> None:
        pool = DevicePool(spec(1))
        waiting = [asyncio.ensure_future(pool.changed_since(pool.generation, 1000)) for _unused in range(5)]
        await asyncio.sleep(0)
        await pool.attach(A, "m", "gpu")
        await asyncio.gather(*waiting)
        await pool.changed_since(0, 1000)

    run(work())


def test_waiting_has_an_end() -> None:
    async def work() -> None:
        pool = DevicePool(spec(1))
        generation = pool.generation
        await pool.changed_since(generation, 0.01)
        assert pool.generation == generation

    run(work())


def test_a_later_life_finds_everything_where_it_was(tmp_path: Path) -> None:
    async def work() -> None:
        pool = DevicePool(spec(4), Journal(tmp_path / "pool"))
        kept, returned = await pool.attach(A, "m", "gpu"), await pool.attach(B, "m", "gpu")
        await pool.detach(B, returned.spec.uid)
        pool.set_health(returned.spec.uid, "Critical")
        pool.set_timing(3, 4)

        for _unused in range(2):
            later = DevicePool(spec(4), Journal(tmp_path / "pool"))
            assert [device.spec for device in later.shown(A)] == [kept.spec]
            assert later.shown(B) == []
            assert later.devices[returned.spec.uid].health == "Critical"
            assert later.free(A, "m", "gpu") == 3
            assert (later.attach_time, later.detach_time) == (3, 4)
            assert later.generation >= pool.born

    run(work())


def test_a_later_life_carries_on_what_was_under_way(tmp_path: Path) -> None:
    async def work() -> None:
        pool = DevicePool(spec(2), Journal(tmp_path / "pool"))
        leaving = await pool.attach(B, "m", "gpu")
        pool.set_timing(60, 60)
        under_way = [asyncio.ensure_future(w) for w in (pool.attach(A, "m", "gpu"), pool.detach(B, leaving.spec.uid))]
        await asyncio.sleep(0)
        for task in under_way:
            task.cancel()
        journal = Journal(tmp_path / "pool")
        journal.replace({**r, **({"due": time.time() - 1} if "due" in r else {})} for r in list(journal.read()))

        later = DevicePool(spec(2), journal)
        assert Counter(d.state for d in later.devices.values()) == {"attaching": 1, "detaching": 1}
        later.resume()
        while {d.state for d in later.devices.values()} != {"attached", "free"}:
            await later.changed_since(later.generation, 10)
        assert (len(later.shown(A)), len(later.shown(B))) == (1, 0)

    run(work())


def test_what_the_new_document_no_longer_has_is_forgotten(tmp_path: Path) -> None:
    async def work() -> None:
        pool = DevicePool(spec(2), Journal(tmp_path / "pool"))
        await pool.attach(B, "m", "gpu")
        await pool.attach(A, "m", "gpu")
        smaller = FabricSpec.parse(simple_spec(["a"], {"m": 1}))
        later = DevicePool(smaller, Journal(tmp_path / "pool"))
        assert owners(later) == {None: 1}
        assert later.free(A, "m", "gpu") == 1

    run(work())
