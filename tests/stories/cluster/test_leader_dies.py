# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leader dies during an attach, and the CDI Manager lists only some of the machines to the new
leader.
"""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import INCOMPLETE
from ansible_collections.composable.infra.tests.stories.ground import Ground, telling


def leader_dies(story: Ground) -> None:
    """Kill the leader, and wait until another replica leads."""
    world = story.world
    old = world.controllers.leader()
    assert old
    world.simulation.kill(old.process)
    story.wait("another replica leads", lambda: world.controllers.leader() not in (None, old))


@pytest.mark.parametrize("seed", range(1, 5))
def test_pod_whose_device_is_on_its_way_gets_that_one(seed: int) -> None:
    with telling(seed, nodes=3, wired=True, attach=20.0, attach_timeout=35.0) as story:
        # A device is being attached to the node of a gated pod.
        story.submit("train")
        story.wait("the device is asked for", lambda: story.asked("asked"))
        (machine,) = {entry.machine for entry in story.world.manager.log}

        # The leader dies. From now on the CDI Manager leaves out each machine in every second
        # answer.
        story.world.fates.append(("wire", INCOMPLETE, 1.0))
        leader_dies(story)
        story.let_pass(5.0)

        # No event says that the pod can never be served, and no second device is requested.
        assert story.events("GateReleased") == []
        assert len(story.asked("asked")) == 1

        # The CDI Manager lists all machines again. The pod runs with the device that was being
        # attached.
        story.world.fates.clear()
        story.wait("pod train runs", lambda: story.runs("train"))
        assert story.devices()[story.device()].machine == machine
        assert story.events("GateReleased") == []
        assert len(story.asked("attached")) == 1
        assert story.asked("detached") == []
