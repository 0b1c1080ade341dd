# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of all hosts are set by an hour, forward or back."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.tests.chaos import faults
from ansible_collections.composable.infra.tests.stories.ground import telling


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_pods_are_served_and_devices_return_as_if_nothing_had_happened(by: float) -> None:
    with telling() as story:
        # A pod computes. The clocks of the controllers, the gate reaper and the node agents jump.
        story.start("train")
        for process in ("controllers", "gate-reaper"):
            faults.DO["clock_step"](story.world, {"process": process, "by": by})
        for number in range(len(story.world.nodes)):
            faults.DO["clock_step"](story.world, {"process": "agent", "node": number, "by": by})

        # The next pod is served within seconds. The leader does not change, and no device is taken.
        before = story.engine
        story.submit("next")
        assert story.wait("pod next runs", lambda: story.runs("next")) < 5.0
        assert story.engine is before
        assert story.runs("train")

        # Idle devices return after the hold time, neither at once nor an hour later.
        hold = story.world.scenario.hold
        story.end("train")
        story.end("next")
        assert hold <= story.wait("all devices are free", story.all_returned) < hold + 15.0

        # The administrator has nothing to do.
        assert story.problems() == []
