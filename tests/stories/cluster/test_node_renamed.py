# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node gets another name while a process on it still has its device open."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import (
    collect_pods,
    detach_by_hand,
    take_node_away,
)


def test_device_of_a_renamed_node_stays_until_the_administrator_returns_it() -> None:
    with telling() as story:
        # A pod computes on a node. The administrator renames the machine's node, so the old Node
        # object is deleted.
        old = story.start("train")
        device = story.device()
        join = take_node_away(story, old)
        story.let_pass(5.0)
        renamed = join("renamed")
        story.let_pass(40.0)
        collect_pods(story, old)

        # The container still runs on the machine. Its device stays, long after gone_node_duration
        # (60 s here).
        story.let_pass(180.0)
        assert device in story.devices()
        assert renamed.open, "the process still has the device open"
        assert story.asked("detached") == []

        # The administrator sees a ComposableResource without a node (alert ComposableOrphans), and
        # why it stays.
        assert story.gauge("orphans", "resource") == 1.0
        assert story.errors() == [
            f"not detached: the node agent of node {old} no longer renews its Lease. Check its pod"
        ]
        # Other pods are served.
        assert story.start("next") != old

        # The administrator ends the process and detaches the device. The ComposableResource of
        # the old name ends by itself after gone_node_duration.
        renamed.open.clear()
        renamed.bus.clear()
        detach_by_hand(story, device)
        story.end("next")
        story.wait("the device is free", lambda: device not in story.devices())
        waited = story.wait("nothing is left", story.all_returned)
        assert 55.0 < waited < 65.0
        assert story.gauge("orphans", "resource") == 0.0
        assert story.asked("detached").count(device) == 0, "only the administrator detached it"
