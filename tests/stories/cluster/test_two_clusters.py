# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters share one fabric. The controllers of each cluster do not know the other cluster."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.stories.happenings import second_cluster


def test_two_clusters_take_turns_at_the_devices_of_one_fabric() -> None:
    with telling() as first:
        second = second_cluster(first)
        manager = first.world.manager
        ours, theirs = ({node.machine for node in each.world.nodes} for each in (first, second))

        # Each cluster has a pod with a device. For a third pod no device is free.
        first.start("train")
        second.start("train")
        owners = sorted(device.machine or "" for device in manager.attached().values())
        assert [machine in ours for machine in owners].count(True) == 1
        first.submit("next")

        # The user gets the reason why the pod waits. The first cluster leaves the device of the
        # second one alone.
        first.wait("the reason is reported", lambda: first.events("GateReleased"))
        assert "no free A100 40G on fabric" in first.events("GateReleased")[0]
        first.let_pass(60.0)
        assert first.asked("detached") == []
        assert second.runs("train")

        # The second cluster returns its device, and the waiting pod of the first one gets it.
        second.end("train")
        second.wait("the device is returned", lambda: first.asked("detached"))
        first.wait("pod next runs", lambda: first.runs("next"))
        assert {device.machine for device in manager.attached().values()} <= ours
        assert not {entry.machine for entry in manager.log if entry.what == "detached"} - theirs

        # No device of the other cluster counts as an orphan, because its machine is no node here.
        assert first.gauge("orphans", "device") == second.gauge("orphans", "device") == 0.0
        assert not second.judge.violations
