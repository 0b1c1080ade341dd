# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manager starts again in the midst: logins are forgotten, and ids of operations begin again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    ROWS,
    SECOND,
    Emulators,
    document,
)
from ansible_collections.composable.infra.tests.conformance.stories.told import LOGINS, OPERATIONS, clients, rows


@pytest.mark.parametrize("row", rows(LOGINS))
def test_a_manager_that_has_forgotten_logins_is_logged_in_to_again(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    with clients(emulator, row) as (fabric,):
        fabric.machines()
        for change in ("attach", "detach"):
            emulator.set_tokens(revoke=True)
            if change == "attach":
                device, = fabric.attach(MACHINE, MODEL).devices
            else:
                fabric.detach(MACHINE, device.uid)
        logins = [entry for entry in emulator.log() if entry["purpose"] == "login"]
    assert len(logins) >= 3
    assert [effect["effect"].split(" ")[0] for effect in emulator.effects()] == ["attached", "detached"]
    assert truth.leaked(emulator) == []


def forgetful(row: str) -> dict[str, object]:
    """The document of a fabric whose manager keeps no operations over a restart, where it can be set."""
    found = ROWS[row]
    more = {"asynchronous": True, "keeps_tasks": False} if found.manager in ("redfish", "sunfish") else {}
    return document(dataclasses.replace(found, settings={**found.settings, **more}))


@pytest.mark.parametrize("row", rows(OPERATIONS))
def test_an_operation_of_before_the_restart_is_not_mistaken_for_a_later_one(tmp_path: Path, row: str) -> None:
    handles: list[str] = []
    with Emulator.run(forgetful(row), tmp_path) as emulator, clients(emulator, row, 2) as (fabric, other):
        mine, = fabric.attach(MACHINE, MODEL, started=handles.extend).devices
        fabric.detach(MACHINE, mine.uid)
        emulator.restart()
        theirs, = other.attach(SECOND, MODEL).devices
        assert handles
        try:
            found = fabric.resume(tuple(handles)).devices
        except (Missing, Refused):
            found = ()
        assert found == ()
        assert [d.uid for d in fabric.machine(SECOND).devices] == [theirs.uid]
        assert list(fabric.machine(MACHINE).devices) == []
