# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that several claims share by a capacity: announced, prepared for each claim apart, and taken back apart."""

from __future__ import annotations

import json
import logging
import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.allocation import Place
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.claim_status import ClaimStatus
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import NodeDevice
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.publisher import Publisher
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.service import PluginService
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.shares import (
    BadShare,
    Share,
    read_share,
    share_of,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import dra_pb2
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import (
    DRIVER,
    NODE,
    PluginNode,
)

Json = dict[str, t.Any]
SHARE = Share("nvidia", "memory", "80Gi", "10Gi")
FIRST, SECOND = "5f3a9c01-1111-4111-8111-111111111111", "b2d4e6f8-2222-4222-8222-222222222222"


def test_text_says_devices_capacity_amount_and_step() -> None:
    assert read_share("nvidia=memory:80Gi:10Gi") == SHARE
    assert read_share("NVIDIA A100-PCIE-40GB=memory:40Gi:5Gi").devices == "NVIDIA A100-PCIE-40GB"


@pytest.mark.parametrize(("text", "words"), [
    ("nvidia", "must be DEVICES=CAPACITY:AMOUNT:STEP"), ("nvidia=memory:80Gi", "must be DEVICES="),
    ("nvidia=9x:80Gi:10Gi", "must be DEVICES="), ("nvidia=memory:eighty:10Gi", "'eighty' is not a quantity"),
    ("nvidia=memory:80Gi:30Gi", "80Gi must be two or more whole steps of 30Gi"),
    ("nvidia=memory:80Gi:80Gi", "two or more whole steps"), ("nvidia=memory:80Gi:0", "whole steps of 0"),
    ("nvidia=memory:1:500m", "whole steps of 500m")])
def test_text_that_says_no_share_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadShare, match=words):
        read_share(text)


def gpu(model: str = "H100") -> NodeDevice:
    return NodeDevice("nvidia", "0000:10:00.0", "10de", "2330", ("/dev/nvidia0",), "GPU-a", model)


def test_product_name_comes_before_its_kind() -> None:
    own = Share("H100", "memory", "90Gi", "30Gi")
    assert share_of(gpu(), (SHARE, own)) == own
    assert share_of(gpu("A100"), (SHARE, own)) == SHARE
    assert share_of(gpu(), (Share("amd", "memory", "2", "1"),)) is None


def publisher(node: PluginNode, *shares: Share) -> Publisher:
    return Publisher(node.api.client, Place(DRIVER, NODE), Store({}), shares)


def shown(node: PluginNode) -> Json:
    (found,) = node.api.of(SLICES)
    (device,) = found["spec"]["devices"]
    return dict(device)


def test_shared_device_says_its_capacity_and_that_a_claim_without_one_takes_all(node: PluginNode) -> None:
    publisher(node, SHARE).publish([gpu()])
    assert shown(node)["allowMultipleAllocations"] is True
    memory = shown(node)["capacity"]["memory"]
    assert memory["value"] == memory["requestPolicy"]["default"] == "80Gi"
    assert memory["requestPolicy"]["validRange"] == {"min": "10Gi", "step": "10Gi", "max": "80Gi"}


def test_quantity_that_the_api_server_writes_otherwise_is_not_written_again(node: PluginNode) -> None:
    wanted = Share("nvidia", "memory", "81920Mi", "10240Mi")
    for there, written in ((SHARE, False), (Share("nvidia", "memory", "40Gi", "10Gi"), True)):
        store = Store({})
        Publisher(node.api.client, Place(DRIVER, NODE), store, (there,)).publish([gpu()])
        assert Publisher(node.api.client, Place(DRIVER, NODE), store, (wanted,)).publish([gpu()]) is written
        node.api.remove(SLICES, f"{NODE}-{DRIVER}-0")


def test_api_server_that_drops_it_is_told_once_and_devices_stay_whole(
    node: PluginNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.api.dropped = ("allowMultipleAllocations", "capacity")
    mine = publisher(node, SHARE)
    with caplog.at_level(logging.WARNING, "composable.infra"):
        assert mine.publish([gpu()])
        assert not mine.publish([gpu()])
    assert [record.getMessage() for record in caplog.records] == [
        f"the driver {DRIVER} shares no device, because this API server drops the field allowMultipleAllocations. Use "
        "Kubernetes 1.36 or later, or turn on the feature gate DRAConsumableCapacity"]


def share(node: PluginNode, name: str, share_id: str, amount: str = "10Gi") -> None:
    node.claim("gpu-a", name=name, shareID=share_id, consumedCapacity={"memory": amount})


def spec(node: PluginNode, name: str) -> list[Json]:
    document = json.loads((node.cdi / f"{DRIVER}-claim_uid-{name}.json").read_text())
    return list(document["devices"])


def test_each_claim_has_a_spec_with_its_own_share(node: PluginNode) -> None:
    mine = node.preparation()
    for name, share_id, amount in (("c", FIRST, "10Gi"), ("d", SECOND, "30Gi")):
        share(node, name, share_id, amount)
        (device,) = mine.prepare("default", name, f"uid-{name}").devices
        (entry,) = spec(node, name)
        assert entry["name"] == f"uid-{name}-gpu-a-{share_id}"
        assert mine.cdi_id(f"uid-{name}", device.entry) == f"{DRIVER}/claim={entry['name']}"
        assert entry["containerEdits"]["env"] == \
            ["GPU_DEVICE_0=GPU-a", f"GPU_DEVICE_0_SHARE_{share_id[:8].upper()}=memory={amount}"]
    assert node.preparation().claims() == mine.claims()
    assert [dict(claim.devices[0].consumed) for claim in mine.claims()] == [{"memory": "10Gi"}, {"memory": "30Gi"}]
    mine.unprepare("uid-c")
    assert node.specs() == [f"{DRIVER}-claim_uid-d.json"]
    assert [claim.name for claim in node.preparation().claims()] == ["d"]


def test_two_shares_of_one_device_for_one_claim_are_told_apart(node: PluginNode) -> None:
    claim = node.claim("gpu-a", shareID=FIRST, consumedCapacity={"memory": "10Gi"})
    results = claim["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "request": "other", "shareID": SECOND, "consumedCapacity": {"memory": "20Gi"}})
    node.api.put(CLAIMS, claim)
    service = PluginService(node.preparation())
    request = dra_pb2.NodePrepareResourcesRequest(
        claims=[dra_pb2.Claim(namespace="default", uid="uid-c", name="c")])
    answer = t.cast(t.Any, service.methods()["NodePrepareResources"])(request, None)
    assert [(list(device.request_names), device.share_id, list(device.cdi_device_ids))
            for device in answer.claims["uid-c"].devices] == [
        (["gpu"], FIRST, [f"{DRIVER}/claim=uid-c-gpu-a-{FIRST}"]),
        (["other"], SECOND, [f"{DRIVER}/claim=uid-c-gpu-a-{SECOND}"])]
    assert {entry["name"] for entry in spec(node, "c")} == {f"uid-c-gpu-a-{FIRST}", f"uid-c-gpu-a-{SECOND}"}


def test_share_of_another_allocation_is_prepared_anew(node: PluginNode) -> None:
    mine = node.preparation()
    share(node, "c", FIRST)
    mine.prepare("default", "c", "uid-c")
    share(node, "c", SECOND, "20Gi")
    mine.prepare("default", "c", "uid-c")
    assert [entry["name"] for entry in spec(node, "c")] == [f"uid-c-gpu-a-{SECOND}"]


def test_device_that_one_claim_has_alone_is_not_shared_meanwhile(node: PluginNode) -> None:
    mine = node.preparation()
    node.claim("gpu-a", name="alone")
    mine.prepare("default", "alone", "uid-alone")
    share(node, "c", FIRST)
    with pytest.raises(Refused, match="the device gpu-a is still prepared for the claim default/alone"):
        mine.prepare("default", "c", "uid-c")
    node.api.remove(CLAIMS, "alone", "default")
    assert mine.prepare("default", "c", "uid-c").devices
    node.claim("gpu-a", name="alone")
    with pytest.raises(Refused, match="still prepared for the claim default/c"):
        mine.prepare("default", "alone", "uid-alone")


def test_status_is_written_of_the_share_that_the_claim_has(node: PluginNode) -> None:
    mine, status = node.preparation(), ClaimStatus(node.api.client, DRIVER)
    share(node, "c", FIRST)
    prepared = mine.prepare("default", "c", "uid-c")
    share(node, "c", SECOND)
    assert not status.write(prepared)
    share(node, "c", FIRST)
    assert status.write(prepared)
    (entry,) = node.api.get(CLAIMS, "c", "default")["status"]["devices"]
    assert (entry["device"], entry["shareID"]) == ("gpu-a", FIRST)


def test_checkpoint_of_whole_devices_can_be_read_by_an_older_agent(node: PluginNode) -> None:
    node.claim("gpu-a")
    node.preparation().prepare("default", "c", "uid-c")
    (claim,) = json.loads(node.checkpoint.read_text())["claims"]
    assert "consumed" not in claim["devices"][0]
