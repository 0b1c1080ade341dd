# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine leaves its cluster with a device and joins another cluster, where a process uses it."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import (
    collect_pods,
    detach_by_hand,
    take_node_away,
)


def test_device_of_a_machine_that_joined_another_cluster_stays_with_it() -> None:
    with telling(gone_node_power="reported") as story:
        # A pod computes. The administrator deletes the Node, and the machine joins another cluster.
        # No API of this cluster shows what runs there now.
        name = story.start("train")
        device = story.device()
        take_node_away(story, name)
        collect_pods(story, name)

        # The device stays, long after gone_node_duration (60 s here).
        story.let_pass(300.0)
        assert device in story.devices()
        assert story.asked("detached") == []

        # The administrator sees a ComposableResource without a node, and why it stays. Other pods
        # are served.
        assert story.gauge("orphans", "resource") == 1.0
        (error,) = story.errors()
        assert "does not report whether machine" in error
        assert "The machine may have joined another cluster" in error
        assert story.start("next") != name
        story.end("next")

        # The other cluster's administrator detaches the device. The ComposableResource ends by
        # itself after gone_node_duration, and the device serves a pod of this cluster again.
        began = story.now
        detach_by_hand(story, device)
        story.wait("nothing is left", story.all_returned)
        assert 55.0 < story.now - began < 75.0
        assert any(device in event for event in story.events("DeviceLeft")), story.events()
        assert story.gauge("orphans", "resource") == 0.0
        assert story.asked("detached").count(device) == 0, "only the administrator detached it"
        story.start("last", count=2)
