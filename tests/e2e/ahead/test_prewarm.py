# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A floor of idle devices: a pod gets one without an attach, the floor is filled again, and nobody waits for it."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    delete_all,
    holds_new_pods,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
STAGE = {"devices": {A100: 3}, "nodes": 2, "hold": 1.0, "handover": "gated",
         "extra": {"prewarm": [{"model": A100, "idle": 1}]}}


def online(stage: Stage, count: int) -> list[str]:
    """Serial numbers of the attached devices, once there are so many and their nodes have brought all of them up."""
    def found() -> list[str] | None:
        listed = [raw.get("status") or {} for raw in stage.client.list(COMPOSABLE_RESOURCES).items]
        up = [str(status["device_id"]) for status in listed if status.get("state") == "Online"]
        return up if len(listed) == len(up) == count == len(attached(stage)) else None

    return wait_for(f"{count} devices are attached and up", found) or []


def test_a_pod_gets_an_idle_device_and_the_floor_is_filled_again(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    open_process(front_doors.controller, stage)
    (ready,) = online(stage, 1)
    wait_for("new pods are held", lambda: holds_new_pods(stage))
    since = mark(stage)
    stage.pod("one", A100)
    await_served(stage, timeline, "one")
    assert timeline.claims["one"].devices == [ready], "the pod has the device that was there before it"
    serials = online(stage, 2)
    (asked,) = changes_asked(stage, since)
    assert (asked["method"], asked["status"]) == ("PATCH", 200)
    (more,) = {*serials} - {ready}
    assert attached(stage)[more]["uid"] == asked["device"], "one attach, and that for the floor"
    stage.pod("two", A100)
    await_served(stage, timeline, "two")
    assert timeline.claims["two"].devices == [more]
    delete_all(stage)
    online(stage, 1)


def test_nobody_waits_for_the_sake_of_the_floor(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    """All devices for one pod, which needs those that are idle too, wherever they are."""
    open_process(front_doors.controller, stage)
    online(stage, 1)
    stage.pod("large", A100, 3)
    await_served(stage, timeline, "large")
    assert len(timeline.claims["large"].devices) == 3
    delete_all(stage)
    online(stage, 1)
