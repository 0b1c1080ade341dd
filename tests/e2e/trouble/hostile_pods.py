# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of the tenant red on real nodes, beside those of the namespace default, and their devices."""

from __future__ import annotations

import os
import signal
import typing as t
from pathlib import Path

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.demo.installed import AGENTS, Installed
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.lab.real_nodes import cgroups
from ansible_collections.composable.infra.lab.real_nodes.images import WORKLOAD
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    EVENTS,
    NAMESPACES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import (
    claims,
    cohdi,
    pods,
    slices,
)
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for
from ansible_collections.composable.infra.tests.e2e.trouble.hostile_tenant_support import (
    RED,
    Tenants,
)

Json = dict[str, t.Any]
NODE, OTHERS, VICTIM = "real-0", "default", "train"
# The file of the only device that a container has.
DEVICE = "/dev/nvidia[0-9]*"
SECONDS = 90.0
VOLUME_CLAIMS = ApiResource("v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
VOLUMES = ApiResource("v1", "persistentvolumes", "PersistentVolume", False)
BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}


def claim_body(name: str, namespace: str = RED, **exactly: t.Any) -> Json:
    """A claim for one device of the node agents' driver; ``exactly``: more of its request."""
    request = {"name": "gpu", "exactly": {"deviceClassName": OWN_DRIVER, **exactly}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"devices": {"requests": [request]}}}


def pod_body(name: str, *args: str, claim: str = "", **spec: t.Any) -> Json:
    """A pod of red's for NODE. ``args``: what its workload does. ``claim``: the name of its claim."""
    container: Json = {"name": "main", "image": WORKLOAD, "args": [*args]}
    body: Json = {"containers": [container], "terminationGracePeriodSeconds": 1,
                  "restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": NODE}}
    if claim:
        container["resources"] = {"claims": [{"name": "gpu"}]}
        body["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": RED},
            "spec": {**body, **spec}}


def with_volume(pod: Json, source: Json, path: str) -> Json:
    """The pod, with a volume at this path of its container."""
    pod["spec"]["volumes"] = [{"name": "volume", **source}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "volume", "mountPath": path}]
    return pod


class TwoTenants:
    """Red with the rights of a tenant, and the namespace default of others."""

    def __init__(self, stage: Stage, installed: Installed) -> None:
        self.stage, self.installed, self.admin = stage, installed, stage.client
        self.red = Tenants(stage).red
        # As docs/guides/tenants.md asks of the administrator.
        labels = {"metadata": {"labels": {pods.OPT: "true", **BASELINE}}}
        self.admin.merge_patch(NAMESPACES, RED, labels)

    def asks(self, name: str, *args: str, claim: Json | None = None, **spec: t.Any) -> None:
        """Create a claim and a pod for it, as red. By default the pod holds its device."""
        self.red.create(CLAIMS, claim or claim_body(name))
        self.red.create(PODS, pod_body(name, *(args or ("hold", DEVICE)), claim=name, **spec))

    def other_asks(self, name: str) -> None:
        """Create a claim and a pod for it in the namespace default."""
        pod = pod_body(name, "hold", DEVICE, claim=name)
        pod["metadata"]["namespace"] = OTHERS
        self.admin.create(CLAIMS, claim_body(name, OTHERS))
        self.admin.create(PODS, pod)

    def other_runs(self, name: str) -> str:
        """Have a pod of others run with a device; returns the name of the device."""
        self.other_asks(name)
        self.says(name, "holds", OTHERS)
        return self.device(name, OTHERS)

    def phase(self, name: str, namespace: str = RED) -> str:
        """The pod's phase, empty for one that is gone."""
        try:
            return pods.phase(self.admin.get(PODS, name, namespace))
        except NotFound:
            return ""

    def printed(self, name: str, namespace: str = RED) -> str:
        """The output of a pod's container so far."""
        try:
            log = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
            return str(self.stage.lab.api.get(log))
        except ApiRefusal:
            return ""

    def says(self, name: str, words: str, namespace: str = RED) -> None:
        """Wait until a pod's container has printed these words."""
        wait_for(f"{namespace}/{name} prints {words!r}",
                 lambda: words in self.printed(name, namespace), SECONDS)

    def is_held(self, name: str) -> bool:
        """Whether our gate holds a pod of red's."""
        return pods.held(self.admin.get(PODS, name, RED))

    def device(self, claim: str, namespace: str = RED) -> str:
        """Name of the device that a claim has; empty for none."""
        try:
            found = claims.results(self.admin.get(CLAIMS, claim, namespace))
        except NotFound:
            return ""
        return str(found[0]["device"]) if found else ""

    def told(self, name: str, words: str, namespace: str = RED) -> bool:
        """Whether an Event about an object of this name has these words."""
        events = self.admin.list(EVENTS, namespace=namespace).items
        return any(words in f"{each['reason']} {each.get('message')}" for each in events
                   if each["involvedObject"]["name"] == name)

    def resources(self) -> list[Json]:
        """All ComposableResources."""
        return list(self.admin.list(COMPOSABLE_RESOURCES).items)

    def evidence(self, device: str) -> Evidence:
        """The agent's evidence of the device that a claim has by this name."""
        uuid = device.removeprefix("gpu-")
        read = (Evidence.parse(cohdi.annotation(raw, cohdi.NODE)) for raw in self.resources())
        return next(each for each in read if each and each.uuid.lower().endswith(uuid))

    def shown(self) -> list[str]:
        """Names of the devices that the node's slices show."""
        return sorted(str(device["name"]) for item in self.admin.list(SLICES).items
                      if slices.node(item) == NODE for device in slices.devices(item))

    @property
    def node(self) -> RealNode:
        """NODE."""
        return next(node for node in self.stage.lab.real_nodes if node.name == NODE)

    def agents_said(self, words: str) -> bool:
        """Whether the log of a node agent has these words."""
        logs = (f"/api/v1/namespaces/composable-infra/pods/{pod['metadata']['name']}/log"
                for pod in self.installed.pods(AGENTS))
        return any(words in str(self.stage.lab.api.get(log)) for log in logs)

    def processes(self, *words: str) -> list[int]:
        """Processes of the node's pods with this command line."""
        groups = [hierarchy / self.node.cgroup for hierarchy in cgroups.hierarchies()]
        return [pid for pid in cgroups.members(groups) if _words(pid) == [*words]]

    def kill(self, *words: str) -> None:
        """End the processes of the node's pods with this command line."""
        for pid in self.processes(*words):
            os.kill(pid, signal.SIGKILL)

    def clear(self) -> None:
        """Delete all pods and claims but VICTIM's, and wait until their devices are returned."""
        for namespace, name in self._there(PODS):
            self.admin.raw("DELETE", PODS.path(name, namespace), {"gracePeriodSeconds": 1})
        for kind in (CLAIMS, VOLUME_CLAIMS):
            for namespace, name in self._there(kind):
                self.admin.delete(kind, name, namespace)
        wait_for("no pod and no claim is left",
                 lambda: not [*self._there(PODS), *self._there(CLAIMS)], SECONDS)
        wait_for("the devices are returned", lambda: len(self.resources()) == 1, SECONDS)

    def _there(self, kind: ApiResource) -> list[tuple[str, str]]:
        found = [(namespace, str(item["metadata"]["name"])) for namespace in (RED, OTHERS)
                 for item in self.admin.list(kind, namespace=namespace).items]
        return [key for key in found if key != (OTHERS, VICTIM)]


def _words(pid: int) -> list[str]:
    """A process's command line without its program."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(word) for word in line.split(b"\0")[1:-1]]


def shared_volume(both: TwoTenants) -> Json:
    """A volume of red's that several pods may have, as an administrator's provisioner makes it."""
    size, modes = {"storage": "1Mi"}, ["ReadWriteMany"]
    spec = {"accessModes": modes, "storageClassName": "", "volumeName": "shared",
            "resources": {"requests": size}}
    claim = both.red.create(VOLUME_CLAIMS, {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
        "metadata": {"name": "shared", "namespace": RED}})
    owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": RED,
             "name": "shared", "uid": claim["metadata"]["uid"]}
    folder = {"path": "/var/lib/kubelet/shared", "type": "DirectoryOrCreate"}
    both.admin.create(VOLUMES, {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "shared"},
        "spec": {"accessModes": modes, "storageClassName": "", "capacity": size,
                 "hostPath": folder, "claimRef": owner}})
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    both.admin.merge_patch(VOLUME_CLAIMS, "shared", bound, RED)
    status = {"phase": "Bound", "accessModes": modes, "capacity": size}
    both.admin.merge_patch(VOLUME_CLAIMS, "shared", {"status": status}, RED, "status")
    return {"persistentVolumeClaim": {"claimName": "shared"}}
