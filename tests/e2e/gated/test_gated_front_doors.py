# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gated handover by the rulebook and by the playbook; the controller has files of its own."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    gated,
)
from ansible_collections.composable.infra.tests.e2e.support.front_doors import FrontDoor, open_front_door
from ansible_collections.composable.infra.tests.e2e.support.modules import run_tasks
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    assert_served,
    await_served,
    changes_asked,
    holds_new_pods,
    mark,
    run_pods,
    wait_for,
)

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 2, "devices": {A100: 3}}


@pytest.fixture(params=["rulebook", "playbook"])
def front_door(request: pytest.FixtureRequest, stage: Stage) -> Iterator[FrontDoor]:
    """A front door with all devices in the pool."""
    before = list(OPENED.processes)
    found = open_front_door(request.param, stage)
    found.clear()
    yield found
    found.clear()
    OPENED.stop_all(but=before)


def test_held_pods_are_served(stage: Stage, timeline: Timeline, front_door: FrontDoor,
                              request: pytest.FixtureRequest) -> None:
    """The rulebook's source has new pods held; for a playbook, which runs now and then, the template does it."""
    wanted = {"one": (A100, 1), "two": (A100, 2)}
    if "rulebook" in request.node.name:
        wait_for("new pods are held", lambda: holds_new_pods(stage))
        since = run_pods(stage, timeline, front_door.serve, wanted)
    else:
        since = mark(stage)
        for name, (model, count) in wanted.items():
            stage.pod(name, model, count, by_template=True)
        front_door.serve()
        await_served(stage, timeline, *wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    assert all(it.opened and it.allocated is None for it in timeline.claims.values())


def test_check_mode_says_what_would_be_done_and_does_nothing(stage: Stage) -> None:
    stage.pod("held", A100, by_template=True)
    since = mark(stage)
    task = {"composable.infra.scale": {"config_path": str(stage.config_path)}, "check_mode": True, "diff": True}
    result, = run_tasks(stage, [task])
    assert result["changed"]
    reserved, = (a for a in result["actions"] if a["action"] == "Reserve")
    assert (reserved["pod"]["name"], reserved["node"] in stage.lab.nodes) == ("held", True)
    assert [a["action"] for a in result["actions"]].count("CreateResource") == 1
    assert result["diff"]["after"]["pod default/held"] == f"node {reserved['node']}"
    assert gated(stage, "held")
    assert changes_asked(stage, since) == []
