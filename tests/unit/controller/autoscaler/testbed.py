# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provider and engine on one fake API server, with a scheduler and a fabric that count, without threads.

Both read what the API server has at each step, as their watches would. The scheduler is a stand-in that knows the
extended resource, cpu, taints and cordons; the fabric gives out no device twice.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ansible_collections.composable.infra.controller.autoscaler.cluster import Cluster
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.provider import Provider
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricSnapshot, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import REMOVED, Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.quantity import amount
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import AutoscalerConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, rows
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric

Json = dict[str, t.Any]
GPU = "nvidia.com/gpu"
KINDS = (CLAIMS, SLICES, NODES, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, PODS, NAMESPACES, DEVICE_CLASSES)
MANAGER = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}
GROUPS: Json = {"vertical": [{"id": "vertical", "devices": {GPU: 4}, "cpu": "8", "memory": "32Gi"}],
                "nodes": [{"id": "nodes"}], "provision_timeout": 60}


class CountedFabric(FakeFabric):
    """So many A100 in all."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total = total
        self.closed = ""

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """What is free is what is attached nowhere."""
        self.free_count = self.total - len(self.attached)
        found = super().snapshot(models)
        return FabricSnapshot(found.machines, {(A100, 1): self.free_count}, found.taken)

    def attach(self, machine_uid: str, model: str, *args: t.Any, **more: t.Any) -> Task:
        """Never more than there are."""
        if self.closed:
            raise Refused(self.closed)
        if len(self.attached) >= self.total:
            raise Busy("no device is free")
        return super().attach(machine_uid, model, *args, **more)

    def devices(self) -> tuple[Device, ...]:
        """What is attached."""
        return tuple(self.attached.values())


class Testbed:
    """``nodes``: how many; ``devices``: on the fabric; ``groups``: the provider's configuration."""

    __test__ = False  # pytest would take it for a class of tests by its name

    def __init__(self, nodes: int = 2, devices: int = 4, groups: Json | None = None, **options: t.Any) -> None:
        self.fabric = CountedFabric(devices)
        self.bench = Bench(**{"device_no_removal_duration": 600, "device_classes": [DRIVER], **options})
        self.bench.fabric = self.fabric
        self.bench.build()
        self.api = self.bench.api
        self.config = EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER, "node_operations": "ssh"})
        self.groups = AutoscalerConfig.from_dict(groups or GROUPS, self.config.settings)
        self.number = 0
        self.api.put(DEVICE_CLASSES, {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
            "spec": {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": PRODUCT}}]}})
        for number in range(nodes):
            self.add_node(f"node-{number}")
        self.provider = self.start()

    def start(self) -> Provider:
        """The provider of a new process."""
        self.measurements = Measurements()
        self.cluster = Cluster(self.api.client, self.fabric, self.config, self.groups)
        # no watch runs that could say so
        vars(self.cluster.engine)["ready"] = lambda: True
        self.sync()
        self.provider = Provider(self.cluster, self.groups, self.measurements)
        self.provider.providers_every = self.provider.scale_ups.judged_every = 0.0
        self.step()
        return self.provider

    def step(self) -> None:
        """The provider's two threads have their turn; Cluster Autoscaler's next loop looks anew."""
        self.provider.serve_nodes()
        self.provider.step()
        self.provider.refresh()

    def add_node(self, name: str, cpu: str = "8") -> None:
        """A node with room, a machine, and an empty pool of its own."""
        machine = name.replace("node", "machine")
        self.fabric.others = tuple(dict.fromkeys((*self.fabric.others, machine)))
        self.api.put(NODES, {**objects.node(name, machine), "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
        self.api.put(SLICES, objects.local_slice(node=name))

    def remove_node(self, name: str) -> None:
        """Its Node object is gone."""
        self.api.remove(NODES, name)
        self.api.remove(SLICES, f"slice-{name}")

    def pod(self, name: str, count: int = 1, cpu: str = "1", **spec: t.Any) -> None:
        """A pod that the scheduler has tried in vain."""
        resources = {"requests": {"cpu": cpu, **({GPU: str(count)} if count else {})}}
        raw = objects.pod(name, conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                             "message": "0/2 nodes are available"}])
        raw["spec"] = {"containers": [{"name": "c", "resources": resources}], "schedulerName": "default-scheduler",
                       **spec}
        self.api.put(PODS, raw)

    def end(self, name: str) -> None:
        """The pod is gone, and its claim."""
        self.api.remove(PODS, name, "default")
        if any(raw["metadata"]["name"] == f"{name}-gpu" for raw in self.api.of(CLAIMS)):
            self.api.remove(CLAIMS, f"{name}-gpu", "default")

    def bound(self, name: str) -> str:
        """The pod's node, empty for none."""
        return str(self.api.one(PODS, name, "default")["spec"].get("nodeName") or "")

    def sync(self) -> None:
        """Both have seen what the API server has, and how the fabric is."""
        for state in (self.bench.state, self.cluster.state):
            self.api._version += 1
            for kind, store in state.stores.items():
                store.replace_all(self.api.of(kind), str(self.api._version))
            state.snapshot = self.fabric.snapshot([A100])

    def tick(self, rounds: int = 2) -> None:
        """The engine works, the nodes show their devices, the scheduler tries, the provider looks."""
        for _unused in range(rounds):
            self.sync()
            self.bench.run(1)
            self.announce()
            self.sync()
            self.bench.run(1)
            self.sync()
            self.step()
            self.schedule()
        self.sync()
        self.step()

    def announce(self) -> None:
        """Each node's slice shows what is attached to it and not let go; a node without devices keeps an empty pool."""
        gone = {e.uuid for raw in self.api.of(COMPOSABLE_RESOURCES)
                if (e := Evidence.parse(cohdi.annotation(raw, cohdi.NODE))) and e.phase == REMOVED}
        for node in self.api.of(NODES):
            name = node["metadata"]["name"]
            machine = name.replace("node", "machine")
            serials = [str(d.serial) for d in self.fabric.devices() if d.machine == machine and d.serial not in gone]
            shown = objects.local_slice(*serials, node=name)
            for device in shown["spec"]["devices"]:
                device["name"] = device["attributes"]["uuid"]["string"].lower()
                device["attributes"]["productName"] = {"string": f"NVIDIA {A100}"}
            self.api.put(SLICES, shown)

    def schedule(self) -> None:
        """Bind each pod that waits to the first node with room and enough idle devices."""
        for pod in sorted(self.api.of(PODS), key=lambda raw: str(raw["metadata"]["name"])):
            if not pod["spec"].get("nodeName"):
                node = next((n for n in self.api.of(NODES) if self._fits(pod, n)), None)
                if node:
                    self._bind(pod, node["metadata"]["name"])

    def _fits(self, pod: Json, node: Json) -> bool:
        spec, name = node["spec"], node["metadata"]["name"]
        hard = [taint for taint in spec.get("taints") or [] if taint["effect"] != "PreferNoSchedule"]
        selector = pod["spec"].get("nodeSelector") or {}
        room = amount("cpu", node["status"]["allocatable"]["cpu"]) - sum(
            _cpu(other) for other in self.api.of(PODS) if other["spec"].get("nodeName") == name)
        return (not spec.get("unschedulable") and not hard and _cpu(pod) <= room
                and selector.items() <= (node["metadata"].get("labels") or {}).items()
                and len(self.idle(name)) >= gpus(pod))

    def idle(self, node: str) -> list[str]:
        """Devices in a node's slice that no claim has."""
        shown = [d["name"] for raw in self.api.of(SLICES) if raw["spec"].get("nodeName") == node
                 for d in raw["spec"]["devices"] if not d.get("taints")]
        used = {r["device"] for raw in self.api.of(CLAIMS)
                for r in (raw["status"].get("allocation") or {"devices": {"results": []}})["devices"]["results"]}
        return [name for name in shown if name not in used]

    def _bind(self, pod: Json, node: str) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        taken = self.idle(node)[:gpus(pod)]
        if taken:
            claim = objects.claim(f"{name}-gpu", *[objects.local_result(d, node) for d in taken], node=node, pods=())
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": uid}]
            claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
            claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": name, "uid": uid, "controller": True}]
            self.api.put(CLAIMS, claim)
            pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": f"{name}-gpu"}
        pod["status"] |= {"conditions": [], "phase": "Running"}
        self.api.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})

    def devices_of(self, node: str) -> list[str]:
        """Devices of the fabric that are attached to a node."""
        machine = node.replace("node", "machine")
        return [device.uid for device in self.fabric.devices() if device.machine == machine]

    def pods_on(self, node: str) -> list[str]:
        """Pods that are bound to a node."""
        return [raw["metadata"]["name"] for raw in self.api.of(PODS) if raw["spec"].get("nodeName") == node]

    def told(self, name: str, reason: str, stamp: str) -> None:
        """An event about a pod."""
        self.number += 1
        self.api.put(EVENTS, {"apiVersion": "v1", "kind": "Event", "reason": reason, "lastTimestamp": stamp,
                              "metadata": objects.meta(f"e{self.number}", "default"),
                              "involvedObject": {"kind": "Pod", "name": name, "uid": f"pod-{name}"}})

    def close(self) -> None:
        """End all threads."""
        self.bench.close()
        self.cluster.engine.stop()


PRODUCT = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'


def gpus(pod: Json) -> int:
    """Devices that a pod asks for."""
    return sum(int(c["resources"]["requests"].get(GPU, 0)) for c in pod["spec"]["containers"])


def _cpu(pod: Json) -> int:
    return sum(amount("cpu", c["resources"]["requests"].get("cpu", "0")) for c in pod["spec"]["containers"])


class WorldView:
    """The testbed as Cluster Autoscaler's stand-in sees it."""

    def __init__(self, testbed: Testbed) -> None:
        self._world = testbed

    def nodes(self) -> list[Json]:
        """All nodes."""
        return self._world.api.of(NODES)

    def pods(self) -> list[Json]:
        """All pods."""
        return self._world.api.of(PODS)

    def slices(self) -> list[Json]:
        """All ResourceSlices."""
        return self._world.api.of(SLICES)

    def claims(self) -> list[Json]:
        """All ResourceClaims."""
        return self._world.api.of(CLAIMS)

    def patch_node(self, name: str, body: Json) -> None:
        """Merge-patch a node."""
        self._world.api.client.merge_patch(NODES, name, body)
        self._world.sync()

    def evict(self, namespace: str, name: str) -> None:
        """The pod is gone."""
        assert namespace == "default"
        self._world.end(name)
