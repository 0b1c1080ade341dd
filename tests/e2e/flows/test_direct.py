# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handover direct on simulated nodes: the claim keeps the very device that was attached for it."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, slices
from ansible_collections.composable.infra.tests.e2e.support.front_doors import FrontDoor
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for

Json = dict[str, t.Any]
STAGE = {"nodes": 2, "devices": {A100: 4, H100: 2}, "handover": "direct", "hold": 1.0}
FRONT_DOOR = "controller"


def results(stage: Stage, name: str) -> list[Json]:
    return claims.results(stage.client.get(CLAIMS, name, "default"))


def shown(stage: Stage, pool: str) -> list[str]:
    """Names of a pool's devices."""
    return sorted(device["name"] for item in stage.client.list(SLICES).items if slices.pool(item) == pool
                  for device in slices.devices(item))


def kept(stage: Stage) -> dict[str, str]:
    """Pool device by node, of all ComposableResources."""
    return {cohdi.annotation(raw, cohdi.POOL_DEVICE): raw["spec"]["target_node"]
            for raw in stage.client.list(COMPOSABLE_RESOURCES).items}


def free(stage: Stage, model: str) -> int:
    return sum(d["state"] == "free" and d["model"] == model for d in stage.emulator.state()["devices"])


def test_claim_keeps_its_device_and_gives_it_back(stage: Stage, front_door: FrontDoor, timeline: Timeline) -> None:
    stage.pod("one", A100)
    wait_for("the allocation", lambda: results(stage, "one"), 20)
    before = results(stage, "one")
    assert timeline.wait(lambda: timeline.running("one"), 30)
    assert results(stage, "one") == before
    (result,) = before
    node = timeline.claims["one"].node
    assert kept(stage) == {f"{result['pool']}/{result['device']}": node}
    assert result["device"] in shown(stage, result["pool"])
    assert shown(stage, node) == []
    stage.delete_pod("one")
    wait_for("the device is one of the node", lambda: len(shown(stage, node)) == 1, 20)
    wait_for("the device is back", lambda: free(stage, A100) == 4, 30)
    wait_for("the pool shows it", lambda: len(shown(stage, result["pool"])) == 4, 20)


def test_idle_device_is_had_at_once(stage: Stage, front_door: FrontDoor, timeline: Timeline) -> None:
    stage.pod("first", H100, node="node-1")
    assert timeline.wait(lambda: timeline.running("first"), 30)
    stage.delete_pod("first")
    wait_for("the device is one of the node", lambda: len(shown(stage, "node-1")) == 1, 20)
    asked = len(stage.emulator.log())
    stage.pod("second", H100, node="node-1")
    assert timeline.wait(lambda: timeline.running("second"), 10)
    assert not claims.binding_results(stage.client.get(CLAIMS, "second", "default"))
    assert not [e for e in stage.emulator.log()[asked:] if e["method"] == "PATCH"]
    stage.delete_pod("second")
    wait_for("the device is back", lambda: free(stage, H100) == 2, 30)
