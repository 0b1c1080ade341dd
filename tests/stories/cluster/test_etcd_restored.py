# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""etcd is restored from a backup that is older than a pod and its device."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.resource_values import read_resource
from ansible_collections.composable.infra.tests.chaos import faults
from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import detach_by_hand
from ansible_collections.composable.infra.tests.unit.planning.builders import settings


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


def test_a_controller_that_begins_with_the_restore_believes_no_old_release() -> None:
    with telling(devices={"A100 40G": 1}, detach=2.0, hold=0.5) as story:
        # A pod ends. The backup is made when its node has released the device, which is not
        # detached yet.
        story.start("old")
        device = story.device()
        story.end("old")
        story.wait("the node has released the device",
                   lambda: any(read_resource(raw, settings()).node_work.removed for raw in story.resources().values()))
        released = story.now
        story.wait("the device is back", story.all_returned)

        # Another pod gets the same device. Then the administrator restores etcd, and all
        # controllers start again. The cluster does not know the second pod any more, and one of its
        # processes still uses the device.
        story.start("new")
        assert story.device() == device
        serial = story.devices()[device].spec.serial
        for replica in list(story.world.controllers.replicas.values()):
            story.world.simulation.kill(replica.process)
        faults.DO["restore"](story.world, {"age": story.now + 1.0 - released, "seconds": 1.0})
        ((number, node),) = [(n, node) for n, node in enumerate(story.world.nodes) if node.bus]
        faults.DO["agent"](story.world, {"node": number, "seconds": 60.0})
        story.let_pass(8.0)
        node.open[serial] = "the process"

        # The old ComposableResource is back with the release of before. The node must release the
        # device again, which it does when its agent is back and the process ends.
        story.wait("a controller leads", story.world.controllers.leader)
        story.let_pass(120.0)
        assert story.asked("detached") == [device]
        del node.open[serial]
        story.wait("nothing is left", story.all_returned)
        assert story.asked("detached") == [device, device]
