# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet of a node is replaced by another one, which has lost its checkpoint."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin import plugin
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import SLICES
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin import (
    kubelet_stand_in,
    plugin_node,
    test_plugin,
)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[test_plugin.Running]:
    """The node agent's own driver on a node with two GPUs."""
    monkeypatch.setattr(plugin, "LOOK_SECONDS", 0.05)
    node = plugin_node.PluginNode(tmp_path)
    node.plug("a", "b")
    folder = Path(tempfile.mkdtemp(prefix="k"))  # the path of a socket must be short
    running = test_plugin.Running(node, folder)
    yield running
    running.close()
    shutil.rmtree(folder)


def test_claims_keep_their_devices_and_the_slices_come_back(driver: test_plugin.Running) -> None:
    # A pod has GPU a. The first kubelet ends.
    driver.node.claim("gpu-a", name="train")
    with kubelet_stand_in.KubeletStandIn(driver.kubelet) as old:
        old.register(plugin_node.DRIVER)
        (device,) = old.prepare("uid-train", "train").devices
    specs = driver.node.specs()
    test_plugin.wait_for("the slice", lambda: driver.shown() == ["gpu-a", "gpu-b"])

    # The new kubelet deletes the ResourceSlices of its node when it starts, as each kubelet does.
    (found,) = driver.node.api.of(SLICES)
    driver.node.api.remove(SLICES, found["metadata"]["name"])
    with kubelet_stand_in.KubeletStandIn(driver.kubelet) as new:
        new.register(plugin_node.DRIVER)

        # The driver publishes its devices again by itself.
        test_plugin.wait_for("the slice again", lambda: driver.shown() == ["gpu-a", "gpu-b"])

        # The new kubelet knows no claim and prepares again. The container gets the same device.
        (again,) = new.prepare("uid-train", "train").devices
        assert list(again.cdi_device_ids) == list(device.cdi_device_ids)
        assert driver.node.specs() == specs

        # No other claim gets the device in the meantime, and the kubelet gets a message with the
        # claim that has it.
        driver.node.claim("gpu-a", name="thief")
        refused = new.prepare("uid-thief", "thief")
        assert not refused.devices
        assert "default/train" in refused.error

        # When the pod ends, the new kubelet releases the device. The administrator has no work.
        assert new.unprepare("uid-train", "train").error == ""
        assert driver.node.specs() == []
