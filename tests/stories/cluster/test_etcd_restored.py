# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""etcd is restored from a backup that is older than a pod and its device."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.chaos import faults
from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import detach_by_hand


def test_device_that_was_attached_since_the_backup_stays_until_the_administrator_returns_it() -> None:
    with telling(devices={"A100 40G": 3}) as story:
        # A pod computes. Then the backup is made, and after it another pod gets a device.
        story.start("old")
        before = set(story.devices())
        story.let_pass(30.0)
        since = story.now
        story.start("new")
        (device,) = set(story.devices()) - before

        # The administrator restores etcd. The API servers do not answer for 5 s.
        age = story.now + 5.0 - since + 1.0
        faults.DO["restore"](story.world, {"age": age, "seconds": 5.0})
        story.let_pass(6.0)

        # The cluster does not know the second pod any more. Its device stays attached, and the
        # first pod keeps its device.
        assert story.runs("old")
        assert story.pod("new", "team-a") is None
        story.let_pass(120.0)
        assert set(story.devices()) == {*before, device}
        assert story.asked("detached") == []

        # The administrator sees a device without a ComposableResource (alert ComposableOrphans).
        # Other pods are served without a restart.
        assert story.gauge("orphans", "device") == 1.0
        story.start("next")
        assert len(story.devices()) == 3

        # The administrator ends the remaining container of the second pod, removes the device from
        # the bus, and detaches it.
        serial = story.devices()[device].spec.serial
        for node in story.world.nodes:
            node.open.pop(serial, None)
            node.bus.pop(serial, None)
        detach_by_hand(story, device)
        story.end("old")
        story.end("next")
        story.wait("nothing is left", story.all_returned)
        assert story.gauge("orphans", "device") == 0.0
        assert story.asked("detached").count(device) == 0, "only the administrator detached it"
