# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in of the vendor's plugin: what it finds, what containers get, and its sockets as a kubelet uses them."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import dra_pb2, registration_pb2, rpc
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.rpc import (
    DRA,
    REGISTRATION,
    service,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.sockets import (
    Registration,
    Sockets,
    serving,
)
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node import driver_files
from ansible_collections.composable.infra.lab.hardware.node.kernel import NodeKernel
from ansible_collections.composable.infra.lab.real_nodes.plugin import specs
from ansible_collections.composable.infra.lab.real_nodes.plugin.devices import (
    CACHE_SECONDS,
    DeviceFiles,
    FoundGpu,
    look,
)
from ansible_collections.composable.infra.lab.real_nodes.plugin.driver import Driver, Unprepared

GPU = FoundGpu("GPU-a", "H100", "0000:10:00.0", 0)
SECOND = FoundGpu("GPU-b", "H100", "0000:11:00.0", 1)


def claim(*devices: str, uid: str = "u1", pool: str = "real-0", driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    results = [{"request": "gpu", "driver": driver, "pool": pool, "device": name} for name in devices]
    return {"metadata": {"uid": uid}, "status": {"allocation": {"devices": {"results": results}}}}


def driver_for(folder: Path, found: Mapping[str, Any], files: DeviceFiles | None = None) -> Driver:
    """A plugin with specs in `folder`, on a node whose devices were used unless `files` says otherwise."""
    node = folder.with_name(f"{folder.name}-node")
    make_files(node, GPU, SECOND)
    files = files or DeviceFiles(node, [GPU, SECOND])
    return Driver("real-0", [GPU, SECOND], files, folder, lambda path: found, lambda line: None)


def make_files(node: Path, *used: FoundGpu) -> None:
    """What the first use of these devices makes in /dev."""
    (node / "dev").mkdir(parents=True, exist_ok=True)
    for device in used:
        (node / "dev" / f"nvidia{device.minor}").touch()


@pytest.fixture
def kubelet_folder() -> Iterator[Path]:
    """A folder with a short name: the path of a Unix socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="k"))
    yield folder
    shutil.rmtree(folder)


def test_driver_sees_what_the_node_shows(tmp_path: Path) -> None:
    kernel = NodeKernel(tmp_path / "node", 2, True, lambda folder, verb, address: None)
    kernel.plug([PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100", {"memory": "94Gi"}) for name in "ab"])
    with kernel.records.lock():
        used = [driver_files.touch(kernel.records, device) for device in kernel.records.devices()]
    found = look(kernel.root)
    assert [(it.uuid, it.model, it.address, it.minor) for it in found] == [
        (it.uuid, it.model, it.address, it.minor) for it in used
    ]
    assert found[0].properties == {"memory": "94Gi"}


def test_device_that_nobody_has_used_yet_is_seen(tmp_path: Path) -> None:
    """The vendor's library starts it and so knows its UUID, though /proc does not show it."""
    kernel = NodeKernel(tmp_path / "node", 2, True, lambda folder, verb, address: None)
    kernel.plug([PluggedDevice("uid-a", "GPU-a", "H100")])
    assert [found.uuid for found in look(kernel.root)] == ["GPU-a"]
    assert look(tmp_path / "absent") == []


def test_device_that_nobody_had_used_at_the_start_cannot_be_prepared_for_five_minutes(tmp_path: Path) -> None:
    now = [0.0]
    node, folder = tmp_path / "node", tmp_path / "specs"
    folder.mkdir()
    make_files(node, SECOND)
    driver = driver_for(folder, claim("gpu-0"), DeviceFiles(node, [GPU, SECOND], lambda: now[0]))
    make_files(node, GPU)
    now[0] = CACHE_SECONDS - 1.0
    with pytest.raises(Unprepared, match='failed add device "u1-gpu-0": invalid device, empty device edits'):
        driver.prepare("default", "c", "u1")
    assert list(folder.iterdir()) == []
    now[0] = CACHE_SECONDS
    assert [found.device_name for found in driver.prepare("default", "c", "u1")] == ["gpu-0"]


def test_spec_names_are_the_vendors_and_each_device_names_itself(tmp_path: Path) -> None:
    specs.write(tmp_path, "u1", [GPU, SECOND])
    (file,) = tmp_path.iterdir()
    document = yaml.safe_load(file.read_text())
    assert file.name == "k8s.gpu.nvidia.com-claim_u1.yaml"
    assert document["kind"] == "k8s.gpu.nvidia.com/claim"
    assert [entry["name"] for entry in document["devices"]] == ["u1-gpu-0", "u1-gpu-1"]
    edits = document["devices"][1]["containerEdits"]
    assert edits["env"] == ["GPU_DEVICE_1=GPU-b"]
    assert [(node["path"], node["major"], node["minor"]) for node in edits["deviceNodes"]] == [("/dev/nvidia1", 1, 3)]


def test_prepare_may_be_repeated_and_unprepare_too(tmp_path: Path) -> None:
    driver = driver_for(tmp_path, claim("gpu-1"))
    answers = [driver.prepare("default", "c", "u1") for _time in range(2)]
    assert answers[0] == answers[1]
    assert [(it.device_name, it.pool_name, list(it.request_names), list(it.cdi_device_ids)) for it in answers[0]] == [
        ("gpu-1", "real-0", ["gpu"], ["k8s.gpu.nvidia.com/claim=u1-gpu-1"])
    ]
    assert specs.path(tmp_path, "u1").exists()
    request = dra_pb2.NodeUnprepareResourcesRequest(claims=[{"uid": "u1", "name": "c"}])
    for _time in range(2):
        answer = driver.unprepare_all(request, None)
        assert {uid: it.error for uid, it in answer.claims.items()} == {"u1": ""}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (claim("gpu-7"), "the device real-0/gpu-7 was not there when the plugin started"),
        (claim("gpu-0", pool="real-1"), "the device real-1/gpu-0 was not there"),
        (claim("gpu-0", uid="u2"), "the claim default/c is another one by now"),
        (claim("gpu-0", driver="other"), "the claim has no device of this driver"),
        ({"metadata": {"uid": "u1"}}, "the claim has no device of this driver"),
    ],
)
def test_what_cannot_be_prepared_is_said(tmp_path: Path, found: dict[str, Any], words: str) -> None:
    driver = driver_for(tmp_path, found)
    with pytest.raises(Unprepared, match=words):
        driver.prepare("default", "c", "u1")
    request = dra_pb2.NodePrepareResourcesRequest(
        claims=[{"namespace": "default", "name": "c", "uid": "u1"}]
    )
    answer = driver.prepare_all(request, None)
    assert words in answer.claims["u1"].error
    assert list(tmp_path.iterdir()) == []


def test_kubelet_finds_the_plugin_and_uses_it(kubelet_folder: Path, tmp_path: Path) -> None:
    registered, lines = threading.Event(), list[str]()
    driver = driver_for(tmp_path, claim("gpu-0"))
    sockets = Sockets(kubelet_folder, "gpu.nvidia.com")
    registration = Registration(sockets, ["v1.DRAPlugin"], registered.set, lines.append)
    with serving(sockets, [service(f"{DRA}.DRAPlugin", driver.methods())], registration):
        registrar = kubelet_folder / "plugins_registry" / "gpu.nvidia.com-reg.sock"
        with grpc.insecure_channel(f"unix://{registrar}") as channel:
            question = registration_pb2.InfoRequest()
            info = rpc.call(channel, f"{REGISTRATION}.Registration/GetInfo", question)
            status = registration_pb2.RegistrationStatus
            rpc.call(channel, f"{REGISTRATION}.Registration/NotifyRegistrationStatus", status(error="too old"))
            assert not registered.is_set()
            rpc.call(channel, f"{REGISTRATION}.Registration/NotifyRegistrationStatus", status(plugin_registered=True))
        assert registered.is_set()
        assert (info.type, info.name, list(info.supported_versions)) == (
            "DRAPlugin", "gpu.nvidia.com", ["v1.DRAPlugin"])  # fmt: skip
        request = dra_pb2.NodePrepareResourcesRequest(
            claims=[{"namespace": "default", "name": "c", "uid": "u1"}]
        )
        with grpc.insecure_channel(f"unix://{info.endpoint}") as channel:
            answer = rpc.call(channel, f"{DRA}.DRAPlugin/NodePrepareResources", request)
        assert [it.device_name for it in answer.claims["u1"].devices] == ["gpu-0"]
    assert not list(kubelet_folder.rglob("*.sock"))
    assert lines == ["the kubelet refused the DRA driver: too old", "Registered the DRA driver with the kubelet"]


def test_spec_is_json_and_so_yaml_too(tmp_path: Path) -> None:
    specs.write(tmp_path, "u1", [GPU])
    text = specs.path(tmp_path, "u1").read_text()
    assert json.loads(text) == yaml.safe_load(text) == specs.document("u1", [GPU])
