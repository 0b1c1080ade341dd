# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leader is frozen for longer than its Lease lasts, and thawed beside its successor: nothing is asked for twice."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.program import LOST_LEASE
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.launch import begin
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    at_rest,
    attached,
    await_served,
    changes_asked,
    delete_all,
    frozen,
    mark,
    returned,
    states,
    wait_for,
)

pytestmark = pytest.mark.e2e
FROZEN_SECONDS = 20.0
STAGE: dict[str, t.Any] = {"devices": {A100: 4}, "attach": 2.0, "hold": 0.5, "attach_timeout": 30.0}


@pytest.fixture(autouse=True)
def clean(stage: Stage) -> Iterator[None]:
    """All devices are free, before and after."""
    yield
    OPENED.stop_all()
    delete_all(stage)
    last = front_doors.controller(stage)
    try:
        wait_for("all devices are free", lambda: returned(stage))
    finally:
        last.stop()


def moment(stage: Stage, when: str) -> None:
    """Wait until the leader is to be frozen."""
    if when == "asked":
        wait_for("the manager is attaching", lambda: "attaching" in states(stage))
    elif when == "intended":
        wait_for("the intent is written", lambda: stage.client.list(COMPOSABLE_RESOURCES).items)


@pytest.mark.parametrize("when", ["idle", "chosen", "intended", "asked"])
def test_frozen_leader_asks_for_nothing_twice(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, record_property: t.Callable[[str, object], None],
    when: str,
) -> None:
    since, leader = mark(stage), open_process(front_doors.controller, stage)
    standby = begin(stage, f"standby-{when}")
    standby.wait_for("listening on")
    names = ["one", "two"]
    if when != "idle":
        stage.pod("one", A100, 1)
        moment(stage, when)
    with frozen(leader.pid):
        began = time.monotonic()
        for name in names if when == "idle" else names[1:]:
            stage.pod(name, A100, 1)
        standby.wait_for("leading as")
        failover = time.monotonic() - began
        wait_for("it was frozen for long enough", lambda: time.monotonic() - began > FROZEN_SECONDS)
    record_property("failover_seconds", round(failover, 1))
    print(f"failover after {failover:.1f} s")
    assert wait_for("the old leader has ended", lambda: leader.process.poll() is not None)
    assert leader.process.poll() == LOST_LEASE
    await_served(stage, timeline, *names)
    wait_for("nothing is on its way", lambda: at_rest(stage))
    asked = [e for e in changes_asked(stage, since, "PATCH") if e["device"]]
    assert len(asked) == len({e["device"] for e in asked}) == len(names), asked
    assert set(attached(stage)) == {d for n in names for d in timeline.claims[n].devices}
    assert not changes_asked(stage, since, "DELETE")
    assert "Traceback" not in leader.text() + standby.text()
