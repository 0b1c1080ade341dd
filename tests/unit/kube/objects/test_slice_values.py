# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of a ResourceSlice: what it says, what equal ones share, and what cannot be read."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slice_values
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.value_store import ValueStore
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import indexers
from ansible_collections.composable.infra.tests.bench.large import objects

Json = dict[str, t.Any]


def with_version(raw: Json, version: str) -> Json:
    """The same object as another write has left it."""
    found = copy.deepcopy(raw)
    found["metadata"]["resourceVersion"] = version
    return found


def test_fields() -> None:
    raw = objects.node_slice(3)
    found = slice_values.read(raw)
    spec = raw["spec"]
    assert (found.namespace, found.name, found.node) == ("", raw["metadata"]["name"], spec["nodeName"])
    assert (found.driver, found.pool, found.generation, found.count) == (spec["driver"], spec["pool"]["name"], 1, 1)
    assert [device.entry for device in found.devices] == spec["devices"]
    assert {device.uuid for device in found.devices} == found.shown.whole.keys() - {
        address for address in found.shown.whole if ":" in address}
    assert found.whole is None


def test_what_a_node_publishes_besides_devices_is_kept() -> None:
    raw = objects.node_slice(0)
    counters = [{"name": "gpu-0-counters", "counters": {"memory": {"value": "80Gi"}}}]
    raw["spec"]["sharedCounters"] = counters
    assert slice_values.read(raw).as_object()["spec"] == raw["spec"]


def test_another_version_of_the_same_says_nothing_new() -> None:
    raw = objects.node_slice(0)
    first, second = slice_values.read(with_version(raw, "7")), slice_values.read(with_version(raw, "8"))
    assert first == second
    assert (first.version, second.version) == ("7", "8")
    raw["spec"]["devices"].pop()
    assert slice_values.read(with_version(raw, "8")) != second


def test_equal_entries_are_in_memory_once() -> None:
    """Nodes of one kind have their devices at the same addresses."""
    first, second = (slice_values.read(objects.node_slice(number)) for number in (1, 2))
    assert all(a.common is b.common for a, b in zip(first.devices, second.devices, strict=True))
    assert all(a.uuid != b.uuid for a, b in zip(first.devices, second.devices, strict=True))


@pytest.mark.parametrize("uuid", [{"version": "1.0.0"}, None, {"string": ""}])
def test_an_odd_uuid_stays_in_the_entry(uuid: Json | None) -> None:
    raw = objects.node_slice(0)
    raw["spec"]["devices"][0]["attributes"]["uuid"] = uuid
    device = slice_values.read(raw).devices[0]
    assert (device.uuid, device.entry) == ("", raw["spec"]["devices"][0])


def test_a_pool_shows_no_device_of_a_node() -> None:
    raw = objects.pool_slice()
    raw["spec"]["devices"] = [{"name": "a100-0", "attributes": {"uuid": {"string": "GPU-0"}}}]
    found = slice_values.read(raw)
    assert (found.node, dict(found.shown.whole), [each.name for each in found.devices]) == ("", {}, ["a100-0"])


def test_one_that_cannot_be_read_is_in_no_index_and_the_next_version_is() -> None:
    store = ValueStore(indexers.SLICES, slice_values.read)
    raw = with_version(objects.node_slice(0), "7")
    name, node = raw["metadata"]["name"], raw["spec"]["nodeName"]
    store.upsert({**raw, "spec": {"nodeName": node}})
    assert (store.value(name), store.values("node", node), store.each_value(), store.names()) == (None, [], [], {name})
    store.upsert(with_version(raw, "8"))
    (found,) = store.values("node", node)
    assert store.value(name) is found is store.each_value()[0]
    assert [each["spec"] for each in store.each()] == [raw["spec"]]
    assert not store.upsert(with_version(raw, "8"))
    assert store.remove(with_version(raw, "9"))
    assert (store.value(name), store.values("node", node), len(store)) == (None, [], 0)
