# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second client works on the same fabric, between our look and our request."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    SCARCE,
    SECOND,
    Emulators,
)
from ansible_collections.composable.infra.tests.conformance.stories.told import (
    DETACHES,
    OTHER_MACHINE,
    SAME_MACHINE,
    Meanwhile,
    clients,
    rows,
)

# Where the client chooses the device, two that have the same token choose the same one.
TOKEN = "the same token"


@pytest.mark.parametrize("row", rows(SAME_MACHINE))
def test_each_client_of_one_machine_is_given_its_own_device(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    theirs: list[Device] = []
    with clients(emulator, row, 2) as (ours, other):
        second = Meanwhile(lambda: theirs.extend(other.attach(MACHINE, MODEL, token=TOKEN).devices))
        mine, = ours.attach(MACHINE, MODEL, token=TOKEN, proof=second).devices
        assert [d.uid for d in theirs] != [mine.uid]
        assert {d.uid for d in ours.machine(MACHINE).devices} == {mine.uid, *(d.uid for d in theirs)}
    assert second.happened
    assert truth.doubled(emulator) == []


@pytest.mark.parametrize("row", rows(OTHER_MACHINE))
def test_a_device_that_another_machine_has_just_got_is_not_taken(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    theirs: list[Device] = []
    with clients(emulator, row, 2) as (ours, other):
        second = Meanwhile(lambda: theirs.extend(other.attach(SECOND, MODEL, token=TOKEN).devices))
        mine, = ours.attach(MACHINE, MODEL, token=TOKEN, proof=second).devices
        assert [d.uid for d in ours.machine(MACHINE).devices] == [mine.uid]
        assert [d.uid for d in ours.machine(SECOND).devices] == [d.uid for d in theirs]
    assert second.happened
    assert truth.doubled(emulator) == []


@pytest.mark.parametrize("row", rows(DETACHES))
def test_a_device_that_has_just_moved_is_not_detached_from_its_new_machine(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    with clients(emulator, row, 2) as (ours, other):
        device, = ours.attach(MACHINE, SCARCE).devices
        other.attach(SECOND, SCARCE)  # so that the one that is moved is the only free one

        def move() -> None:
            other.detach(MACHINE, device.uid)
            other.attach(SECOND, SCARCE)

        second = Meanwhile(move)
        with contextlib.suppress(FabricError):
            ours.detach(MACHINE, device.uid, proof=second)
        assert second.happened
        assert device.uid in {d.uid for d in ours.machine(SECOND).devices}
        assert ours.detach(MACHINE, device.uid).done
        assert device.uid in {d.uid for d in ours.machine(SECOND).devices}
    assert truth.doubled(emulator) == []
