# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole way of a pod with each of the CDI Managers, which all stand for the same emulated fabric."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    attached,
    await_served,
    delete_all,
    wait_for,
)

pytestmark = pytest.mark.e2e
# NEC's own interface gives no GPU UUID; with this setting its emulator does, as a product must for DRA to work.
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 2, "devices": {A100: 3}, "managers": tuple(MANAGERS),
                           "manager_settings": {"nec": {"uuids": True}}}


@pytest.mark.parametrize("manager", MANAGERS)
def test_pods_get_their_devices_and_give_them_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, manager: str
) -> None:
    stage.use(manager)
    open_process(front_doors.controller, stage)
    wait_for("all devices are in the pool", lambda: all_free(stage))
    stage.pod("one", A100)
    stage.pod("two", A100, 2)
    await_served(stage, timeline, "one", "two")
    on = attached(stage)
    assert len(on) == 3
    for name in ("one", "two"):
        it = timeline.claims[name]
        assert {on[serial]["machine"] for serial in it.devices} == {machine_uuid(it.node)}
    delete_all(stage)
    wait_for("all devices are back", lambda: all_free(stage))
