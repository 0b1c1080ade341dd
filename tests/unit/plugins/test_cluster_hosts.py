# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes joined with their machines as hosts: who is idle, who waits, and what when something is missing."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.plugin_utils.cluster_hosts import Cluster, node_hosts
from ansible_collections.composable.infra.plugins.plugin_utils.hosts import Host
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects

READY = {"conditions": [{"type": "Ready", "status": "True"}],
         "addresses": [{"type": "Hostname", "address": "node-0"}, {"type": "InternalIP", "address": "10.1.0.1"}]}


def node(name: str = "node-0", machine: str | None = "machine-0", **spec: t.Any) -> dict[str, t.Any]:
    raw = objects.node(name, machine)
    return {**raw, "spec": {**raw["spec"], **spec}, "status": READY}


def snapshot(*devices: Device) -> FabricSnapshot:
    return FabricSnapshot({"machine-0": Machine("machine-0", "m", 1, devices)}, {}, time.time())


def gpu(serial: str, **more: t.Any) -> Device:
    return Device(f"uid-{serial}", A100, **{"machine": "machine-0", "serial": serial, "health": "OK", **more})


def one(**parts: t.Any) -> Host:
    (host,) = node_hosts(Cluster(**{"nodes": [node()], **parts}))
    return host


def test_node_with_its_machine_and_an_idle_gpu() -> None:
    host = one(slices=[objects.local_slice("GPU-a")], snapshot=snapshot(gpu("GPU-a")))
    assert host.groups == ["has_devices", "has_idle_gpu", "fabric_1", "model_a100_40g"]
    assert host.variables["composable_devices"] == [
        {"uid": "uid-GPU-a", "model": A100, "kind": "gpu", "state": "attached", "health": "OK", "serial": "GPU-a",
         "visible": True, "claim": None, "idle": True}]
    assert {k: host.variables[k] for k in ("composable_machine", "composable_fabric", "ansible_host",
                                           "composable_ready", "composable_problem")} == {
        "composable_machine": "machine-0", "composable_fabric": 1, "ansible_host": "10.1.0.1", "composable_ready": True,
        "composable_problem": ""}


def test_gpu_that_a_claim_has_is_not_idle() -> None:
    claim = objects.claim("train", objects.local_result("gpu-0"))
    host = one(slices=[objects.local_slice("GPU-a", "GPU-b")], claims=[claim],
               snapshot=snapshot(gpu("GPU-a"), gpu("GPU-b")))
    assert [(d["claim"], d["idle"]) for d in host.variables["composable_devices"]] == [
        (f"{claim['metadata']['namespace']}/train", False), (None, True)]
    assert host.variables["composable_claims"] == [
        {"claim": f"{claim['metadata']['namespace']}/train", "state": "bound", "handover": "", "devices": 1,
         "pods": ["train"]}]


@pytest.mark.parametrize("asked", [True, False], ids=["of the CDI Manager", "of the ComposableResources"])
def test_gpu_that_a_claim_keeps_as_the_pools_is_the_claims(asked: bool) -> None:
    """No slice of the node shows it. An equal name on another node is another device."""
    result = objects.pool_result()
    kept = objects.resource("gpu-a", device="uid-GPU-a", serial="GPU-a", state="Online",
                            POOL_DEVICE="a100-fabric1/a100-0")
    host = one(claims=[objects.claim("train", result, devices=[objects.told(result, "FabricDeviceReady")]),
                       objects.claim("other", result, node="node-1")],
               resources=[kept], snapshot=snapshot(gpu("GPU-a")) if asked else None)
    assert [(d["visible"], d["claim"], d["idle"]) for d in host.variables["composable_devices"]] == [
        (False, "default/train", False)]
    assert host.variables["composable_claims"] == [
        {"claim": "default/train", "state": "ready", "handover": "direct", "devices": 1, "pods": ["train"]}]


def test_handover_of_claims_that_wait() -> None:
    """Which it is shows when the first device is asked for: the ComposableResource then has the pool device's name."""
    waits = objects.claim("train", objects.pool_result())
    asked = objects.resource("gpu-a", asked=1, POOL_DEVICE="a100-fabric1/a100-0")
    assert [one(claims=[waits], resources=[raw]).variables["composable_claims"][0]["handover"]
            for raw in (asked, objects.resource("gpu-a", asked=1))] == ["direct", "reschedule"]


def test_gpu_that_the_node_does_not_show_yet_is_not_idle() -> None:
    host = one(snapshot=snapshot(gpu("GPU-a")))
    assert (host.variables["composable_devices"][0]["visible"], "has_idle_gpu" in host.groups) == (False, False)


def test_idle_memory_is_no_idle_gpu() -> None:
    host = one(slices=[objects.local_slice("MEM-a")], snapshot=snapshot(gpu("MEM-a", kind="memory")))
    assert (host.variables["composable_devices"][0]["idle"], "has_idle_gpu" in host.groups) == (True, False)


def test_node_where_a_claim_waits() -> None:
    waits = objects.claim("train", objects.pool_result())
    ready = objects.told(objects.pool_result(), "FabricDeviceReady")
    told = objects.claim("told", objects.pool_result(), devices=[ready])
    assert "waiting" in one(claims=[waits]).groups
    assert "waiting" not in one(claims=[told]).groups
    assert "waiting" not in one(claims=[objects.claim("left", objects.pool_result(), pods=[])]).groups


def test_cordoned_and_not_ready() -> None:
    assert "cordoned" in one(nodes=[node(unschedulable=True)]).groups
    assert "not_ready" in one(nodes=[{**node(), "status": {}}]).groups
    assert not {"cordoned", "not_ready"} & set(one().groups)


def test_node_without_a_machine_is_unmapped_and_the_others_are_there() -> None:
    hosts = node_hosts(Cluster([node("node-1", None), node(), node("node-2", "elsewhere")], snapshot=snapshot()))
    assert [(h.name, "unmapped" in h.groups) for h in hosts] == [("node-0", False), ("node-1", True), ("node-2", True)]
    assert "providerID is 'empty'" in hosts[1].variables["composable_problem"]
    assert "knows no machine elsewhere" in hosts[2].variables["composable_problem"]


def test_without_a_manager_composable_resources_tell_the_devices() -> None:
    attached = objects.resource("gpu-a", device="d1", serial="GPU-a", state="Online")
    coming = objects.resource("gpu-b")
    leaving = objects.resource("gpu-c", device="d3", serial="GPU-c", deleted=True)
    host = one(resources=[attached, coming, leaving], slices=[objects.local_slice("GPU-a", "GPU-c")])
    assert [(d["uid"], d["state"], d["idle"]) for d in host.variables["composable_devices"]] == [
        ("d1", "attached", True), ("d3", "detaching", False)]
    assert (host.variables["composable_machine"], host.variables["composable_fabric"]) == ("machine-0", None)


def test_unhealthy_device() -> None:
    assert "unhealthy" in one(snapshot=snapshot(gpu("GPU-a", health="Critical"))).groups


def test_large_cluster_is_joined_in_one_pass() -> None:
    """What grew with nodes times claims would not end."""
    nodes = [node(f"node-{n}", f"machine-{n}") for n in range(500)]
    claims = [objects.claim(f"c{n}", objects.local_result(), node=f"node-{n % 500}") for n in range(1000)]
    hosts = node_hosts(Cluster(nodes, claims))
    assert sum(len(h.variables["composable_claims"]) for h in hosts) == 1000
