# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios that each front door must serve; a test file for each front door inherits them."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage, device_name
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.support.front_doors import FrontDoor
from ansible_collections.composable.infra.tests.e2e.support.modules import run_tasks
from ansible_collections.composable.infra.tests.e2e.support.support import (
    allocated,
    assert_served,
    await_served,
    frozen,
    mark,
    pools,
    run_pods,
    wait_for,
)

STAGE: dict[str, t.Any] = {"nodes": 2, "devices": {A100: 3, H100: 3}}


def waits_for(stage: Stage, name: str) -> str:
    """What claim_info says about a claim of the default namespace."""
    result, = run_tasks(stage, [{"composable.infra.claim_info": {"name": name, "namespace": "default"}}])
    claim, = result["claims"]
    return str(claim["waits_for"])


class FlowTests:
    """Inherit in a file with ``STAGE`` and ``FRONT_DOOR``."""

    @pytest.fixture(autouse=True)
    def _clear(self, front_door: FrontDoor) -> None:
        front_door.clear()

    def test_one_claim(self, stage: Stage, front_door: FrontDoor, timeline: Timeline) -> None:
        wanted = {"one": (A100, 1)}
        since = run_pods(stage, timeline, front_door.serve, wanted)
        assert_served(stage, timeline.finish(), since, wanted)

    def test_one_claim_with_two_gpus(self, stage: Stage, front_door: FrontDoor, timeline: Timeline) -> None:
        wanted = {"two": (A100, 2)}
        since = run_pods(stage, timeline, front_door.serve, wanted)
        assert_served(stage, timeline.finish(), since, wanted)

    def test_six_claims_over_two_nodes_and_two_models_at_once(
        self, stage: Stage, front_door: FrontDoor, timeline: Timeline
    ) -> None:
        wanted = {f"{name}-{i}": (model, 1) for i in range(3) for name, model in (("a", A100), ("h", H100))}
        wait_for("the pools show all devices", lambda: sum(pools(stage).values()) == len(wanted))
        since = mark(stage)
        # a pod that the scheduler looks at late may take a device that is there already for another
        with frozen(stage.emulator.pid):
            for name, (model, count) in wanted.items():
                stage.pod(name, model, count)
            wait_for("all are allocated from pools", lambda: allocated(timeline, *wanted))
        front_door.serve()
        await_served(stage, timeline, *wanted)
        assert_served(stage, timeline.finish(), since, wanted)
        assert {it.node for it in timeline.claims.values()} == set(stage.lab.nodes)

    def test_model_that_has_run_out_is_waited_for(
        self, stage: Stage, front_door: FrontDoor, timeline: Timeline
    ) -> None:
        pinned = {"first": "node-0", "late": "node-1"}
        run_pods(stage, timeline, front_door.serve, {"first": (H100, 3)}, pinned)
        stage.pod("late", H100, 1, pinned["late"])
        wait_for("the scheduler has tried", lambda: _scheduler_tried(timeline, "late"))
        said = waits_for(stage, "late")
        assert said.startswith(f"a node with 1 free device of {H100}: pool {device_name(H100)}-fabric1 has 0 free")
        assert "attached: 3 x node-0 (scheduler: 0/2 nodes are available" in said
        assert not timeline.running("late")
        stage.delete_pod("first")
        front_door.serve()
        if not timeline.running("late"):
            front_door.serve()
        assert timeline.wait(lambda: timeline.running("late"), 90), json.dumps(stage.emulator.state()["devices"])
        assert timeline.claims["late"].node == "node-1"


def _scheduler_tried(timeline: Timeline, name: str) -> bool:
    status = (timeline.pods.get(name, "default") or {}).get("status") or {}
    return any(c["type"] == "PodScheduled" and c.get("message") for c in status.get("conditions") or [])
