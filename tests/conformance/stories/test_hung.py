# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware that never ends what it began: one request, one deadline, and nobody takes it for done."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, Uncertain
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    SECOND,
    Emulators,
    rows_of,
)
from ansible_collections.composable.infra.tests.conformance.stories.told import HUNG, clients, rows

NEVER = 600.0
# Seconds of the client, and how long one call may take with the looks after it.
PATIENCE, AT_MOST = 0.4, 5.0
CHANGES = ("attach", "detach", "change")
# Rows of the manager that takes no change while another one is going on.
ONE_AT_A_TIME = rows_of("nec")


def begun(emulator: Emulator) -> list[t.Any]:
    """Changes that the manager has begun: it has not refused them."""
    return [(entry["method"], entry["path"], entry["status"]) for entry in emulator.log()
            if entry["purpose"] in CHANGES and (entry["status"] or 0) < 400]


@pytest.mark.parametrize("row", rows(HUNG))
def test_an_operation_that_never_ends_is_requested_once(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    try:
        with clients(emulator, row, attach_timeout=PATIENCE, read_timeout=PATIENCE) as (fabric,):
            there, = fabric.attach(SECOND, MODEL).devices
            before = len(begun(emulator))
            emulator.set_timing(NEVER, NEVER)
            hung: tuple[Callable[[], object], ...] = (
                lambda: fabric.attach(MACHINE, MODEL), lambda: fabric.detach(SECOND, there.uid))
            for number, change in enumerate(hung, 1):
                started = time.monotonic()
                with pytest.raises(Uncertain if number == 1 or row not in ONE_AT_A_TIME else Busy):
                    change()
                assert time.monotonic() - started < AT_MOST
                assert len(begun(emulator)) - before == (1 if row in ONE_AT_A_TIME else number), begun(emulator)
            assert fabric.machine(SECOND).uid == SECOND
    finally:
        emulator.set_timing(0, 0)
        emulator.reset()
