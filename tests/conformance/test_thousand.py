# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thousand devices, on as many pages as the manager makes of them: none is left out, and work goes on as ever."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.emulator.faults.profiles import PROFILES
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance import changing, reading
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    PASSED,
    examine,
)
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import EVERY_PROFILE, ROWS, document, subject

MANY = 1000
WORKS = (reading.nothing_is_left_out, reading.every_device_is_listed_once, changing.a_device_is_attached_and_detached)

# Left to make conformance-all, since it takes a sixth of the other checks.
pytestmark = pytest.mark.slow
# How many members a page has, where the manager makes pages.
PAGES = {"redfish": {"page": 100}, "sunfish": {"page": 100}}


@pytest.mark.parametrize("profile", ["none", "flaky-network"] if EVERY_PROFILE else ["flaky-network"])
def test_a_thousand_devices(tmp_path: Path, seed: int, row: str, profile: str) -> None:
    assert profile in PROFILES
    paged = dataclasses.replace(ROWS[row], settings=PAGES.get(row, {}))
    with Emulator.run(document(paged, MANY), tmp_path) as emulator:
        with subject(emulator, ROWS[row], devices=MANY, patience=60.0) as examined:
            emulator.set_faults(profile=profile, seed=seed)
            for check in (check for check in CHECKS if check.work in WORKS):
                result = examine(examined, check)
                assert result.outcome == PASSED, f"{check.name}: {result.words} (faults: {emulator.faults()})"
        assert truth.leaked(emulator) == []
        assert len(emulator.state()["devices"]) >= MANY
