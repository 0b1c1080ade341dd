# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk of a node is full, so the node agent's own driver cannot record which devices it
prepares.
"""

from __future__ import annotations

import errno
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin import (
    plugin_node,
)


def test_claim_gets_no_device_that_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pod has GPU a. A second pod needs GPU b.
    node = plugin_node.PluginNode(tmp_path)
    node.plug("a", "b")
    driver = node.preparation()
    node.claim("gpu-a", name="train")
    node.claim("gpu-b", name="second")
    driver.prepare("default", "train", "uid-train")
    specs = node.specs()

    # The disk is full.
    def full(*_unused: t.Any, **_options: t.Any) -> t.NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        # The kubelet gets the error and shows it as an Event of the pod. It tries again by itself.
        with pytest.raises(OSError, match="No space left on device"):
            driver.prepare("default", "second", "uid-second")

    # The first pod keeps its device, also for an agent that starts now.
    again = node.preparation()
    assert [claim.name for claim in again.claims()] == ["train"]
    assert set(specs) <= set(node.specs())

    # The administrator makes room, and the next try of the kubelet succeeds.
    assert again.prepare("default", "second", "uid-second").devices
