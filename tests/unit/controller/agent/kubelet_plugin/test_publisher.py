# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slices of one node and driver: written when they differ, in parts where there are many devices."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.allocation import Place
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import NodeDevice
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.publisher import MOST_DEVICES, Publisher
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi


def devices(count: int) -> list[NodeDevice]:
    return [NodeDevice("nvidia", f"0000:{n:02x}:00.0", "10de", "2330", ("/dev/nvidia0",), f"GPU-{n:03}")
            for n in range(count)]


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    made.put(NODES, {"metadata": {"name": "n", "uid": "node-uid"}})
    return made


def publisher(api: FakeApi, store: Store | None = None, node: str = "n") -> Publisher:
    return Publisher(api.client, Place("d.example.com", node), Store({}) if store is None else store)


def test_what_stands_there_is_not_written_again(api: FakeApi) -> None:
    mine = publisher(api)
    assert [mine.publish(devices(2)) for _time in range(3)] == [True, False, False]
    assert mine.publish(devices(1))
    assert [call.verb for call in api.writes(SLICES)] == ["create", "replace"]


def test_devices_of_one_switch_stand_beside_each_other(api: FakeApi) -> None:
    places = {"a": ("pci0000:80", 1, "0000:85:00.0"), "b": ("pci0000:00", 0, "0000:05:00.0"),
              "c": ("pci0000:80", 1, "0000:81:00.0"), "d": ("pci0000:00", 0, "0000:05:00.0")}
    publisher(api).publish([NodeDevice("nvidia", f"0000:{name}0:00.0", "10de", "2330", ("/dev/nvidia0",), f"GPU-{name}",
                                       numa_node=numa, root=root, switch=switch)
                            for name, (root, numa, switch) in places.items()])
    (found,) = api.of(SLICES)
    assert [device["name"] for device in found["spec"]["devices"]] == ["gpu-b", "gpu-d", "gpu-c", "gpu-a"]


def test_node_without_devices_has_an_empty_slice(api: FakeApi) -> None:
    assert publisher(api).publish([])
    (found,) = api.of(SLICES)
    assert found["spec"] == {"driver": "d.example.com", "nodeName": "n", "devices": [],
                             "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}


def test_many_devices_are_several_slices_of_one_generation_and_few_are_one_again(api: FakeApi) -> None:
    mine = publisher(api)
    mine.publish(devices(MOST_DEVICES + 1))
    found = sorted(api.of(SLICES), key=lambda item: item["metadata"]["name"])
    assert [len(item["spec"]["devices"]) for item in found] == [MOST_DEVICES, 1]
    assert {(p["generation"], p["resourceSliceCount"]) for p in (item["spec"]["pool"] for item in found)} == {(1, 2)}
    assert not mine.publish(devices(MOST_DEVICES + 1))
    mine.publish(devices(1))
    (one,) = api.of(SLICES)
    assert one["spec"]["pool"] == {"name": "n", "generation": 2, "resourceSliceCount": 1}


def test_slices_of_others_are_left_alone(api: FakeApi) -> None:
    store = Store({})
    for name, driver, node in (("a", "other.example.com", "n"), ("b", "d.example.com", "m")):
        spec = {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 5}, "devices": []}
        store.upsert(api.put(SLICES, {"metadata": {"name": name}, "spec": spec}))
    publisher(api, store).publish(devices(1))
    assert len(api.of(SLICES)) == 3
    assert [call.verb for call in api.writes(SLICES)] == ["create"]


def test_slice_that_is_gone_meanwhile_is_made_anew_at_the_next_try(api: FakeApi) -> None:
    mine = publisher(api)
    mine.publish(devices(1))
    api.remove(SLICES, "n-d.example.com-0")
    with pytest.raises(NotFound):
        mine.publish(devices(2))
    assert mine.publish(devices(2))
    assert len(api.of(SLICES)) == 1


def test_name_fits_whatever_the_node_is_called(api: FakeApi) -> None:
    node = "n" * 250
    api.put(NODES, {"metadata": {"name": node, "uid": "u"}})
    publisher(api, node=node).publish([])
    (found,) = api.of(SLICES)
    assert len(found["metadata"]["name"]) <= 253
