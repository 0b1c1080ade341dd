# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_pool.py` and others share."""

from __future__ import annotations

import asyncio
import typing as t
from collections import Counter
from collections.abc import Coroutine

from ansible_collections.composable.infra.emulator import FabricSpec, machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.pool.pool import (
    DevicePool,
)

A, B = machine_uuid("a"), machine_uuid("b")


def spec(count: int = 2, **more: t.Any) -> FabricSpec:
    return FabricSpec.parse(simple_spec(["a", "b"], {"m": count}, attach=0.0, detach=0.0, **more))


def run(work: Coroutine[t.Any, t.Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def owners(pool: DevicePool) -> Counter[str | None]:
    return Counter(device.machine for device in pool.devices.values())
