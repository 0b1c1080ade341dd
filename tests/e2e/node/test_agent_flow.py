# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller and node agents on nodes that are as harsh as real ones: a claim is served, and its device comes back."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, annotation
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import STEPS_UP, Evidence
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    assert_served,
    delete_all,
    run_pods,
    wait_for,
)

OPTIONS: dict[str, t.Any] = {"devices": {A100: 4}, "nodes": 2, "handover": "gated"}


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """A stage with harsh nodes, each with its agent."""
    return stage_factory(**OPTIONS)


def evidence(stage: Stage) -> list[Evidence]:
    """What the agents wrote."""
    found = (Evidence.parse(annotation(raw, NODE)) for raw in stage.client.list(COMPOSABLE_RESOURCES).items)
    return [each for each in found if each is not None]


def plugin_pods(stage: Stage) -> set[str]:
    """The pods of the vendor's plugin."""
    return {pod["metadata"]["uid"] for pod in stage.lab.api.get(by_hand.PODS)["items"]}


def test_claims_are_served_with_one_restart_and_devices_come_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    open_process(front_doors.controller, stage)
    before = plugin_pods(stage)
    wanted = {"four": (A100, 4)}
    since = run_pods(stage, timeline, lambda: None, wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    told = evidence(stage)
    assert [[step.step for step in each.steps] for each in told] == [[*STEPS_UP]] * 4
    assert len({each.address for each in told}) == 4
    assert len(plugin_pods(stage) - before) == 1
    delete_all(stage)
    wait_for("the devices are returned", lambda: all_free(stage))
    for node in stage.lab.nodes:
        folder = stage.lab.node_folder(node)
        assert by_hand.gpus(folder) == []
        assert "Xid" not in by_hand.kernel_log(folder), "the fabric pulled a device that the node still had"
