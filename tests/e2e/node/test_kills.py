# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 of the agent, the vendor's plugin or the controller, as soon as the evidence has a step.

The pod runs all the same and the device is returned; each is asked for once.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import STEPS_DOWN, STEPS_UP
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.kills import (
    AgentVictim,
    ControllerVictim,
    PluginVictim,
    StepTrap,
)
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    attached,
    await_served,
    changes_asked,
    delete_all,
    mark,
    wait_for,
)

NODE = "node-0"
STAGE: dict[str, t.Any] = {"devices": {A100: 2}, "nodes": 1, "handover": "gated", "attach": 0.1, "hold": 0.3}
VICTIMS = {"agent": AgentVictim, "plugin": PluginVictim, "controller": ControllerVictim}


@pytest.mark.parametrize(("up", "down"), list(zip(STEPS_UP, STEPS_DOWN, strict=True)))
@pytest.mark.parametrize("kind", list(VICTIMS))
def test_killed_at_a_step_up_and_at_a_step_down(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, kind: str, up: str, down: str
) -> None:
    victim = VICTIMS[kind](stage, NODE, open_process)
    since = mark(stage)
    with StepTrap(stage, up, going_up=True, spring=victim.kill) as trap:
        stage.pod("one", A100)
        trap.wait()
    victim.bring_back()
    await_served(stage, timeline, "one")
    assert len(attached(stage)) == 1
    assert by_hand.empty(stage.lab.node_folder(NODE)) == [], "a container gets what is announced"
    with StepTrap(stage, down, going_up=False, spring=victim.kill) as trap:
        stage.delete_pod("one")
        trap.wait()
    victim.bring_back()
    wait_for("the device is returned", lambda: all_free(stage))
    done = [str(e["effect"]).partition(" ")[0] for e in changes_asked(stage, since) if e["effect"]]
    assert done == ["attached", "detached"]
    log = by_hand.kernel_log(stage.lab.node_folder(NODE))
    assert "Xid" not in log
    assert "non-zero usage count" not in log


def test_plugin_that_announces_a_device_before_its_first_use_looks_again(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """The agent is away while the device comes, and somebody else restarts the plugin meanwhile."""
    victim, folder = AgentVictim(stage, NODE, open_process), stage.lab.node_folder(NODE)
    victim.kill()
    stage.pod("one", A100)
    (uuid,) = wait_for("a device that has a driver", lambda: [*attached(stage)] if by_hand.bound(folder) else [])
    by_hand.restart_plugin(stage.lab, NODE)
    wait_for("the plugin announces it", lambda: by_hand.announced(stage.lab, NODE) == [uuid] == by_hand.empty(folder))
    victim.bring_back()
    await_served(stage, timeline, "one")
    assert by_hand.empty(folder) == [], "a container gets what is announced"
    assert timeline.claims["one"].devices == [uuid]
    delete_all(stage)
