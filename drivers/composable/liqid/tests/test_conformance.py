# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver passes every conformance check, whatever goes wrong on the way, and leaves no edit open."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.emulator.faults.profiles import PROFILES
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    PASSED,
    UNSUPPORTED,
    Check,
    examine,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.subject import Subject

# CONFORMANCE_PROFILES=all in the environment takes every profile of faults.
EVERY = os.environ.get("CONFORMANCE_PROFILES") == "all"
TRIED = tuple(PROFILES) if EVERY else ("none", "lost-reply", "lost-request", "restart")
# The fault changes the very thing that the check is about.
APART = {
    ("device-warning", "an_unhealthy_device_is_refused"), ("device-critical", "an_exhausted_model_is_refused"),
    ("device-critical", "a_device_is_attached_and_detached"), ("vanishing-device", "an_exhausted_model_is_refused"),
    ("vanishing-device", "a_device_is_attached_and_detached"),
}
CASES = [pytest.param(check, profile, id=f"{check.name}-{profile}") for check in CHECKS for profile in TRIED
         if (profile, check.name) not in APART]


@pytest.mark.parametrize(("check", "profile"), CASES)
def test_the_driver_conforms(
    emulator: Emulator, client: Callable[..., FabricManager], other: Callable[..., t.Any], check: Check, profile: str
) -> None:
    """No device is lost, none stays where it was not requested, and other clients can edit."""
    examined = Subject(
        fabric=client(), connect=client, machine="node-0", model="A100", memory="CXL", scarce="L40S", sick="H100",
        foreign="theirs", names=("node-1",), devices=14, attach_deadline=0.2, patience=15.0, pause=0.02,
    )
    emulator.set_faults(profile=profile, seed=1)
    result = examine(examined, check)
    emulator.set_faults()
    assert result.outcome in (PASSED, UNSUPPORTED), result.words
    assert other("GET", "state/1")["data"] == [], "what is still edited"
    moved = [device["machine"] for device in emulator.state()["devices"] if device["state"] not in ("free", "vanished")]
    assert sorted(moved) == sorted([machine_uuid("node-1"), machine_uuid("theirs")]), "what they had from the start"
