# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every manager, every fault profile, every check: the same promises hold whatever goes wrong."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.emulator.faults.profiles import PROFILES
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance import changing
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    FAILED,
    SKIPPED,
    Check,
    examine,
)
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import (
    EVERY_PROFILE,
    ROWS,
    Emulators,
    Row,
    subject,
)

# A small fabric has nothing to turn pages for: test_thousand.py has.
TRIED = [check for check in CHECKS if check.name != "nothing_is_left_out"]
# Where the fault changes the very thing that the check is about; the manager's name where it is its way only.
APART = {
    ("", "device-warning", "an_unhealthy_device_is_refused"): "the sick device comes up well enough",
    ("", "device-critical", "an_exhausted_model_is_refused"): "one of the few devices is not usable any more",
    ("", "device-critical", "a_device_is_attached_and_detached"): "one device less may be free afterwards",
    ("", "vanishing-device", "an_exhausted_model_is_refused"): "one of the few devices is gone",
    ("", "vanishing-device", "a_device_is_attached_and_detached"): "one device less is free afterwards",
    ("nec", "device-warning", "an_exhausted_model_is_refused"): "NEC's devices are free only while they are OK",
    ("nec", "device-warning", "a_device_is_attached_and_detached"): "NEC's devices are free only while they are OK",
}


# What a variant does in its own way, so that faults may matter: it reads and refuses as its manager does.
DECIDED = (
    changing.a_device_is_attached_and_detached, changing.several_devices_by_one_call,
    changing.parallel_attaches_get_different_devices,
    changing.a_repeated_token_loses_no_device, changing.a_crash_loses_no_device, changing.an_exhausted_model_is_refused,
    changing.an_unhealthy_device_is_refused,
)
# Those whose handling differs most between managers.
QUICK = ("none", "lost-reply", "lost-request", "restart")
QUICK_VARIANT = ("none", "lost-reply")


def reads(profile: str) -> bool:
    """Whether the profile can strike a client that only reads."""
    return profile == "none" or any(rule.get("purpose", "read") in ("read", "login") for rule in PROFILES[profile])


def profiles(row: Row) -> list[str]:
    """Those that the run takes."""
    return [p for p in PROFILES if EVERY_PROFILE or p in (QUICK_VARIANT if row.variant else QUICK)]


def matters(row: Row, profile: str, check: Check) -> bool:
    """Whether the profile can make a difference to the check."""
    if any((manager, profile, check.name) in APART for manager in ("", row.manager)) or check.name in row.apart:
        return False
    if profile == "none":
        return True
    return check.work in DECIDED if row.variant else check.changes or reads(profile)


def cases() -> list[t.Any]:
    """Every row with every profile and every check that matters, those of one row for one worker."""
    return [
        pytest.param(name, profile, check, marks=pytest.mark.xdist_group(name), id=f"{name}-{profile}-{check.name}")
        for name, row in ROWS.items() for profile in profiles(row) for check in TRIED if matters(row, profile, check)
    ]


@pytest.mark.parametrize(("row", "profile", "check"), cases())
def test_the_promise_holds(emulators: Emulators, seed: int, row: str, profile: str, check: Check) -> None:
    emulator = emulators.get(row)
    with subject(emulator, ROWS[row]) as examined:
        emulator.set_faults(profile=profile, seed=seed)
        result = examine(examined, check)
    assert result.outcome not in (FAILED, SKIPPED), f"{result.words} (faults: {emulator.faults()})"
    assert truth.leaked(emulator) == []
    assert truth.doubled(emulator) == []


def test_what_is_set_apart_exists() -> None:
    known = {(profile, check.name) for profile in PROFILES for check in TRIED}
    assert {(profile, name) for _manager, profile, name in APART} <= known
    assert {name for row in ROWS.values() for name in row.apart} <= {check.name for check in TRIED}
