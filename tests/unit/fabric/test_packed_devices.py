# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed devices are as the tuple that they were made from, to everybody who reads them, in fewer bytes."""

from __future__ import annotations

import tracemalloc
import typing as t
import uuid
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.packed_devices import PackedDevices, packed

# So many machines that what other threads of the process allocate meanwhile does not count.
MANY = 400
UID = "11111111-1111-4111-8111-111111111111"


def some_uid(*parts: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, parts))))


def device(number: int, machine: str | None = UID, **more: t.Any) -> Device:
    return replace(Device(some_uid(machine, number), "A100", fabric=1, machine=machine,
                          serial=f"GPU-{some_uid('serial', machine, number)}"), **more)


def machine(*devices: Device, uid: str = UID) -> Machine:
    return Machine(uid, "worker-1", 1, devices, "On")


WHOLE = machine(device(0), device(1, serial=None), device(2, name="slot 3"), device(3, name=""), device(4, serial=""),
                device(5, kind="memory", size=1024, box="chassis-1", state="detaching", health="Critical", shared=True),
                device(6, uid="no UUID", fabric=None), device(7, uid="ü\ud800\n"))


class TestAsTheTuple:
    def test_each_device_comes_back(self) -> None:
        assert tuple(packed(WHOLE).devices) == WHOLE.devices
        assert isinstance(packed(WHOLE).devices, PackedDevices)

    def test_it_is_a_sequence(self) -> None:
        found = packed(WHOLE).devices
        assert len(found) == 8
        assert found[2] == WHOLE.devices[2]
        assert found[-1] == WHOLE.devices[-1]
        assert found[1:3] == WHOLE.devices[1:3]
        assert list(reversed(found)) == [*reversed(WHOLE.devices)]
        assert WHOLE.devices[3] in found
        with pytest.raises(IndexError):
            found[8]

    def test_it_is_equal_both_ways(self) -> None:
        small, plain = packed(WHOLE), WHOLE
        assert small == plain
        assert plain == small
        assert packed(WHOLE) == packed(replace(WHOLE, devices=tuple(map(replace, WHOLE.devices))))
        assert hash(packed(WHOLE)) == hash(WHOLE)
        assert repr(packed(WHOLE)) == repr(WHOLE)

    def test_it_is_packed_once(self) -> None:
        once = packed(WHOLE)
        assert packed(once) is once

    @pytest.mark.parametrize("change", [
        {"uid": "other"}, {"model": "H100"}, {"kind": "memory"}, {"fabric": 2}, {"state": "detaching"},
        {"health": "OK"}, {"serial": None}, {"serial": "other"}, {"name": "other"}, {"size": 5}, {"box": "b"}])
    def test_it_differs_where_one_device_does(self, change: dict[str, t.Any]) -> None:
        one, other = machine(device(0), device(1)), machine(device(0), device(1, **change))
        assert packed(one) != packed(other)
        assert packed(one) != other
        assert packed(one).devices != [*one.devices]


class TestNotPacked:
    @pytest.mark.parametrize("devices", [
        (), (device(0, machine=None),), (device(0), replace(device(1), machine="another")), (device(0, uid="a\0b"),),
        (device(0, serial="a\0b"),)])
    def test_what_is_not_as_it_should_be_stays(self, devices: tuple[Device, ...]) -> None:
        whole = machine(*devices)
        assert packed(whole) is whole


def test_a_device_takes_less_than_a_third_of_its_bytes() -> None:
    def made(number: int) -> Machine:
        uid = some_uid("machine", number)
        return machine(*(device(i, uid) for i in range(8)), uid=uid)

    packed(made(-1))
    tracemalloc.start()
    plain = [made(number) for number in range(MANY)]
    before = tracemalloc.get_traced_memory()[0]
    kept = [packed(each) for each in plain]
    del plain
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == MANY
    assert after / (MANY * 8) < 105
    assert after < before / 3
