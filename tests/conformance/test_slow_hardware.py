# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware that takes its time: who crashes, asks again, or is one of six while it is at work gets a device each."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance import changing
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    PASSED,
    examine,
)
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import (
    EVERY_PROFILE,
    ROWS,
    Emulators,
    subject,
)

# How many at once, of eight.
AT_ONCE = 6
# Seconds of the hardware, and how long after a lost reply it may still come up with something.
ATTACH, DETACH, ATTACH_DEADLINE = 0.06, 0.03, 0.5
WORKS: t.Final = {work.__name__: work for work in (
    changing.a_crash_loses_no_device, changing.several_devices_by_one_call,
    changing.parallel_attaches_get_different_devices)}
PROFILES: t.Final = ("none", "lost-reply", "restart") if EVERY_PROFILE else ("restart",)
CASES: t.Final = [
    pytest.param(row, profile, work, marks=pytest.mark.xdist_group(row), id=f"{row}-{profile}-{work}")
    for row in ROWS for profile in PROFILES for work in WORKS
]


@pytest.mark.parametrize(("row", "profile", "work"), CASES)
def test_the_promise_holds_while_it_works(
    emulators: Emulators, seed: int, row: str, profile: str, work: str
) -> None:
    emulator = emulators.get(row)
    check = next(check for check in CHECKS if check.work is WORKS[work])
    emulator.set_timing(ATTACH, DETACH)
    try:
        with subject(emulator, ROWS[row], attach_deadline=ATTACH_DEADLINE, at_most=AT_ONCE if ROWS[row].at_most > 1
                     else 1) as examined:
            emulator.set_faults(profile=profile, seed=seed)
            result = examine(examined, check)
        assert result.outcome == PASSED, f"{result.words} (faults: {emulator.faults()})"
        assert truth.leaked(emulator) == []
        assert truth.doubled(emulator) == []
    finally:
        emulator.set_timing(0, 0)
