# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release on a node whose vendor's plugin has every device open while it runs, as with NVMLDeviceHealthCheck."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import Output
from ansible_collections.composable.infra.plugins.module_utils.node.release import NotRestarted, release
from ansible_collections.composable.infra.tests.unit.node.fake_node import QUICK, A, B, FakeNode, Notes, steps
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import (
    ASK,
    DRAIN,
    OFF,
    REMOVE,
    UNDRAIN,
    UP,
    free,
)
from ansible_collections.composable.infra.tests.unit.node.test_release import (
    is_back,
)

POD, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
PLUGIN_PID = 6742


@dataclass
class HoldingPlugin:
    """The plugin of a made-up node: its process opens each device that is not drained when it begins."""

    node: FakeNode
    pod: str = POD
    restarts: int = 0
    sick: str = ""

    def pods(self) -> set[str]:
        return {self.pod}

    def restart(self) -> None:
        if self.sick:
            raise NotRestarted(self.sick)
        self.restarts += 1
        self.node.did.append("restart")
        self.node.before("restart")
        self.node.let_go(PLUGIN_PID)
        for address in self.node.cards:
            if address not in self.node.drained:
                minor = self.node.minor(address)
                link = self.node.root / f"proc/{PLUGIN_PID}/fd/{minor}"
                link.symlink_to(f"/dev/nvidia{minor}")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    made = FakeNode(tmp_path, monkeypatch)
    made.ready(B, "GPU-b")
    return made


@pytest.fixture
def gpu_a(node: FakeNode) -> Evidence:
    return node.ready(A, "GPU-a")


@pytest.fixture
def plugin(node: FakeNode, gpu_a: Evidence) -> HoldingPlugin:
    node.hold(node.minor(B), PLUGIN_PID, "gpu-kubelet-plu")
    (node.root / f"proc/{PLUGIN_PID}/fd/9").symlink_to(f"/dev/nvidia{node.minor(A)}")
    in_pod(node, PLUGIN_PID, POD)
    return HoldingPlugin(node)


def in_pod(node: FakeNode, pid: int, uid: str) -> None:
    """The process belongs to the pod."""
    text = f"0::/kubepods.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/cri-containerd-1.scope\n"
    (node.root / f"proc/{pid}/cgroup").write_text(text, encoding="utf-8")


def test_the_plugin_is_restarted_once_nobody_new_can_come(
        node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence) -> None:
    notes, asked = Notes(), []

    def claims() -> str:
        asked.append(list(node.did))
        return ""

    found = release(node.host, gpu_a, QUICK, notes, claims, plugin=plugin)
    assert node.did == [OFF, DRAIN, ASK, "restart", REMOVE]
    assert asked == [[OFF, DRAIN, ASK]]
    assert (found.phase, steps(found)) == ("Removed", [*UP, "Idle", "Drained", "RemovedFromBus"])
    assert not node.entry(A).exists()


def test_a_device_that_nothing_holds_costs_no_restart(node: FakeNode, gpu_a: Evidence) -> None:
    plugin = HoldingPlugin(node)
    assert release(node.host, gpu_a, QUICK, Notes(), free, plugin=plugin).phase == "Removed"
    assert plugin.restarts == 0


def test_a_claim_keeps_the_plugin_running(node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence) -> None:
    notes = Notes()
    with pytest.raises(NodeTrouble, match="claim default/c uses it"):
        release(node.host, gpu_a, QUICK, notes, lambda: "claim default/c uses it", plugin=plugin)
    assert plugin.restarts == 0
    assert is_back(node, notes)


@pytest.mark.parametrize("uid", [OTHER, ""])
def test_a_process_that_only_has_the_plugins_name_is_a_user(
        node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence, uid: str) -> None:
    node.hold(node.minor(A), 99, "gpu-kubelet-plu")
    if uid:
        in_pod(node, 99, uid)
    notes = Notes()
    with pytest.raises(NodeTrouble, match=r"pid 99 \(gpu-kubelet-plu\)"):
        release(node.host, gpu_a, QUICK, notes, free, plugin=plugin)
    assert plugin.restarts == 0
    assert DRAIN not in node.did
    assert is_back(node, notes)


def test_who_comes_beside_the_plugin_takes_all_back(
        node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence) -> None:
    """The plugin looks once more, since it did not see the device while that was drained."""
    def comes(what: str) -> None:
        if what == DRAIN:
            node.hold(node.minor(A), 99)

    node.before, notes = comes, Notes()
    with pytest.raises(NodeTrouble, match=r"pid 99 \(python\)"):
        release(node.host, gpu_a, QUICK, notes, free, plugin=plugin)
    assert node.did == [OFF, DRAIN, ASK, "restart", UNDRAIN, "restart"]
    assert plugin.restarts == 2
    assert is_back(node, notes)


def test_plugin_that_must_not_look_again_is_left_alone(
        node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence) -> None:
    """Another device fell sick after the first restart."""
    def comes(what: str) -> None:
        if what == DRAIN:
            node.hold(node.minor(A), 99)
        if what == "restart":
            plugin.sick = "device gpu-1 has the taint gpu.nvidia.com/xid=48:NoSchedule"

    node.before, notes = comes, Notes()
    with pytest.raises(NodeTrouble) as caught:
        release(node.host, gpu_a, QUICK, notes, free, plugin=plugin)
    assert f"the vendor's plugin does not see {A}: device gpu-1 has the taint" in caught.value.message
    assert plugin.restarts == 1
    assert is_back(node, notes)


def test_without_a_drain_the_plugin_would_open_it_again(
        node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence) -> None:
    """As in a virtual machine, where the vendor's tool cannot drain."""
    node.answers[DRAIN] = Output(3, "", "Not Supported")
    notes = Notes()
    with pytest.raises(NodeTrouble, match="gpu-kubelet-plu"):
        release(node.host, gpu_a, QUICK, notes, free, plugin=plugin)
    assert plugin.restarts == 0


def test_a_plugin_that_must_not_be_restarted_keeps_the_device(
        node: FakeNode, plugin: HoldingPlugin, gpu_a: Evidence) -> None:
    plugin.sick, notes = "device gpu-1 has the taint gpu.nvidia.com/xid=48:NoSchedule", Notes()
    with pytest.raises(NodeTrouble, match="open: device gpu-1 has the taint") as caught:
        release(node.host, gpu_a, QUICK, notes, free, plugin=plugin)
    assert caught.value.reason == "OpenOnNode"
    assert plugin.restarts == 0
    assert is_back(node, notes)
