# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A floor that is learned, on a cluster: what claims took in the last weeks stands in the ConfigMap, as four weeks of
the controllers would have left it. So devices are attached before the first claim, and claims find them.
"""

from __future__ import annotations

import time

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    CONFIG_MAPS,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm_learned import HOUR, WEEK_HOURS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.arrivals import as_text, of_text
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.arrivals_keeper import FIELD, NAME
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
NAMESPACE, WEEKS, TOOK, MOST = "composable-infra", 4, 2, 3
LEARN = {"weeks": WEEKS, "quantile": 0.95, "most": MOST, "lead": 60}
# Nothing is kept by itself: what is attached was learned.
STAGE = {"devices": {A100: 4}, "nodes": 2, "hold": 600.0, "handover": "gated",
         "extra": {"prewarm": [{"model": A100, "idle": 0, "learn": LEARN}]}}


def weeks_before(now: float) -> str:
    """In each hour of the last weeks claims took so many devices within one lead time."""
    this = int(now // HOUR)
    return as_text({A100: dict.fromkeys(range(this - WEEKS * WEEK_HOURS, this), TOOK)})


def counted(stage: Stage) -> dict[int, int]:
    """What the ConfigMap says of the floor, by hour."""
    found = stage.client.get(CONFIG_MAPS, NAME, NAMESPACE).get("data") or {}
    return of_text(str(found.get(FIELD) or "")).get(A100, {})


def online(stage: Stage, count: int) -> set[str]:
    """Serial numbers of the attached devices, once there are so many and all are up."""
    def found() -> set[str] | None:
        listed = [raw.get("status") or {} for raw in stage.client.list(COMPOSABLE_RESOURCES).items]
        up = {str(status["device_id"]) for status in listed if status.get("state") == "Online"}
        return up if len(listed) == len(up) == count == len(attached(stage)) else None

    return wait_for(f"{count} devices are attached and up", found) or set()


def test_devices_wait_for_claims_as_the_last_weeks_had_them(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    stage.client.merge_patch(CONFIG_MAPS, NAME, {"data": {FIELD: weeks_before(time.time())}}, NAMESPACE)
    controller = open_process(front_doors.controller, stage)
    ready = online(stage, TOOK)
    assert f"as learned from {WEEKS * WEEK_HOURS} hours of claims" in controller.text()
    assert f"at most {TOOK * WEEK_HOURS} idle device-hours a week" in controller.text()

    since, begun = mark(stage), int(time.time() // HOUR)
    for name in ("one", "two"):
        stage.pod(name, A100)
    await_served(stage, timeline, "one", "two")
    got = {device for name in ("one", "two") for device in timeline.claims[name].devices}
    assert got == ready, "the pods have the devices that were there before them"
    assert online(stage, 2 * TOOK) > ready
    asked = {str(entry["device"]) for entry in changes_asked(stage, since)}
    assert asked == {attached(stage)[serial]["uid"] for serial in {*attached(stage)} - ready}, \
        "what was attached meanwhile is for the floor"
    wait_for("the claims are counted in their hour", lambda: max(
        (n for hour, n in counted(stage).items() if hour >= begun), default=0) == TOOK, 90)
