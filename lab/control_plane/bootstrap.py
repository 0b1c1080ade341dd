# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a control plane from an empty folder: the steps of `lab up` in order."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal, answers
from ansible_collections.composable.infra.lab.binaries.releases import Release
from ansible_collections.composable.infra.lab.control_plane import components
from ansible_collections.composable.infra.lab.control_plane.certificates import SERVER_ADDRESSES, Authority, write_key
from ansible_collections.composable.infra.lab.control_plane.components import Layout, Ports
from ansible_collections.composable.infra.lab.control_plane.kubeconfig import client_user, write_kubeconfig
from ansible_collections.composable.infra.lab.control_plane.nodes import all_ready, create_nodes
from ansible_collections.composable.infra.lab.errors import NotYet
from ansible_collections.composable.infra.lab.names import node_names
from ansible_collections.composable.infra.lab.options import LabOptions
from ansible_collections.composable.infra.lab.processes.ports import PortClaim
from ansible_collections.composable.infra.lab.processes.supervisor import Processes

CRO = "cro.hpsys.ibm.ie.com/v1alpha1"
HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "deploy"
POLICY_SINCE = (1, 36)
COMPONENTS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok")
# File name of certificate and kubeconfig -> user and groups in the API server.
USERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("lab:admin", ("system:masters",)),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kwok": ("lab:kwok", ()),
    "hardware": ("lab:hardware", ()),
    "kubelet-client": ("lab:kubelet-client", ()),
}


def take_ports(claim: PortClaim) -> Ports:
    """Return ports for one control plane."""
    return Ports(claim.take(), claim.take(), claim.take(), claim.take(), claim.take())


def write_files(layout: Layout, options: LabOptions) -> Authority:
    """Write certificates, kubeconfigs and configuration files. Return the authority for more
    certificates."""
    authority = Authority(layout.pki)
    Authority(layout.pki, "front-proxy-ca")
    authority.issue_server("kube-apiserver", addresses=sorted({*SERVER_ADDRESSES, layout.address}))
    write_key(layout.pki / "service-account.key")
    pairs = {file: authority.issue_client(file, user, groups) for file, (user, groups) in USERS.items()}
    for file, pair in pairs.items():
        path = layout.kubeconfig(file)
        write_kubeconfig(path, layout.server, authority.certificate, file, client_user(pair), f"lab-{options.name}")
    layout.config("stages.yaml").parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "manifests" / "audit.yaml", layout.config("audit.yaml"))
    stages = documents(HERE / "manifests" / "stages.yaml")
    # kwok reads a stream of documents and supports no List.
    layout.config("stages.yaml").write_text(yaml.safe_dump_all(stages, sort_keys=False), encoding="utf-8")
    document = components.scheduler_configuration(layout, options.binding_timeout)
    layout.config("scheduler.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return authority


def start(layout: Layout, processes: Processes, api: Api, options: LabOptions) -> None:
    """Start all components and create the objects. wait_ready() waits until they are ready."""
    processes.start(components.etcd(layout))
    processes.start(components.apiserver(layout, options.audit))
    processes.wait_until("a ready API server", api.ready, options.ready_seconds)
    for document in documents(HERE / "manifests" / "cluster.yaml"):
        api.apply(document)
    for component in (components.scheduler, components.controller_manager, components.kwok):
        processes.start(component(layout))
    create_nodes(api, node_names(options.nodes), layout.release.kubernetes)
    for document in (*shipped_documents(), *policy_documents(), *agent_documents(), *autoscaler_documents(),
                     *gate_documents(layout.release)):
        api.apply(document)


def wait_ready(layout: Layout, processes: Processes, api: Api, options: LabOptions) -> None:
    """Return when pods can be created and scheduled. Raise LabError with the missing part."""
    seconds = options.ready_seconds
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    scheduler = f"https://127.0.0.1:{layout.ports.scheduler}/readyz"
    processes.wait_until("established CRDs", lambda: _established(api), seconds)
    processes.wait_until("storage of custom resources", lambda: _storable(api), seconds)
    processes.wait_until("the default service account", lambda: api.exists(account), seconds)
    processes.wait_until("ready nodes", lambda: all_ready(api, options.nodes), seconds)
    processes.wait_until("a ready scheduler", lambda: answers(scheduler), seconds)


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the object of a YAML file, or the items of its List."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    yield from document["items"] if document["kind"] == "List" else [document]


def shipped_documents() -> list[dict[str, Any]]:
    """Return the collection's CRDs and RBAC in the order to apply them."""
    files = [*sorted((DEPLOY / "crds").glob("*.yaml")), *sorted((DEPLOY / "rbac").glob("*.yaml"))]
    found = [document for path in files for document in documents(path)]
    # A namespace must exist before its objects.
    return sorted(found, key=lambda document: document["kind"] != "Namespace")


def policy_documents() -> list[dict[str, Any]]:
    """Return the policies that restrict the controllers to their own fields."""
    return [document for path in sorted((DEPLOY / "policy").glob("*.yaml")) for document in documents(path)]


def agent_documents() -> list[dict[str, Any]]:
    """Return the permissions of the node agents, and the policy that restricts each to its node."""
    return [document for name in ("rbac", "policy") for document in documents(DEPLOY / "agent" / f"{name}.yaml")]


def autoscaler_documents() -> list[dict[str, Any]]:
    """Return the permissions of Cluster Autoscaler's provider, and the policy for its
    annotations."""
    return [document for name in ("rbac", "policy") for document in documents(DEPLOY / "autoscaler" / f"{name}.yaml")]


def provisioning_documents() -> list[dict[str, Any]]:
    """Return the CRD of ProvisioningRequests, and what the scaler needs to serve them."""
    shipped = [document for path in sorted((DEPLOY / "provisioning").glob("*.yaml")) for document in documents(path)]
    return [*documents(HERE / "manifests" / "provisioning.yaml"), *shipped]


def agent_plugin_documents(*, own_driver: bool = False) -> list[dict[str, Any]]:
    """Return the permissions to restart the vendor's plugin, after its namespace, or to be a
    driver."""
    if own_driver:
        return list(documents(DEPLOY / "agent" / "kubelet_plugin.yaml"))
    granted = list(documents(DEPLOY / "agent" / "plugin.yaml"))
    namespaces = sorted({document["metadata"]["namespace"] for document in granted})
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces] + granted


def gate_documents(release: Release) -> list[dict[str, Any]]:
    """Return the collection's admission policy, if the release serves its kind without a feature
    gate."""
    if not serves_policies(release):
        return []
    return [document for path in sorted((DEPLOY / "gates").glob("*.yaml")) for document in documents(path)]


def serves_policies(release: Release) -> bool:
    """Return whether the release serves MutatingAdmissionPolicies without a feature gate."""
    return tuple(int(part) for part in release.series.split(".")) >= POLICY_SINCE


def _storable(api: Api) -> bool:
    """Return True if custom resources can be created. Raise NotYet before.

    An established CRD still answers 429 for a moment at first.
    """
    spec = {"type": "gpu", "model": "none", "target_node": "none"}
    samples = {"ComposableResource": spec, "ComposabilityRequest": {"resource": {**spec, "size": 0}}}
    for kind, content in samples.items():
        document = {"apiVersion": CRO, "kind": kind, "metadata": {"name": "lab-probe"}, "spec": content}
        try:
            api.request("POST", f"/apis/{CRO}/{kind.lower()}s?dryRun=All", document)
        except ApiRefusal as error:
            if error.status not in (404, 429, 503):
                raise
            raise NotYet(f"HTTP status {error.status}: {error}") from error
    return True


def _established(api: Api) -> bool:
    for crd in api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        conditions = crd.get("status", {}).get("conditions", ())
        met = {entry["type"] for entry in conditions if entry["status"] == "True"}
        if "status" in crd and "Established" not in met:
            raise NotYet(f"{crd['metadata']['name']} is not established")
    return True
