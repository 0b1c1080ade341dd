# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is installed again under its old name while it has a device."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import (
    collect_pods,
    take_node_away,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100


def test_reinstalled_node_gives_its_old_device_back_and_serves_again() -> None:
    with telling(nodes=1, devices={A100: 1}) as story:
        # A pod computes. The machine is installed again, so its processes, its Node object and its
        # pods are gone.
        name = story.start("train")
        device, machine = story.device(), story.world.nodes[0]
        join = take_node_away(story, name)
        machine.open.clear()
        machine.bus.clear()
        collect_pods(story, name)

        # While the node is away, its device stays attached (for gone_node_duration, 60 s here).
        story.let_pass(30.0)
        assert story.asked("detached") == []
        assert story.gauge("orphans", "resource") == 1.0

        # The node is back. Its agent finds the device on the bus and removes it, and the device
        # returns by itself.
        join(name)
        story.wait("the device is free", story.all_returned)
        assert story.asked("detached") == [device]

        # The same device serves the next pod there. The administrator has no work.
        assert story.start("next") == name
        assert story.device() == device
        assert story.errors() == []
        assert story.gauge("orphans", "resource") == 0.0
