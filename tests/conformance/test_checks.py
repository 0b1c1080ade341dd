# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every manager, every fault profile, every check: the same promises hold whatever goes wrong."""

from __future__ import annotations

import os

import pytest

from ansible_collections.composable.infra.emulator.fault_profiles import PROFILES
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    FAILED,
    SKIPPED,
    Check,
    examine,
)
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import ROWS, Emulators, subject

# A small fabric has nothing to turn pages for: test_thousand.py has.
TRIED = [check for check in CHECKS if check.name != "nothing_is_left_out"]
# Where the fault changes the very thing that the check is about; the manager's name where it is its way only.
APART = {
    ("", "device-warning", "a_sick_device_is_not_kept"): "the sick device comes up well enough",
    ("", "device-critical", "what_has_run_out_is_refused"): "one of the few devices is not usable any more",
    ("", "device-critical", "a_device_comes_and_goes"): "one device less may be free afterwards",
    ("", "vanishing-device", "what_has_run_out_is_refused"): "one of the few devices is gone",
    ("", "vanishing-device", "a_device_comes_and_goes"): "one device less is free afterwards",
    ("nec", "device-warning", "what_has_run_out_is_refused"): "NEC's devices are free only while they are OK",
    ("nec", "device-warning", "a_device_comes_and_goes"): "NEC's devices are free only while they are OK",
}


# `make conformance` takes every profile, `make test` those whose handling differs most between managers.
EVERY_PROFILE = os.environ.get("CONFORMANCE_PROFILES") == "all"
QUICK = ("none", "lost-reply", "lost-request", "restart")


def reads(profile: str) -> bool:
    """Whether the profile can strike a client that only reads."""
    return profile == "none" or any(rule.get("purpose", "read") in ("read", "login") for rule in PROFILES[profile])


def pairs() -> list[tuple[str, Check]]:
    """Every profile with every check that it can make a difference to."""
    chosen = [p for p in PROFILES if EVERY_PROFILE or p in QUICK]
    return [(profile, check) for profile in chosen for check in TRIED
            if (check.changes or reads(profile)) and ("", profile, check.name) not in APART]


@pytest.mark.parametrize(("profile", "check"), pairs(), ids=lambda value: getattr(value, "name", value))
def test_the_promise_holds(emulators: Emulators, seed: int, row: str, profile: str, check: Check) -> None:
    if reason := APART.get((ROWS[row].manager, profile, check.name)):
        pytest.skip(reason)
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
