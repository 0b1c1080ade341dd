# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container gets with its devices: files alone, or with what nvidia-ctk says, which is a stand-in here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.container_edits import (
    ContainerEdits,
    variable,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import KINDS, NodeDevice, offered
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import PluginNode

# What nvidia-ctk 1.17 writes for one GPU, shortened.
COMMON = {"env": ["NVIDIA_X=y"], "deviceNodes": [{"path": "/dev/nvidiactl"}],
          "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}],
          "mounts": [{"hostPath": "/usr/lib/libcuda.so.1", "containerPath": "/usr/lib/libcuda.so.1"}]}
FILE = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
TOLD = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "containerEdits": COMMON,
        "devices": [{"name": "GPU-a", "containerEdits": FILE}, {"name": "all", "containerEdits": FILE}]}
ASKED = "cdi generate --format=json --device-name-strategy=uuid"


def edits(node: PluginNode) -> ContainerEdits:
    return ContainerEdits(Host(node.root))


def toolkit(node: PluginNode, output: object) -> None:
    (node.root / "told.json").write_text(json.dumps(output))
    node.program("nvidia-ctk", f'echo "$*" >> {node.root}/asked; cat {node.root}/told.json')


def asked(node: PluginNode) -> list[str]:
    return (node.root / "asked").read_text().splitlines()


def test_without_the_vendors_tool_it_is_device_files_alone(node: PluginNode) -> None:
    (node.root / "dev/nvidiactl").touch()
    found = edits(node).of(offered(node.root, KINDS))
    assert not found.libraries
    own = found.devices["gpu-a"]
    assert own["env"] == ["GPU_DEVICE_0=GPU-a"]
    assert [node["path"] for node in own["deviceNodes"]] == ["/dev/nvidia0"]
    assert [node["path"] for node in found.common["deviceNodes"]] == ["/dev/nvidiactl"]
    assert found.common["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]


def test_vendors_tool_gives_libraries_and_hooks(node: PluginNode) -> None:
    toolkit(node, TOLD)
    found = edits(node).of(offered(node.root, KINDS))
    assert found.libraries
    assert found.version == "0.6.0"
    assert found.devices == {"gpu-a": {"deviceNodes": [{"path": "/dev/nvidia0"}], "env": ["GPU_DEVICE_0=GPU-a"]}}
    assert found.common["hooks"] == COMMON["hooks"]
    assert found.common["env"] == ["NVIDIA_X=y", "NVIDIA_VISIBLE_DEVICES=void"]


def test_vendors_tool_is_asked_again_for_a_device_that_it_did_not_know(node: PluginNode) -> None:
    toolkit(node, TOLD)
    mine = edits(node)
    for _time in range(2):
        mine.of(offered(node.root, KINDS))
    assert asked(node) == [ASKED]
    node.plug("a", "b")
    with pytest.raises(Refused, match="nvidia-ctk cdi generate does not list GPU-b"):
        mine.of(offered(node.root, KINDS))
    assert asked(node) == [ASKED] * 2
    mine.forget()
    mine.of(offered(node.root, KINDS)[:1])
    assert asked(node) == [ASKED] * 3


@pytest.mark.parametrize(("script", "words"), [
    ("echo 'no driver found' >&2; exit 1", "nvidia-ctk cdi generate ended with exit status 1: no driver found"),
    ("echo 'kind: nvidia.com/gpu'", "nvidia-ctk cdi generate printed no JSON object"),
    ("echo []", "printed no JSON object"),
])
def test_vendors_tool_that_fails_is_no_reason_to_leave_the_libraries_out(node: PluginNode, script: str,
                                                                         words: str) -> None:
    node.program("nvidia-ctk", script)
    with pytest.raises(Refused, match=words):
        edits(node).of(offered(node.root, KINDS))


def test_device_file_has_its_numbers_and_must_be_one(tmp_path: Path) -> None:
    real = ContainerEdits(Host(Path("/")))
    device = NodeDevice("generic-pci", "0000:81:00.0", "1234", "5678", ("/dev/null",))
    (node,) = real.of([device]).devices[device.name]["deviceNodes"]
    number = os.stat("/dev/null").st_rdev
    assert (node["major"], node["minor"]) == (os.major(number), os.minor(number))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/null").touch()
    with pytest.raises(Refused, match="/dev/null cannot be used: it must be a character device"):
        ContainerEdits(Host(tmp_path)).of([device])
    (tmp_path / "dev/null").unlink()
    with pytest.raises(Refused, match="the device file /dev/null cannot be used: No such file"):
        ContainerEdits(Host(tmp_path)).of([device])


def test_device_of_a_virtual_machine_brings_the_common_file(node: PluginNode) -> None:
    (node.root / "dev/vfio").mkdir()
    for name in ("7", "vfio"):
        (node.root / "dev/vfio" / name).touch()
    device = NodeDevice("generic-pci", "0000:81:00.0", "1234", "5678", ("/dev/vfio/7",))
    found = edits(node).of([device]).devices[device.name]
    assert [it["path"] for it in found["deviceNodes"]] == ["/dev/vfio/7", "/dev/vfio/vfio"]
    assert found["env"] == ["PCI_DEVICE_0000_81_00_0=0000:81:00.0"]


def test_variable_of_memory() -> None:
    device = NodeDevice("cxl-memory", "0000:35:00.0", "1234", "5678", ("/dev/cxl/mem0",))
    assert variable(device) == "CXL_MEMORY_DEVICE_0000_35_00_0=0000:35:00.0"
