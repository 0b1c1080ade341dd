# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent sees of the cluster: ComposableResources, slices, pods and its Node, each by a watch of its own."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable

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
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DRIVER_LABEL

from .hands import Plugin

Json = dict[str, t.Any]
_META = ("name", "namespace", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
_STATUS = ("phase", "conditions", "startTime", "containerStatuses", "resourceClaimStatuses",
           "extendedResourceClaimStatus")


class NodeState:
    """Thread-safe. ``on_resource(name, gone)`` and ``on_other()`` are called after each change.

    ``namespaces``: where pods of a vendor's plugin may be.
    """

    def __init__(self, client: Client, node: str, namespaces: Iterable[str],
                 on_resource: Callable[[Json, bool], None], on_other: Callable[[], None]) -> None:
        self.node, self._namespaces = node, frozenset(namespaces)
        self.resources, self.slices = Store({}), Store({})
        self.pods = Store({}, trim=trimmed_pod)

        def resource_changed(kind: str, obj: Json, _old: Json | None) -> None:
            on_resource(obj, kind == "DELETED")

        def other_changed(_kind: str, _obj: Json, _old: Json | None) -> None:
            on_other()

        field = f"spec.nodeName={node}"
        self.reflectors = [
            Reflector(client, COMPOSABLE_RESOURCES, self.resources, resource_changed,
                      label_selector=f"{TARGET_NODE}={node_label(node)}"),
            Reflector(client, SLICES, self.slices, other_changed, field_selector=field),
            Reflector(client, PODS, self.pods, other_changed, field_selector=field)]

    def mine(self) -> list[Json]:
        """The ComposableResources of this node; a label that is cut may be that of another node too."""
        return [raw for raw in self.resources.list() if (raw.get("spec") or {}).get("target_node") == self.node]

    def announced(self) -> dict[str, DeviceKey]:
        """(driver, pool, device) by the UUIDs of all devices in the node's slices."""
        return {uuid: key for item in self.slices.list() for uuid, key in slices.uuids(item)}

    def sick(self, driver: str) -> list[tuple[str, str, str]]:
        """Return name, UUID and taint of each device of the node that the driver keeps from new claims."""
        return [(device["name"], slices.attribute(device, "uuid") or "", taint) for item in self.slices.list()
                if slices.driver(item) == driver for device, taint in slices.sick(item)]

    def shown(self) -> dict[str, DeviceKey]:
        """The same, with whole devices that have no UUID by their PCI addresses."""
        named = {address: (slices.driver(item), slices.pool(item), device["name"]) for item in self.slices.list()
                 for device in slices.devices(item) if (address := by_address(device))}
        return named | self.announced()

    def shows(self, evidence: Evidence) -> bool:
        """Whether the node's slices show a whole device: by its UUID, or one that has none by its address."""
        name = DeviceName(evidence.uuid, evidence.address)
        return bool(evidence.uuid or evidence.address) and whole(self.slices.list(), name) is not None

    def plugin_pods(self, plugin: Plugin) -> list[Json]:
        """The plugin's pods on this node."""
        return [pod for pod in self.pods.list() if pod["metadata"].get("namespace") in self._namespaces
                and plugin.owns(pod["metadata"].get("labels") or {})]

    def claim_names(self) -> set[tuple[str, str]]:
        """Namespace and name of the claims of all pods that have not ended."""
        return {(pod["metadata"]["namespace"], name) for pod in self.pods.list() if not pods.ended(pod)
                for name in pods.claim_names(pod).values() if name}

    def preparing(self) -> list[Json]:
        """Pods with claims that the kubelet has not started yet: it may be preparing their claims."""
        return [pod for pod in self.pods.list() if pods.claim_names(pod) and not pods.ended(pod) and _unstarted(pod)]


class NodeDriver:
    """``name``: of the own driver, empty for none. ``by_label``: it has the devices only where the label names it.

    Thread-safe. Until the node was read, its devices are not the own driver's.
    """

    def __init__(self, node: str, name: str = "", *, by_label: bool = False) -> None:
        self._node, self._name, self._by_label = node, name, by_label
        self.store = Store({}, trim=nodes.trimmed)

    def reflectors(self, client: Client, on_change: Callable[[], None]) -> list[Reflector]:
        """What has to be watched for it."""
        if not self._by_label:
            return []

        def changed(_kind: str, _obj: Json, _old: Json | None) -> None:
            on_change()

        return [Reflector(client, NODES, self.store, changed, field_selector=f"metadata.name={self._node}")]

    def is_own(self) -> bool:
        """Whether the own driver has the devices of the node."""
        return bool(self._name) and not self.other()

    def other(self) -> str:
        """Whose the devices are where they are not the own driver's, in words; empty where they are."""
        if not self._by_label:
            return ""
        raw = self.store.get(self._node)
        said = str(((raw or {}).get("metadata") or {}).get("labels", {}).get(DRIVER_LABEL) or "")
        return "" if said == self._name else said or f"of a node without the label {DRIVER_LABEL}"


def trimmed_pod(pod: Json) -> Json:
    """What is kept of a pod. A new object; ``pod`` is left as it is."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    folders = [volume for volume in spec.get("volumes") or () if volume.get("hostPath")]
    contexts = {kind: [picked(each, ("name", "securityContext")) for each in spec[kind]]
                for kind in ("initContainers", "containers") if spec.get(kind)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {k: meta[k] for k in _META if k in meta},
            "spec": {**picked(spec, ("nodeName", "resourceClaims")), **contexts,
                     "volumes": folders},
            "status": {k: status[k] for k in _STATUS if k in status}}


def _unstarted(pod: Json) -> bool:
    """Whether the pod has no sandbox yet; the kubelet prepares claims before it makes one."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(c.get("type") == "PodReadyToStartContainers" and c.get("status") == "True" for c in conditions)
    return pods.phase(pod) in ("", "Pending") and not ready and not started_at(pod)


def started_at(pod: Json) -> float:
    """When the first of the pod's containers that run began to; seconds since the epoch, 0.0 when none runs."""
    containers = (pod.get("status") or {}).get("containerStatuses") or []
    states = ((c.get("state") or {}).get("running") or {} for c in containers)
    return min((parse_time(s.get("startedAt")) for s in states if s.get("startedAt")), default=0.0)
