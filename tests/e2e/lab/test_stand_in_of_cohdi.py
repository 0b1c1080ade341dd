# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CoHDI's operator does when a command or a pod of a node is gone under its hands: it says so and tries again."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.tests.e2e.support.upstream.driver_pod import DriverPod
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import PassFailed
from ansible_collections.composable.infra.tests.e2e.support.upstream.operator import Operator

Json = dict[str, t.Any]
PLUGIN_POD = {"metadata": {"name": "plugin-1", "creationTimestamp": format_time(time.time() - 60)}}


class GoneMeanwhile:
    """An API server that lists a plugin's pod, which has left when it is to be deleted."""

    def get(self, path: str) -> Json:
        return {"items": [PLUGIN_POD] if "/pods?" in path else []}

    def request(self, method: str, path: str) -> Json:
        raise ApiRefusal(404, f"{method} {path}: not found")


@dataclass
class OneNode:
    """All that a driver's pod needs of a lab."""

    folder: Path
    api: GoneMeanwhile = field(default_factory=GoneMeanwhile)

    def node_folder(self, _node: str) -> Path:
        return self.folder


def pod_on(folder: Path) -> DriverPod:
    (folder / "sys/bus/pci/devices").mkdir(parents=True)
    lab: Lab = t.cast(t.Any, OneNode(folder))
    return DriverPod(lab, "node-0", plugin_rest=1.0)


def test_a_plugin_pod_that_left_meanwhile_is_an_error_of_the_pass(tmp_path: Path) -> None:
    with pytest.raises(PassFailed, match=r"node node-0: DELETE .*plugin-1: not found"):
        pod_on(tmp_path).announce()


def test_a_command_that_fails_is_an_error_of_the_pass(tmp_path: Path) -> None:
    pod = pod_on(tmp_path)
    information = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information"
    information.parent.mkdir(parents=True)
    information.write_text("GPU UUID: GPU-1\nBus Location: 0000:01:00.0\nDevice Minor: 0\n", encoding="utf-8")
    with pytest.raises(PassFailed, match=r"node node-0: .*nvidia-smi"):
        pod.drain("GPU-1")


class Answers:
    """A manager and an API server that take everything; ``status`` is what was written last."""

    def __init__(self) -> None:
        self.status: Json = {}
        self.attached = 0

    def attach(self, _machine: str, _model: str) -> t.Any:
        self.attached += 1
        device = type("Device", (), {"serial": "GPU-1", "uid": "0001"})
        return type("Attached", (), {"devices": [device]})

    def get(self, kind: t.Any, name: str) -> Json:
        if kind is COMPOSABLE_RESOURCES:
            return {"metadata": {"name": name}, "status": dict(self.status)}
        return {"spec": {"providerID": "host/machine-1"}}

    def replace(self, _kind: t.Any, _name: str, item: Json, subresource: str) -> None:
        assert subresource == "status"
        self.status = item["status"]


def test_a_device_whose_announcing_failed_is_attached_once(tmp_path: Path) -> None:
    answers = Answers()
    operator: t.Any = object.__new__(Operator)
    operator.client = operator.manager = answers
    operator.pods = {"node-0": pod_on(tmp_path)}
    for _pass in range(2):
        operator._resource({"metadata": {"name": "gpu-1"}, "spec": {"target_node": "node-0", "model": "A100"},
                            "status": dict(answers.status)})
    assert answers.attached == 1
    assert answers.status["cdi_device_id"] == "0001"
    assert answers.status["state"] == "Attaching"
    assert "plugin-1: not found" in answers.status["error"]
