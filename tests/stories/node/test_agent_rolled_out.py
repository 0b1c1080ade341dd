# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node agents are replaced while the removal of a device hangs in a node's kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.host_operations import HostOperations
from ansible_collections.composable.infra.plugins.module_utils.node import left_behind
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    RELEASING,
    REMOVAL_HUNG,
    REMOVED,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.tests.stories.ground import telling
from ansible_collections.composable.infra.tests.unit.node.fake_node import A, B, FakeNode

SAID = "the removal hangs in the kernel"


def test_new_agent_begins_no_second_removal_beside_the_one_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, noted = FakeNode(tmp_path, monkeypatch), list[Evidence]()
    node.ready(B, "GPU-b")
    leaving = node.ready(A, "GPU-a").with_phase(RELEASING)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as hanging:
        # The old agent began the removal and recorded which process hangs. Its pod is replaced.
        left_behind.note(node.root, f"sys/bus/pci/devices/{A}/remove", hanging.pid)
        new = HostOperations(node.host, Options(patience=0.3))

        # The new agent knows the process. It begins no removal, and reports which process hangs.
        with pytest.raises(NodeTrouble) as caught:
            new.release(leaving, frozenset(), noted.append, lambda: "")
        assert caught.value.reason == REMOVAL_HUNG
        assert f"process {hanging.pid}" in str(caught.value)
        assert node.did == []
        hanging.kill()

    # The kernel ends the removal. The agent continues from there.
    assert new.release(leaving, frozenset(), noted.append, lambda: "").phase == REMOVED


def test_node_whose_removal_hangs_gets_no_device_and_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with telling() as story:
        # A pod has ended. The removal of its device hangs on the node.
        name = story.start("train")
        (node,) = (each for each in story.world.nodes if each.name == name)
        device = story.device()
        monkeypatch.setattr(node, "_in_use", lambda uuid: (REMOVAL_HUNG, SAID))
        story.end("train")
        story.wait("the removal is reported", story.errors)

        # The administrator sees it on the ComposableResource (alert ComposableRemovalHung).
        assert story.errors() == [f"not detached: {SAID}"]

        # The agents are replaced. The new one knows only what is in the API.
        node.agent_down = True
        story.let_pass(10.0)
        node.restart_agent()
        node.agent_down = False
        story.let_pass(60.0)
        assert story.asked("detached") == []
        assert device in story.devices()

        # Meanwhile the node gets no further device. Another node serves the pods.
        assert story.start("next") != name

        # The administrator ends the process with the device, and the device returns by itself.
        monkeypatch.undo()
        story.wait("the device is free", lambda: device not in story.devices())
        assert story.runs("next")
