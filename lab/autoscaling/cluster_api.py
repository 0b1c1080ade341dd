# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster API on the lab: its real core controllers, and a stand-in for an infrastructure provider.

The controllers manage the lab itself as their target cluster. The stand-in is no real
infrastructure. It creates a Node for kwok after a delay, instead of a machine of Metal3 or a cloud.
It follows the contract v1beta2 of Cluster API. It waits for the owner, the bootstrap data and its
own finalizer, sets ``spec.providerID`` and ``status.initialization.provisioned``, and releases a
deleted machine. The controllers delete the Node, as with a real provider. The control plane is
managed elsewhere.

Cluster API's webhooks are not registered. They would only write defaults, which the objects here
have, and refuse invalid input of users. So the CRDs have no conversion webhook either.
"""

from __future__ import annotations

import threading
import time
import typing as t
from pathlib import Path

import yaml

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.binaries import cluster_api
from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.control_plane.nodes import node_object
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.errors import NotYet
from ansible_collections.composable.infra.lab.processes.ports import PortClaim

Json = dict[str, t.Any]
GROUP, VERSION, CONTRACT = "capi.lab.composable.infra", "v1alpha1", "v1beta2"
NAMESPACE, CLUSTER, DEPLOYMENT = "capi", "lab", "gpu"
CORE = f"/apis/cluster.x-k8s.io/{CONTRACT}/namespaces/{NAMESPACE}"
OWN = f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}"
FINALIZER = f"{GROUP}/machine"
# Cluster API copies labels with this prefix from a Machine to its Node.
POOL = {"node.cluster.x-k8s.io/pool": DEPLOYMENT}
# A kubelet sets these conditions. Cluster API treats a Machine as unavailable if its Node lacks
# one.
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
MERGE = "application/merge-patch+json"
_LOOK_SECONDS = 0.1


def install(lab: Lab) -> None:
    """Install the CRDs of Cluster API and of the stand-in. Return when the API server serves
    them."""
    documents = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in cluster_api.find_crds()]
    documents += [_crd(kind) for kind in ("LabMachine", "LabMachineTemplate", "LabControlPlane")]
    for document in documents:
        lab.api.apply(document)
    lab.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for permission in _permissions():
        lab.api.apply(permission)
    lab.processes.wait_until("the resources of Cluster API", lambda: all(_served(lab.api, each) for each in documents),
                             60.0)


def _permissions() -> list[Json]:
    """Return the permissions that the role autoscaler gives Cluster Autoscaler's provider for this
    deployment."""
    meta = {"name": "composable-infra-autoscaler-machines", "namespace": NAMESPACE}
    group = "rbac.authorization.k8s.io"
    account = {"name": "composable-infra-autoscaler", "namespace": "composable-infra"}
    rules = [{"apiGroups": ["cluster.x-k8s.io"], "resources": ["machinedeployments"], "resourceNames": [DEPLOYMENT],
              "verbs": ["get", "patch"]},
             {"apiGroups": ["cluster.x-k8s.io"], "resources": ["machines"], "verbs": ["list", "patch"]}]
    return [{"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules},
            {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta,
             "roleRef": {"apiGroup": group, "kind": "Role", "name": meta["name"]},
             "subjects": [{"kind": "ServiceAccount", **account}]}]


def _crd(kind: str) -> Json:
    """Return a CRD that allows any spec and status. A label maps the contract to our version."""
    plural, free = f"{kind.lower()}s", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    version = {"name": VERSION, "served": True, "storage": True, "subresources": {"status": {}},
               "schema": {"openAPIV3Schema": schema}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}", "labels": {f"cluster.x-k8s.io/{CONTRACT}": VERSION}},
            "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version],
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower()}}}


def _served(api: Api, crd: Json) -> bool:
    spec = crd["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    if not api.exists(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"):
        raise NotYet(f"{crd['metadata']['name']} is not served")
    return True


def create_cluster(lab: Lab, replicas: int) -> None:
    """Create the lab as Cluster API's target, and a MachineDeployment, with the defaults of the
    webhooks."""
    _post(lab.api, f"/api/v1/namespaces/{NAMESPACE}/secrets", {
        "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": f"{CLUSTER}-kubeconfig", "labels": _of_cluster()},
        "stringData": {"value": lab.kubeconfig.read_text(encoding="utf-8")}})
    for name in ("join", "join-anew"):
        _post(lab.api, f"/api/v1/namespaces/{NAMESPACE}/secrets", {
            "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": "a kubelet would join with it"}})
    _post(lab.api, f"{OWN}/labmachinetemplates", {"kind": "LabMachineTemplate", "metadata": {"name": DEPLOYMENT},
                                                  "spec": {"template": {"spec": {}}}})
    plane = _post(lab.api, f"{OWN}/labcontrolplanes", {"kind": "LabControlPlane", "metadata": {"name": CLUSTER},
                                                       "spec": {}})
    _post(lab.api, f"{CORE}/clusters", {
        "kind": "Cluster", "metadata": {"name": CLUSTER},
        "spec": {"controlPlaneEndpoint": {"host": lab.address, "port": int(lab.server.rpartition(":")[2])},
                 "controlPlaneRef": {"apiGroup": GROUP, "kind": "LabControlPlane", "name": CLUSTER}}})
    plane["status"] = {"initialization": {"controlPlaneInitialized": True}, "externalManagedControlPlane": True}
    lab.api.request("PATCH", f"{OWN}/labcontrolplanes/{CLUSTER}/status", {"status": plane["status"]}, MERGE)
    _post(lab.api, f"{CORE}/machinedeployments", _deployment(replicas))


def _deployment(replicas: int) -> Json:
    labels = {**_of_cluster(), "cluster.x-k8s.io/deployment-name": DEPLOYMENT}
    machine = {"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "join"},
               "infrastructureRef": {"apiGroup": GROUP, "kind": "LabMachineTemplate", "name": DEPLOYMENT},
               "deletion": {"nodeDrainTimeoutSeconds": 60}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return {"kind": "MachineDeployment", "metadata": {"name": DEPLOYMENT, "labels": _of_cluster()},
            "spec": {"clusterName": CLUSTER, "replicas": replicas, "selector": {"matchLabels": labels},
                     "rollout": {"strategy": strategy},
                     "template": {"metadata": {"labels": {**labels, **POOL}}, "spec": machine}}}


def _of_cluster() -> dict[str, str]:
    return {"cluster.x-k8s.io/cluster-name": CLUSTER}


def _post(api: Api, path: str, body: Json) -> Json:
    version = path.removeprefix("/apis/").partition("/namespaces/")[0] if path.startswith("/apis/") else "v1"
    found: Json = api.request("POST", path, {"apiVersion": version, **body})
    return found


def manager(stage: Stage, binary: Path) -> Process:
    """Start the core controllers as the lab's administrator, and return when they work."""
    pki = stage.folder / "cluster-api-pki"
    pair = Authority(pki).issue_server("webhooks")
    for name, path in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (pki / name).write_bytes(path.read_bytes())
    with PortClaim() as claim:
        process = Process("cluster-api", [
            str(binary), f"--kubeconfig={stage.lab.kubeconfig}", f"--webhook-cert-dir={pki}",
            f"--webhook-port={claim.take()}", "--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0",
            "--insecure-diagnostics", "--feature-gates=MachinePool=false",
            "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields"], stage)
        try:
            process.wait_for("Starting workers")
        except BaseException:
            process.stop()
            raise
    return process


class Infrastructure:
    """Machines of the stand-in, in a thread until ``stop``. ``boot`` is how many seconds a machine
    boots."""

    def __init__(self, lab: Lab, boot: float = 1.0) -> None:
        self._api, self._version, self._boot = lab.api, f"v{lab.description.kubernetes}", boot
        self._started: dict[str, float] = {}
        self.faults: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machines", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                for machine in self._api.get(f"{OWN}/labmachines")["items"]:
                    self._reconcile(machine)
            except ApiRefusal as error:
                if error.status not in (404, 409):
                    self.faults.append(str(error))

    def _reconcile(self, machine: Json) -> None:
        meta = machine["metadata"]
        if meta.get("deletionTimestamp"):
            self._patch(machine, {"metadata": {"finalizers": []}})
        elif FINALIZER not in meta.get("finalizers", ()):
            self._patch(machine, {"metadata": {"finalizers": [FINALIZER]}})
        elif not (machine.get("status") or {}).get("initialization") and self._is_booted(machine):
            self._join(meta["name"], machine)

    def _is_booted(self, machine: Json) -> bool:
        """Return whether the machine has booted. It starts once its Machine has bootstrap data."""
        meta = machine["metadata"]
        owner = next((each["name"] for each in meta.get("ownerReferences") or () if each["kind"] == "Machine"), None)
        if owner is None or not self._api.get(f"{CORE}/machines/{owner}")["spec"]["bootstrap"].get("dataSecretName"):
            return False
        return time.monotonic() - self._started.setdefault(meta["uid"], time.monotonic()) >= self._boot

    def _join(self, name: str, machine: Json) -> None:
        node = node_object(name, self._version)
        node["spec"]["providerID"] = f"{GROUP}://{machine['metadata']['uid']}"
        node["status"]["conditions"] += [{"type": kind, "status": "False", "reason": "Simulated"} for kind in PRESSURES]
        if not self._api.exists(f"/api/v1/nodes/{name}"):
            self._api.request("POST", "/api/v1/nodes", node)
        self._patch(machine, {"spec": {"providerID": node["spec"]["providerID"]}})
        self._api.request("PATCH", f"{OWN}/labmachines/{name}/status",
                          {"status": {"initialization": {"provisioned": True}}}, MERGE)

    def _patch(self, machine: Json, body: Json) -> None:
        self._api.request("PATCH", f"{OWN}/labmachines/{machine['metadata']['name']}", body, MERGE)

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(30)
