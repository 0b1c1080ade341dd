# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI Manager restarts without its data and lists every device as free."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.stories.ground import device_of, node_of, telling
from ansible_collections.composable.infra.tests.stories.happenings import empty_manager


def test_pod_keeps_its_device_and_no_other_pod_is_started_on_it() -> None:
    with telling(nodes=1) as story:
        # A pod computes. The CDI Manager loses its database, so it lists the pod's device as free.
        node = story.start("train")
        device = story.device()
        empty_manager(story)
        story.let_pass(30.0)

        # The pod continues, and its ComposableResource still records the device. No process
        # detaches a device.
        assert story.runs("train")
        assert [device_of(raw) for raw in story.resources().values()] == [device]
        assert story.asked("detached") == []
        # There is no report yet, because an inventory without the device does not prove a fault.
        assert story.problems() == []

        # For the next request the CDI Manager answers with the used device. The controllers refuse
        # it and report why.
        story.submit("second")
        story.wait("the refusal is reported", lambda: story.events("AttachFailed"))
        (name,) = [name for name, raw in story.resources().items() if device_of(raw) == device]
        assert story.events("AttachFailed") == [
            f"AttachFailed: the CDI Manager answered with device {device}, which {name} already owns"
        ]

        # The device has one owner, and the first pod still runs on it.
        story.let_pass(60.0)
        owners = [raw for raw in story.resources().values() if device_of(raw) == device]
        assert len(owners) == 1
        assert story.runs("train")
        assert node == node_of(owners[0])
