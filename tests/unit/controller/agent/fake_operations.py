# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in memory in the place of the code that acts on one, and a vendor's plugin that looks when it starts."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.controller.agent.agent import AgentOptions, NodeAgent
from ansible_collections.composable.infra.controller.agent.device_work import Patience
from ansible_collections.composable.infra.controller.agent.metrics import AgentMetrics
from ansible_collections.composable.infra.controller.agent.node_operations import (
    KernelReport,
    Note,
    NotThereYet,
    Plugin,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import CLAIM
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import (
    ATTACH,
    NODE,
    POOL_DEVICE,
    RELEASE,
    TARGET_NODE,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    BOUND,
    CLAIM_IN_USE,
    DRAINED,
    IDLE,
    NOT_PROVEN,
    ON_BUS,
    OPEN_ON_NODE,
    PREPARING,
    READY,
    RELEASING,
    REMOVED,
    REMOVED_FROM_BUS,
    TOUCHED,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.release import NotRestarted, VendorPlugin
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted
from ansible_collections.composable.infra.plugins.module_utils.runtime.tracing import Tracer
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call, FakeApi

Json = dict[str, t.Any]
NODE_NAME = "node-0"
PLUGIN = Plugin("gpu.nvidia.com", ({"dra-driver-nvidia-gpu-component": "kubelet-plugin"},))
NAMESPACE = "dra-driver-nvidia-gpu"
PATIENCE = 60.0


@dataclass
class FakeOperations:
    """``bus``: UUID of each device by its uid at the CDI Manager; ``hidden`` shows after a look for devices.

    ``dead``: it shows a dead device; one that ``stays_dead`` belongs to a ComposableResource.
    ``troubles``: what the next calls for a device raise. ``gates``: events that a call for a device waits for.
    ``own``: the agent's own driver offers the devices, beside the vendor's plugin. ``used``: UUIDs of the devices that
    were used since the boot. ``held_by_plugin``: the vendor's plugin has each device open until it is restarted.
    """

    bus: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, list[NodeTrouble]] = field(default_factory=dict)
    gates: dict[str, threading.Event] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    reports: list[KernelReport] = field(default_factory=list)
    told_feature_discovery: int = 0
    blind: bool = False
    dead: bool = False
    stays_dead: bool = False
    own: bool = False
    shared: dict[str, str | int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    held_by_plugin: bool = False
    # A plugin that begins now does not show these.
    draining: set[str] = field(default_factory=set)

    def places(self) -> dict[str, str | int]:
        return self.shared

    def bring_up(self, wanted: Wanted, note: Note) -> Evidence:
        if wanted.device not in self.bus:
            raise NotThereYet
        self._called("bring_up", wanted.device)
        address = f"0000:{16 + sorted(self.bus).index(wanted.device):02x}:00.0"
        before = wanted.before or Evidence(PREPARING, wanted.device)
        evidence = replace(before, address=address, uuid=self.bus[wanted.device]).without_trouble()
        if evidence.has(TOUCHED) and not self.was_used(evidence):
            evidence = replace(evidence, phase=PREPARING, steps=())
        for step in (ON_BUS, BOUND, TOUCHED):
            if step == TOUCHED:
                self.used.add(evidence.uuid)
            note(evidence := evidence.with_step(step, time.time()))
        return evidence

    def release(self, before: Evidence, known: frozenset[str], note: Note, still_free: Callable[[], str],
                plugin: VendorPlugin | None = None) -> Evidence:
        if before.device not in self.bus:
            return replace(before.with_phase(REMOVED), trouble=None)
        if not before.address:
            raise NodeTrouble(NOT_PROVEN, "which device of the node it is cannot be told")
        note(evidence := before.with_phase(RELEASING).with_step(IDLE, time.time()))
        self._called("release", before.device)
        note(evidence := evidence.with_step(DRAINED, time.time()))
        if reason := still_free():
            note(before.with_phase(READY))
            raise NodeTrouble(CLAIM_IN_USE, reason)
        if self.held_by_plugin and plugin:
            self.draining.add(before.uuid)
            try:
                plugin.restart()
            except NotRestarted as why:
                self.draining.remove(before.uuid)
                note(before.with_phase(READY))
                raise NodeTrouble(OPEN_ON_NODE, str(why)) from why
        self.used.discard(self.bus.pop(before.device))
        return replace(evidence.with_phase(REMOVED), trouble=None).with_step(REMOVED_FROM_BUS, time.time())

    def take_back(self, before: Evidence, note: Note) -> Evidence:
        self._called("take_back", before.device)
        return before.with_phase(READY).without_trouble()

    def _called(self, what: str, device: str) -> None:
        self.calls.append((what, device))
        if device in self.gates:
            self.gates[device].wait(PATIENCE)
        if self.troubles.get(device):
            raise self.troubles[device].pop(0)

    def look_for_devices(self) -> None:
        self.calls.append(("look_for_devices", ""))
        self.bus |= self.hidden

    def not_found(self) -> str:
        return "the ports were looked at again"

    def on_bus(self, evidence: Evidence) -> bool:
        return evidence.device in self.bus

    def was_used(self, evidence: Evidence) -> bool:
        return self.bus.get(evidence.device) in self.used

    def dead_device(self) -> bool:
        return self.dead

    def clear_dead(self, known: frozenset[str]) -> list[NodeTrouble]:
        self.calls.append(("clear_dead", ", ".join(sorted(known))))
        self.dead = self.stays_dead
        return []

    def plugin(self, evidence: Evidence) -> Plugin | None:
        return None if self.own else PLUGIN

    def is_own(self, evidence: Evidence) -> bool:
        return self.own

    def plugins(self) -> tuple[Plugin, ...]:
        return (PLUGIN,)

    def uuids(self) -> frozenset[str] | None:
        return None if self.blind else frozenset(self.bus.values())

    def kernel_reports(self) -> list[KernelReport]:
        told, self.reports = self.reports, []
        return told

    def tell_feature_discovery(self) -> None:
        self.told_feature_discovery += 1


def resource(name: str, device: str = "", uuid: str = "", **more: t.Any) -> Json:
    """A ComposableResource of the node, attached when it has a ``device``; ``more``: deleted, release, node, claim,
    pool_device."""
    meta: Json = {"name": name, "uid": f"uid-{name}", "labels": {TARGET_NODE: NODE_NAME}, "finalizers": ["f"],
                  "annotations": {ATTACH: "{}", **({RELEASE: more["release"]} if more.get("release") else {}),
                                  **({CLAIM: more["claim"]} if more.get("claim") else {}),
                                  **({POOL_DEVICE: more["pool_device"]} if more.get("pool_device") else {}),
                                  **({NODE: more["node"]} if more.get("node") else {})}}
    if more.get("deleted"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"cdi_device_id": device, "device_id": uuid} if device else {}
    return {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": meta,
            "spec": {"type": "gpu", "model": "A100", "target_node": NODE_NAME}, "status": status}


def pod(name: str, labels: Json | None = None, **status: t.Any) -> Json:
    """A pod of the node, of the plugin unless ``labels`` say otherwise."""
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}",
                         "labels": PLUGIN.selectors[0] if labels is None else labels},
            "spec": {"nodeName": NODE_NAME}, "status": {"phase": "Running", **status}}


class Node:
    """An agent on a made-up API server and node, with the vendor's plugin and its DaemonSet played."""

    def __init__(self, **options: t.Any) -> None:
        self.api, self.operations, self.metrics = FakeApi(), FakeOperations(), AgentMetrics()
        # The plugin and its DaemonSet use this. It goes on when ``api`` and ``operations`` end with the agent.
        self.cluster, self.hardware = self.api, self.operations
        self.options = AgentOptions(NODE_NAME, patience=options.pop("patience", Patience(0.05, 5.0)), **options)
        self.plugin_pods = 0  # that have begun, and announced what they saw
        self.tracer: Tracer | None = None
        self.recorder: Recorder | None = None
        self.plays = True
        # UUIDs that the plugin shows and could give to no container: nobody had used these devices when it looked.
        self.empty: set[str] = set()
        # Taints by UUID, as the plugin's health check gives them; a restart forgets them.
        self.sick: dict[str, str] = {}
        self._dead: list[str] = []
        self.api.before = self._called
        self.agent: NodeAgent | None = None
        self.start_plugin()

    def boot(self) -> NodeAgent:
        """Start an agent, as after a crash of the one before."""
        self.agent = NodeAgent(self.api.client, self.operations, self.options, self.metrics, self.recorder,
                               tracer=self.tracer)
        self.agent.start()
        return self.agent

    def stop(self) -> None:
        """Stop the agent."""
        if self.agent:
            self.agent.stop()
        self.agent = None

    def start_plugin(self, began: float = 0.0) -> None:
        """A pod of the plugin starts, looks at the devices, and announces them. A kubelet writes whole seconds.

        ``began``: when the pod's status says that its container began, seconds since the epoch; 0.0 for now.
        """
        for old in self.cluster.of(PODS):
            if old["metadata"]["labels"] == PLUGIN.selectors[0]:
                self.cluster.remove(PODS, old["metadata"]["name"], NAMESPACE)
        number = self.plugin_pods + 1
        running = {"startedAt": format_time(began or time.time())}
        self.cluster.put(PODS, pod(f"plugin-{number}", containerStatuses=[{"state": {"running": running}}]))
        self.empty = set(self.hardware.bus.values()) - self.hardware.used
        self.sick.clear()
        self.publish()
        self.plugin_pods = number

    def publish(self) -> None:
        """The plugin writes its slice: all devices of the bus."""
        devices = [{"name": f"gpu-{n}", "attributes": {"uuid": {"string": uuid}},
                    **({"taints": [{"key": self.sick[uuid], "value": "48", "effect": "NoSchedule"}]}
                       if uuid in self.sick else {})}
                   for n, uuid in enumerate(self.hardware.bus.values()) if uuid not in self.hardware.draining]
        self.cluster.put(SLICES, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                                  "metadata": {"name": "slice-0", "uid": "slice-0"},
                                  "spec": {"driver": "gpu.nvidia.com", "nodeName": NODE_NAME, "devices": devices,
                                           "pool": {"name": NODE_NAME}}})

    def _called(self, call: Call) -> None:
        if (call.verb, call.plural) == ("delete", "pods") and self.plays:
            threading.Timer(0.05, self.start_plugin).start()

    def evidence(self, name: str) -> Evidence | None:
        """What the API server has."""
        notes = self.api.one(COMPOSABLE_RESOURCES, name)["metadata"]["annotations"]
        return Evidence.parse(notes.get(NODE, ""))

    def steps(self, name: str) -> list[str]:
        """The steps that the API server has."""
        found = self.evidence(name)
        return [s.step for s in found.steps] if found else []

    def phase(self, name: str) -> str:
        """The phase that the API server has."""
        found = self.evidence(name)
        return found.phase if found else ""

    def trouble(self, name: str) -> str:
        """The reason of the trouble that the API server has."""
        found = self.evidence(name)
        return found.trouble.reason if found and found.trouble else ""

    def change(self, kind: ApiResource, name: str, patch: Json) -> None:
        """Somebody else changes an object."""
        from_others = self.api.one(kind, name)
        self.api.put(kind, merged(from_others, patch))

    def deleted_pods(self) -> list[str]:
        """Pods that were deleted."""
        return [call.name for call in self.api.calls if (call.verb, call.plural) == ("delete", "pods")]


def merged(old: Json, patch: Json) -> Json:
    """``old`` with ``patch`` on it; None removes."""
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key) or {}, value) if isinstance(value, dict) else value
    return new


def until(what: str, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about within {seconds:g} s"
        time.sleep(0.01)


@contextmanager
def running(**options: t.Any) -> Iterator[Node]:
    """A node, its agent stopped at the end; start it by ``boot``."""
    node = Node(**options)
    try:
        yield node
    finally:
        node.stop()
