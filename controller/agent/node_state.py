# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's view of the cluster.

It watches ComposableResources, ResourceSlices, pods and its Node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import nodes, pods, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claims import DeviceKey
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import TARGET_NODE, node_label
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.device_users import (
    DeviceName,
    by_address,
    whole,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.parts import picked
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import OnChange, Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DRIVER_LABEL

from .lane import Duty, Lane
from .node_operations import Plugin

_META = ("name", "namespace", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
_STATUS = ("phase", "conditions", "startTime", "containerStatuses", "resourceClaimStatuses",
           "extendedResourceClaimStatus")


class OwnPlugin:
    """The agent's own kubelet plugin, as the agent calls it. This one is of an agent without one."""

    def poke(self) -> None:
        """Look now, because the node, or its evidence, has changed."""

    def withdraw(self) -> None:
        """Return when no slice shows a device that has left the bus. Only then this is noted."""

    def holder(self, uuid: str, address: str) -> str:
        """Return in a sentence which claim has the device prepared on this node, empty for none."""
        return ""


class NodeState:
    """The watched objects of a node. Thread-safe.

    Each change is queued in ``lane``. ``namespaces``: where pods of a vendor's plugin may be.
    ``own_plugin`` may be set before the start. ``gone``: UIDs of ComposableResources that are gone,
    until they are forgotten.
    """

    def __init__(self, client: Client, node: str, namespaces: Iterable[str], lane: Lane) -> None:
        self.node, self._namespaces, self._lane = node, frozenset(namespaces), lane
        self.resources, self.slices = Store({}), Store({})
        self.pods = Store({}, trim=trimmed_pod)
        self.own_plugin = OwnPlugin()
        self.gone: deque[str] = deque()
        field = f"spec.nodeName={node}"
        self.reflectors = [
            Reflector(client, COMPOSABLE_RESOURCES, self.resources, self._resource_changed,
                      label_selector=f"{TARGET_NODE}={node_label(node)}"),
            Reflector(client, SLICES, self.slices, self.changed, field_selector=field),
            Reflector(client, PODS, self.pods, self.changed, field_selector=field)]

    def changed(self, _kind: str, _obj: Json, _old: Json | None) -> None:
        """Queue the work after a change of an object that is no ComposableResource."""
        self._lane.add(Duty.PLUGIN)
        self.own_plugin.poke()

    def _resource_changed(self, kind: str, obj: Json, _old: Json | None) -> None:
        if kind == "DELETED":
            self.gone.append(str(obj["metadata"].get("uid")))
        self._lane.add(obj["metadata"]["name"])
        self._lane.add(Duty.PLUGIN)

    def mine(self) -> list[Json]:
        """Return the ComposableResources of this node.

        A shortened label may be that of another node too.
        """
        return [raw for raw in self.resources.list() if (raw.get("spec") or {}).get("target_node") == self.node]

    def announced(self) -> dict[str, DeviceKey]:
        """Return (driver, pool, device) by the UUIDs of all devices in the node's slices."""
        return {uuid: key for item in self.slices.list() for uuid, key in slices.uuids(item)}

    def sick(self, driver: str) -> list[tuple[str, str, str]]:
        """Return name, UUID and taint of each device of the node that the driver keeps from new
        claims.
        """
        return [(device["name"], slices.attribute(device, "uuid") or "", taint) for item in self.slices.list()
                if slices.driver(item) == driver for device, taint in slices.sick(item)]

    def shown(self) -> dict[str, DeviceKey]:
        """Return the same as ``announced``, and whole devices without a UUID by their PCI
        addresses.
        """
        named = {address: (slices.driver(item), slices.pool(item), device["name"]) for item in self.slices.list()
                 for device in slices.devices(item) if (address := by_address(device))}
        return named | self.announced()

    def shows(self, evidence: Evidence) -> bool:
        """Return whether the node's slices show a whole device, by its UUID, or by its address if
        it has none.
        """
        name = DeviceName(evidence.uuid, evidence.address)
        return bool(evidence.uuid or evidence.address) and whole(self.slices.list(), name) is not None

    def plugin_pods(self, plugin: Plugin) -> list[Json]:
        """Return the plugin's pods on this node."""
        return [pod for pod in self.pods.list() if pod["metadata"].get("namespace") in self._namespaces
                and plugin.owns(pod["metadata"].get("labels") or {})]

    def claim_names(self) -> set[tuple[str, str]]:
        """Return namespace and name of the claims of all pods that have not ended."""
        return {(pod["metadata"]["namespace"], name) for pod in self.pods.list() if not pods.ended(pod)
                for name in pods.claim_names(pod).values() if name}

    def preparing(self) -> list[Json]:
        """Return the pods with claims that have not started.

        The kubelet may be preparing their claims.
        """
        return [pod for pod in self.pods.list() if pods.claim_names(pod) and not pods.ended(pod) and _unstarted(pod)]


class NodeDriver:
    """The driver that offers the node's devices. Thread-safe.

    ``name``: of the agent's own driver, empty for none. ``by_label``: it offers the devices only if
    the node's label names it. Before the Node was read, it does not.
    """

    def __init__(self, node: str, name: str = "", *, by_label: bool = False) -> None:
        self._node, self._name, self._by_label = node, name, by_label
        self.store = Store({}, trim=nodes.trimmed)

    def reflectors(self, client: Client, on_change: OnChange) -> list[Reflector]:
        """Return the reflectors that this needs."""
        if not self._by_label:
            return []
        return [Reflector(client, NODES, self.store, on_change, field_selector=f"metadata.name={self._node}")]

    def is_own(self) -> bool:
        """Return whether the agent's own driver offers the node's devices."""
        return bool(self._name) and not self.other()

    def other(self) -> str:
        """Return the driver that offers the node's devices instead of the agent's own, in words.

        Empty if the own driver offers them.
        """
        if not self._by_label:
            return ""
        raw = self.store.get(self._node)
        said = str(((raw or {}).get("metadata") or {}).get("labels", {}).get(DRIVER_LABEL) or "")
        return "" if said == self._name else said or f"of a node without the label {DRIVER_LABEL}"


def trimmed_pod(pod: Json) -> Json:
    """Return a new object with the fields of ``pod`` that the agent needs."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    folders = [volume for volume in spec.get("volumes") or () if volume.get("hostPath")]
    contexts = {kind: [picked(each, ("name", "securityContext")) for each in spec[kind]]
                for kind in ("initContainers", "containers") if spec.get(kind)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {k: meta[k] for k in _META if k in meta},
            "spec": {**picked(spec, ("nodeName", "resourceClaims")), **contexts,
                     "volumes": folders},
            "status": {k: status[k] for k in _STATUS if k in status}}


def _unstarted(pod: Json) -> bool:
    """Return whether the pod has no sandbox yet.

    The kubelet prepares claims before it makes the sandbox.
    """
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(c.get("type") == "PodReadyToStartContainers" and c.get("status") == "True" for c in conditions)
    return pods.phase(pod) in ("", "Pending") and not ready and not started_at(pod)


def started_at(pod: Json) -> float:
    """Return when the first of the pod's running containers began, in seconds since the epoch.

    0.0 if none runs.
    """
    containers = (pod.get("status") or {}).get("containerStatuses") or []
    states = ((c.get("state") or {}).get("running") or {} for c in containers)
    return min((parse_time(s.get("startedAt")) for s in states if s.get("startedAt")), default=0.0)
