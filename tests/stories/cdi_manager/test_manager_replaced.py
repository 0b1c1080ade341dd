# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another CDI Manager takes over the fabric. It gives every device a new name."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import replace_manager


def test_devices_of_the_old_manager_are_reported_and_left_alone() -> None:
    with telling() as story:
        # A pod computes. The new CDI Manager lists the same hardware with other identifiers.
        story.start("train")
        old = story.device()
        replace_manager(story)
        new = story.device()
        assert new != old
        # To the new CDI Manager, another client attached the device.
        story.judge.foreign.add(new)

        # Within one poll the administrator gets a report of a device without a ComposableResource
        # (alert ComposableOrphans).
        took = story.wait("the orphan is counted", lambda: story.gauge("orphans", "device") == 1.0)
        assert took <= 2 * story.world.scenario.scan

        # The pod continues, and the new CDI Manager serves other pods.
        story.start("second")
        assert story.runs("train")

        # When the pod ends, the node removes its device. The CDI Manager keeps it attached, since
        # it has no device with the old name.
        story.end("train")
        story.wait("its ComposableResource ends", lambda: len(story.resources()) == 1)
        assert new in story.devices()
        assert story.asked("detached") == []
        assert story.gauge("orphans", "device") == 1.0, (
            "the administrator returns it with fabric_device"
        )
