# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for composable-resource-operator (CRO) with FM and DEVICE_RESOURCE_TYPE=DRA.

Shortened: ``tick`` stands for its requeues after 30 s, 3 s where it waits for a device to disappear, and
``plugin_rest`` for the 10 s that a plugin's pod is left alone. Left out: the syncer of unknown devices (10 min), the
webhook, requests without a node, the health check, and the load check by nvidia-smi, which the lab's does not know.
"""

from __future__ import annotations

import uuid

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slices
from ansible_collections.composable.infra.tests.e2e.support.upstream.driver_pod import DriverPod
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import (
    Json,
    Part,
    PassFailed,
    annotated,
    machine_of,
)

FINALIZER = "com.ie.ibm.hpsys/finalizer"
MANAGED_BY = "app.kubernetes.io/managed-by"
TAINTS = ApiResource("resource.k8s.io/v1alpha3", "devicetaintrules", "DeviceTaintRule", False)
STATUS_OF_A_CHILD = ("state", "device_id", "cdi_device_id", "error")


class Operator(Part):
    """One worker: each manager call and each command on a node is waited for before the next object is looked at."""

    watched = (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES)

    def __init__(self, stage: Stage, tick: float = 30.0, plugin_rest: float = 10.0) -> None:
        super().__init__(stage, tick)
        self.pods = {node: DriverPod(stage.lab, node, plugin_rest) for node in stage.lab.nodes}
        self._planned: dict[str, int] = {}

    def look(self) -> None:
        for request in self.client.list(COMPOSABILITY_REQUESTS).items:
            self._request(request)
        for resource in self.client.list(COMPOSABLE_RESOURCES).items:
            self._resource(resource)

    def _request(self, request: Json) -> None:
        name, status = request["metadata"]["name"], dict(request.get("status") or {})
        children = [r for r in self.client.list(COMPOSABLE_RESOURCES).items
                    if (r["metadata"].get("labels") or {}).get(MANAGED_BY) == name]
        if "deletionTimestamp" in request["metadata"]:
            self._clean(request, children)
            return
        if status.get("scalarResource") != request["spec"]["resource"]:
            self._keep_finalizer(COMPOSABILITY_REQUESTS, request)
            status = {"scalarResource": request["spec"]["resource"], "state": "NodeAllocating"}
        self._plan(request, children)
        staying = [c for c in children if "deletionTimestamp" not in c["metadata"]]
        online = [c for c in staying if state(c) == "Online"]
        done = len(online) == len(staying) == request["spec"]["resource"]["size"]
        status["state"] = "Running" if done else "Updating"
        status["resources"] = {c["metadata"]["name"]: self._child(c) for c in children}
        self._put_status(COMPOSABILITY_REQUESTS, name, status)

    def _plan(self, request: Json, children: list[Json]) -> None:
        """Surplus goes in upstream's order, what lacks is created under a new name."""
        wanted, name = request["spec"]["resource"], request["metadata"]["name"]
        kept = [c for c in children if state(c) not in ("Detaching", "Deleting")
                and "deletionTimestamp" not in c["metadata"] and c["spec"]["model"] == wanted["model"]]
        for resource in sorted(kept, key=leaves)[:max(0, len(kept) - wanted["size"])]:
            self.client.delete(COMPOSABLE_RESOURCES, resource["metadata"]["name"])
        for _number in range(wanted["size"] - len(kept)):
            spec = {key: wanted[key] for key in ("type", "model", "target_node")}
            self.client.create(COMPOSABLE_RESOURCES, {
                "apiVersion": COMPOSABLE_RESOURCES.group_version, "kind": COMPOSABLE_RESOURCES.kind, "spec": spec,
                "metadata": {"name": f"gpu-{uuid.uuid4()}", "labels": {MANAGED_BY: name}, "finalizers": [FINALIZER]}})

    def _clean(self, request: Json, children: list[Json]) -> None:
        for child in children:
            self.client.delete(COMPOSABLE_RESOURCES, child["metadata"]["name"])
        if not children:
            self._drop_finalizer(COMPOSABILITY_REQUESTS, request)

    @staticmethod
    def _child(resource: Json) -> Json:
        status = resource.get("status") or {}
        return {"node_name": resource["spec"]["target_node"], "state": state(resource),
                **{key: str(status[key]) for key in STATUS_OF_A_CHILD if key in status}}

    def _resource(self, resource: Json) -> None:
        """One step of a resource; a trouble becomes its ``status.error``, with all that the manager said."""
        steps = {"": self._attach, "Attaching": self._attach, "Online": self._online, "Detaching": self._detach,
                 "Deleting": self._delete}
        status = {key: value for key, value in (resource.get("status") or {}).items() if key in STATUS_OF_A_CHILD}
        status["error"] = ""
        try:
            steps[state(resource)](resource, status)
        except PassFailed as trouble:  # what the step had written down by then stays: a device is attached once
            self._put_status(COMPOSABLE_RESOURCES, resource["metadata"]["name"],
                             {"state": "Attaching", **status, "error": str(trouble)})

    def _attach(self, resource: Json, status: Json) -> None:
        """No intent is written down before the manager is asked, and FM's attach takes no token (fm/client.go:147)."""
        meta, spec = resource["metadata"], resource["spec"]
        if "deletionTimestamp" in meta and not status.get("device_id"):
            self._put_status(COMPOSABLE_RESOURCES, meta["name"], {**status, "state": "Deleting"})
            return
        status["state"] = "Attaching"
        if not status.get("cdi_device_id"):
            found = self.manager.attach(self._machine(spec["target_node"]), spec["model"]).devices[0]
            status |= {"device_id": str(found.serial), "cdi_device_id": found.uid}
            self._put_status(COMPOSABLE_RESOURCES, meta["name"], status)
        self.pods[spec["target_node"]].announce()
        if self._visible(status["device_id"]):
            self._put_status(COMPOSABLE_RESOURCES, meta["name"], {**status, "state": "Online"})

    def _online(self, resource: Json, status: Json) -> None:
        if "deletionTimestamp" in resource["metadata"]:
            self._put_status(COMPOSABLE_RESOURCES, resource["metadata"]["name"], {**status, "state": "Detaching"})

    def _detach(self, resource: Json, status: Json) -> None:
        """The load check asks the node and not the claims; the taint follows it (crc.go:347)."""
        name, node, device = resource["metadata"]["name"], resource["spec"]["target_node"], status.get("device_id", "")
        pod = self.pods[node]
        if pod.in_use(device):
            raise PassFailed(f"{device} is in use on node {node}")
        self._taint(name, device)
        pod.drain(device)
        self.manager.detach(self._machine(node), status["cdi_device_id"])
        pod.announce()
        if not self._visible(device):
            self._untaint(name)
            self._put_status(COMPOSABLE_RESOURCES, name, {"state": "Deleting", "error": ""})

    def _delete(self, resource: Json, _status: Json) -> None:
        if "deletionTimestamp" in resource["metadata"]:
            self._drop_finalizer(COMPOSABLE_RESOURCES, resource)
        else:
            self.client.delete(COMPOSABLE_RESOURCES, resource["metadata"]["name"])

    def _taint(self, name: str, device: str) -> None:
        key = self._announced().get(device)
        if key and not any(rule["metadata"]["name"] == f"{name}-taint" for rule in self.client.list(TAINTS).items):
            taint = {"key": "k8s.io/device-uuid", "value": device, "effect": "NoSchedule"}
            selector = dict(zip(("driver", "pool", "device"), key, strict=True))
            self.client.create(TAINTS, {"apiVersion": TAINTS.group_version, "kind": TAINTS.kind,
                                        "metadata": {"name": f"{name}-taint"},
                                        "spec": {"deviceSelector": selector, "taint": taint}})

    def _untaint(self, name: str) -> None:
        try:
            self.client.delete(TAINTS, f"{name}-taint")
        except NotFound:
            return

    def _machine(self, node: str) -> str:
        return machine_of(self.client.get(NODES, node))

    def _announced(self) -> dict[str, tuple[str, str, str]]:
        return {found: key for item in self.client.list(SLICES).items if slices.node(item)
                for found, key in slices.uuids(item)}

    def _visible(self, device: str) -> bool:
        return device in self._announced()

    def _put_status(self, kind: ApiResource, name: str, status: Json) -> None:
        """The whole status of its own type: what it does not know, such as conditions, is gone after that."""
        current = self.client.get(kind, name)
        if current.get("status") != status:
            self.client.replace(kind, name, {**current, "status": status}, subresource="status")

    def _keep_finalizer(self, kind: ApiResource, item: Json) -> None:
        current = self.client.get(kind, item["metadata"]["name"])
        if FINALIZER not in (current["metadata"].get("finalizers") or ()):
            current["metadata"].setdefault("finalizers", []).append(FINALIZER)
            self.client.replace(kind, current["metadata"]["name"], current)

    def _drop_finalizer(self, kind: ApiResource, item: Json) -> None:
        current = self.client.get(kind, item["metadata"]["name"])
        current["metadata"]["finalizers"] = [f for f in current["metadata"].get("finalizers") or () if f != FINALIZER]
        self.client.replace(kind, current["metadata"]["name"], current)


def state(item: Json) -> str:
    return str((item.get("status") or {}).get("state") or "")


def leaves(resource: Json) -> tuple[int, str]:
    """Who leaves first: without a device, marked ones, attaching, online; within a group the longest unused."""
    attached = bool((resource.get("status") or {}).get("device_id"))
    marked = annotated(resource, "delete-device") == "true"
    order = {"Attaching": 2 if attached else 0, "Online": 1 if marked else 3, "": 0}.get(state(resource), 4)
    return order, annotated(resource, "last-used-time") or str(resource["metadata"]["creationTimestamp"])
