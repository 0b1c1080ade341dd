# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page shows what is where and escapes whatever the fabric's document holds."""

from __future__ import annotations

import asyncio

from ansible_collections.composable.infra.emulator import FabricSpec, machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.admin.page import render
from ansible_collections.composable.infra.emulator.pool.pool import DevicePool


def test_the_page_shows_models_machines_and_devices() -> None:
    async def work() -> str:
        pool = DevicePool(FabricSpec.parse(simple_spec(["node-0"], {"<A100>": 2}, attach=0)))
        await pool.attach(machine_uuid("node-0"), "<A100>", "gpu")
        return render(pool)

    page = asyncio.run(work())
    assert "<td>&lt;A100&gt;</td><td>1</td><td>1</td><td>2</td>" in page
    assert "<td>node-0</td>" in page
    assert '<td class="attached">attached</td>' in page
    assert '<td class="free">free</td>' in page
    assert "<A100>" not in page


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = render(DevicePool(FabricSpec.parse({"machines": [{"name": "apart"}]})))
    assert page.startswith("<!DOCTYPE html>")
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
