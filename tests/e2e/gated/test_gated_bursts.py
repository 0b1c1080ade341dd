# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A burst that follows another: its pods wait for devices that are still on their way back, and none is let go."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.test_gated import lead
from ansible_collections.composable.infra.tests.e2e.support.support import await_served, counted, states, wait_for

pytestmark = pytest.mark.e2e
BURST = 8
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 4, "devices": {A100: BURST}, "detach": 3.0}


def test_pods_of_the_second_burst_wait_for_devices_that_come_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """All devices were used. The last pod of the first burst ends when the others' devices are leaving already."""
    controller = lead(stage, open_process)
    first, second = ([f"{name}-{number}" for number in range(BURST)] for name in ("first", "second"))
    for name in first:
        stage.pod(name, A100)
    await_served(stage, timeline, *first)
    *most, straggler = first
    for name in most:
        stage.delete_pod(name)
    wait_for("devices leave", lambda: "detaching" in states(stage))
    stage.delete_pod(straggler)
    for name in second:
        stage.pod(name, A100)
    await_served(stage, timeline, *second)
    assert counted(controller, "gate_released_total") == 0
    assert "GateReleased" not in controller.text()
    for name in second:
        it = timeline.claims[name]
        assert it.first_node, f"{name} went without a node"
        assert (it.node, it.allocated) == (it.first_node, None), f"{name} did not run where its device was to come"
