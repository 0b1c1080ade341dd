# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service mesh answers 503 after the effect: one attach is one device, for every manager."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Uncertain
from ansible_collections.composable.infra.tests.conformance.managers import (
    MACHINE,
    MODEL,
    ROWS,
    Emulators,
    client,
    params,
)


@pytest.mark.parametrize("row", params(ROWS))
def test_a_503_after_the_effect_is_one_device(emulators: Emulators, row: str) -> None:
    emulator = emulators.get(row)
    fabric = client(emulator, ROWS[row])
    try:
        emulator.set_faults(profile="mesh")
        with contextlib.suppress(Uncertain):
            fabric.attach(MACHINE, MODEL)
        device, = fabric.machine(MACHINE).devices
        with contextlib.suppress(Uncertain):
            fabric.detach(MACHINE, device.uid)
        assert list(fabric.machine(MACHINE).devices) == []
    finally:
        fabric.close()
    came = [effect for effect in emulator.effects() if effect["effect"].startswith("attached ")]
    assert len(came) == 1
