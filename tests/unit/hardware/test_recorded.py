# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's driver and programs write, by public pages, as the product and the suite of hardware read it."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.container_edits import ContainerEdits
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.specs import SpecFolder
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import offered
from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.drain import drain
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    COMMAND_FAILED,
    DRIVER_FAILED,
    TOUCHED,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.holders import Holders
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, Output, Undo
from ansible_collections.composable.infra.plugins.module_utils.node.kernel_log import faults
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import NVIDIA
from ansible_collections.composable.infra.tests.hardware import container, test_reads, test_use
from ansible_collections.composable.infra.tests.hardware.node import touch
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import drm, plug

RECORDED: dict[str, t.Any] = yaml.safe_load(Path(__file__).with_name("recorded.yml").read_text(encoding="utf-8"))
A, UUID = "0000:10:00.0", "GPU-6f1d2c3b-0a9e-4d5c-8b7a-112233445566"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with a GPU that was used, as the first recorded file shows it."""
    drm(plug(tmp_path, A, driver="nvidia"), "card1")
    drm(tmp_path / "sys/bus/pci/devices" / A, "renderD128")
    show(tmp_path, RECORDED["information"][0]["text"])
    (tmp_path / ".simulated-node").touch()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


def show(root: Path, text: str) -> None:
    """The driver's file about the GPU."""
    path = root / "proc/driver/nvidia/gpus" / A / "information"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def saying(root: Path, *answers: str, code: int = 0) -> Host:
    """A node whose commands answer so, one after the other."""
    rest = list(answers)

    def run(argv: Sequence[str], timeout: float) -> Output:
        return Output(code, RECORDED[rest.pop(0)]["text"], "")

    return Host(root, run=run)


@pytest.mark.parametrize("case", RECORDED["information"], ids=lambda case: case["text"].splitlines()[0])
def test_information_of_a_gpu(case: dict[str, t.Any], tmp_path: Path) -> None:
    plug(tmp_path, A, driver="nvidia")
    show(tmp_path, case["text"])
    (found,) = pci.devices(tmp_path)
    assert [found.uuid, found.minor, found.model] == case["shows"]


@pytest.mark.parametrize("case", RECORDED["kernel_log"], ids=lambda case: case["line"][:40])
def test_lines_of_the_kernel_log(case: dict[str, t.Any]) -> None:
    shown = [[fault.kind, fault.xid] for fault in faults([case["line"]], A)]
    assert shown == ([case["shows"]] if case["shows"] else [])
    assert test_reads.is_understood(case["line"]) == bool(case["shows"] and case["shows"][0] == "Xid")


def test_first_use(root: Path) -> None:
    evidence = touch(saying(root, "touch"), pci.need(root, A))
    assert evidence.has(TOUCHED)
    assert (evidence.uuid, evidence.address, evidence.trouble) == (UUID, A, None)


def test_first_use_of_a_gpu_that_is_lost(root: Path) -> None:
    with pytest.raises(NodeTrouble) as caught:
        touch(saying(root, "lost"), pci.need(root, A))
    assert caught.value.reason == DRIVER_FAILED
    assert "Unknown Error" in caught.value.message


def test_drain(root: Path) -> None:
    assert drain(saying(root, "drained", "draining"), pci.need(root, A), NVIDIA, Options(), Undo())
    with pytest.raises(NodeTrouble) as caught:
        drain(saying(root, "drained", "not_draining"), pci.need(root, A), NVIDIA, Options(), Undo())
    assert caught.value.reason == COMMAND_FAILED


def test_persistence_mode_that_was_off_stays_off(root: Path) -> None:
    undo = Undo()
    Holders(saying(root, "paused"), pci.need(root, A), NVIDIA, Options()).pause(undo)
    assert undo.all() == []  # it would ask the node for more than the one answer


def test_spec_of_nvidia_ctk_beside_the_own_drivers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite's comparison: the same device files, and a spec that is written with all that the tool gave."""
    devices = offered(root, [NVIDIA.name])
    edits = ContainerEdits(saying(root, "toolkit")).of(devices)
    own = ContainerEdits(Host(root, run=test_use.without_tool)).of(devices)
    (name,) = own.devices
    assert test_use.paths(own.devices[name]) == test_use.paths(edits.devices[name]) == {
        "/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD128"}
    assert test_use.paths(own.common) == test_use.paths(edits.common) == {"/dev/nvidiactl", "/dev/nvidia-uvm"}
    told = json.loads(RECORDED["toolkit"]["text"])
    written = SpecFolder(root, "gpu.example").document("uid", edits)
    assert written["containerEdits"]["mounts"] == told["containerEdits"]["mounts"]
    assert written["containerEdits"]["hooks"] == told["containerEdits"]["hooks"]


def test_container_gets_what_the_spec_says(tmp_path: Path) -> None:
    told = json.loads(RECORDED["toolkit"]["text"])
    device, common = told["devices"][0]["containerEdits"], told["containerEdits"]
    for node in (*device["deviceNodes"], *common["deviceNodes"]):
        node["hostPath"] = "/dev/null"
    found = container.configuration("/root-of-it", ["/bin/true"], [common, device])
    assert [node["path"] for node in found["linux"]["devices"]] == [
        "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD128"]
    assert {(node["major"], node["minor"]) for node in found["linux"]["devices"]} == {(1, 3)}
    denied, *allowed = found["linux"]["resources"]["devices"]
    assert denied == {"allow": False, "access": "rwm"}
    assert len(allowed) == 5
    assert found["mounts"][-1] == {
        "destination": "/lib/x86_64-linux-gnu/libcuda.so.580.82.07", "type": "bind",
        "source": "/lib/x86_64-linux-gnu/libcuda.so.580.82.07",
        "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}
    (hook,) = found["hooks"]["createContainer"]
    assert hook["args"][1] == "update-ldcache"
    assert "NVIDIA_VISIBLE_DEVICES=void" in found["process"]["env"]
