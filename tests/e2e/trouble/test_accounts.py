# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each account of the controllers may do, and that RBAC or an admission policy refuses everything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    CONFIG_MAPS,
    EVENTS,
    GATE_LEASES,
    LEASES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden, Invalid
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.taints import DeviceTaints
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines import timeline, waits_keeper
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import Stored
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.trouble.accounts_support import (
    CLASS,
    CONDITION,
    DEVICE,
    HERE,
    NAMESPACE,
    RULES,
    Json,
    Try,
    device,
    gate_lease,
    lease,
    merged,
    notes,
    resource,
    rule,
    slice_body,
)
from ansible_collections.composable.infra.tests.unit.lab.deploy_support import (
    allowed,
)

ACCOUNTS = {"publisher": "composable-infra-publisher", "scaler": "composable-infra-scaler",
            "operator": "composable-infra-operator", "all": "composable-infra"}
ROLES = ("publisher", "scaler", "operator")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind",
         "escalate", "approve", "sign", "use")
OTHER_GATE, FOREIGN = "example.com/other", "example.com/kept"
# Kubernetes itself lets every service account read them, from 1.37 on (system:cluster-trust-bundle-discovery).
EVERY_ACCOUNT = {"certificates.k8s.io/clustertrustbundles": ("get", "list", "watch")}


class Clients:
    """A connection for each account, and the administrator's."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.admin = lab, Client(Connection.load(str(lab.kubeconfig)))
        self.of = {name: Client(Connection.load(str(lab.service_account_kubeconfig(NAMESPACE, account))))
                   for name, account in ACCOUNTS.items()}

    def close(self) -> None:
        for client in (self.admin, *self.of.values()):
            client.close()


@pytest.fixture(scope="module")
def clients(stage_factory: StageFactory) -> Iterator[Clients]:
    """A held pod, an allocated claim, a device, a request, and slices of a node and of a pool."""
    made = Clients(stage_factory(nodes=2, hands="none").lab)
    admin = made.admin
    held = admin.create(PODS, {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "held", "namespace": HERE, "labels": {"app": "a"}, "annotations": {"example.com/n": "1"}},
        "spec": {"schedulingGates": [{"name": pods.GATE}, {"name": OTHER_GATE}], "terminationGracePeriodSeconds": 0,
                 "resourceClaims": [{"name": "gpu", "resourceClaimName": "train"}],
                 "containers": [{"name": "c", "image": "example.com/a:1"}]}})
    admin.create(CLAIMS, {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "train", "namespace": HERE, "finalizers": [FOREIGN]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS, "count": 1}}]}}})
    result = {"request": "r", "driver": CLASS, "pool": "a100-fabric1", "device": "a100-0",
              "bindingConditions": ["FabricDeviceReady"], "bindingFailureConditions": ["FabricDeviceReschedule"]}
    admin.merge_patch(CLAIMS, "train", {"status": {
        "allocation": {"devices": {"results": [result]}}, "reservedFor": [
            {"resource": "pods", "name": "held", "uid": held["metadata"]["uid"]}]}},
        HERE, subresource="status")
    spec = {"type": "gpu", "model": "A100", "target_node": "node-0"}
    for kind, name, body in ((COMPOSABLE_RESOURCES, "gpu-1", spec),
                             (COMPOSABILITY_REQUESTS, "request-1", {"resource": {**spec, "size": 1}})):
        admin.create(kind, {"apiVersion": cohdi.GROUP_VERSION, "kind": kind.kind, "spec": body, "metadata": {
            "name": name, "finalizers": [cohdi.FINALIZER, FOREIGN], "annotations": {"example.com/n": "1"}}})
    admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    admin.create(SLICES, slice_body("of-node", "node-0", nodeName="node-0", devices=[{"name": "gpu-0"}]))
    admin.create(SLICES, slice_body("of-pool", "a100-fabric1"))
    for name in ("composable-infra-scaler", "node-agent-node-0"):
        admin.create(LEASES, lease(name))
    yield made
    made.close()


def event(name: str, component: str = "composable-infra") -> Json:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": HERE},
            "involvedObject": {"kind": "Pod", "namespace": HERE, "name": "held"}, "reason": "Tested", "type": "Normal",
            "message": "a test", "reportingComponent": component, "reportingInstance": component,
            "source": {"component": component}}


def created(kind: ApiResource, body: Json) -> Try:
    return lambda client: client.create(kind, body)


def deleted(kind: ApiResource, name: str) -> Try:
    return lambda client: client.delete(kind, name)


pod = partial(merged, PODS, "held", namespace=HERE)
node = partial(merged, NODES, "node-0")
claim = partial(merged, CLAIMS, "train", namespace=HERE)
request = partial(merged, COMPOSABILITY_REQUESTS, "request-1")


GRANTED: list[tuple[str, str, Try]] = [
    ("scaler", "the node tried first", pod(body={"status": {"nominatedNodeName": "node-0"}}, subresource="status")),
    ("scaler", "why it is not served", lambda client: client.strategic_patch(
        PODS, "held", {"status": {"conditions": [{"type": pods.SERVED, "status": "False", "reason": "GateReleased",
                                                  "message": "no node"}]}}, HERE, "status")),
    ("scaler", "a label of CoHDI's", node(body={"metadata": {"labels": {"cohdi.io/a100": "true"}}})),
    ("scaler", "its condition", claim(body={"status": {"devices": [{**DEVICE, "conditions": [CONDITION]}]}},
                                      subresource="status")),
    ("scaler", "the scheduler's finalizer", lambda client: client.strategic_patch(
        CLAIMS, "train", {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}, HERE)),
    ("scaler", "a size", request(body={"spec": {"resource": {"size": 2}}})),
    ("scaler", "for whom a size is", request(body=notes(cohdi.CLAIMS))),
    ("scaler", "a request", created(COMPOSABILITY_REQUESTS, {
        "apiVersion": cohdi.GROUP_VERSION, "kind": "ComposabilityRequest", "metadata": {"name": "request-2"},
        "spec": {"resource": {"type": "gpu", "model": "H100", "size": 1, "target_node": "node-0"}}})),
    ("scaler", "a hold", device(body=notes(cohdi.HELD_FOR, cohdi.IN_USE, "cohdi.io/last-used-time"))),
    ("scaler", "a timeline", device(body=notes(timeline.ANNOTATION))),
    ("scaler", "an Event", created(EVENTS, event("ours.1"))),
    ("publisher", "a pool", created(SLICES, slice_body("more", "h100-fabric1"))),
    ("publisher", "a pool less", deleted(SLICES, "more")),
    ("publisher", "a label of the fabric", node(body={"metadata": {"labels": {"cohdi.io/fabric": "1"}}})),
    ("publisher", "its Lease", created(LEASES, lease("composable-infra-publisher"))),
    ("scaler", "the waits of the day", merged(CONFIG_MAPS, waits_keeper.NAME, {
        "data": {waits_keeper.FIELD: Stored().text()}}, NAMESPACE)),
    ("scaler", "the GateLease", created(GATE_LEASES, gate_lease("composable-infra-gates"))),
    ("operator", "a device", created(COMPOSABLE_RESOURCES, resource("gpu-2"))),
    ("operator", "its notes", device(body=notes(cohdi.ATTACH, cohdi.RELEASE, cohdi.OPERATION))),
    ("operator", "its state", device(body={"status": {"state": "Online"}}, subresource="status")),
    ("operator", "a request's status", request(body={"status": {"state": "Running"}}, subresource="status")),
    ("operator", "the finalizer of a device",
     merged(COMPOSABLE_RESOURCES, "gpu-2", {"metadata": {"finalizers": None}})),
    ("operator", "a device less", deleted(COMPOSABLE_RESOURCES, "gpu-2")),
    ("operator", "the finalizer of a request", request(body={"metadata": {"finalizers": [FOREIGN]}})),
    ("all", "what is the scaler's", request(body={"spec": {"resource": {"size": 3}}})),
    ("all", "what is the operator's", device(body=notes(cohdi.ATTACH))),
    ("all", "its gate and no other", lambda client: client.strategic_patch(
        PODS, "held", pods.removal(client.get(PODS, "held", HERE)["metadata"]["uid"]), HERE)),
]

POLICY: dict[str, tuple[str, Try]] = {
    "a pod's image": ("scaler", lambda client: client.strategic_patch(
        PODS, "held", {"spec": {"containers": [{"name": "c", "image": "example.com/evil"}]}}, HERE)),
    "a pod's deadline": ("scaler", pod(body={"spec": {"activeDeadlineSeconds": 1}})),
    "a pod's node selector": ("scaler", pod(body={"spec": {"nodeSelector": {"a": "b"}}})),
    "a pod's tolerations": ("scaler", lambda client: client.merge_patch(PODS, "held", {"spec": {"tolerations": [
        *client.get(PODS, "held", HERE)["spec"]["tolerations"], {"operator": "Exists"}]}}, HERE)),
    "another's gate": ("scaler", pod(body={"spec": {"schedulingGates": [{"name": pods.GATE}]}})),
    "all gates": ("scaler", pod(body={"spec": {"schedulingGates": None}})),
    "a pod's labels": ("scaler", pod(body={"metadata": {"labels": {"app": "b"}}})),
    "a pod's annotations": ("scaler", pod(body={"metadata": {"annotations": None}})),
    "a pod's finalizers": ("scaler", pod(body={"metadata": {"finalizers": ["example.com/mine"]}})),
    "a pod's owners": ("scaler", pod(body={"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "0"}]}})),
    "a pod's phase": ("scaler", pod(body={"status": {"phase": "Failed"}}, subresource="status")),
    "a pod's conditions": ("scaler", pod(body={"status": {"conditions": []}}, subresource="status")),
    "another condition of a pod": ("scaler", lambda client: client.strategic_patch(
        PODS, "held", {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}, HERE, "status")),
    "a pod's claims": ("scaler", pod(body={"status": {"resourceClaimStatuses": [
        {"name": "gpu", "resourceClaimName": "other"}]}}, subresource="status")),
    "a node's role": ("scaler", node(body={"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}})),
    "a node's labels": ("publisher", node(body={"metadata": {"labels": None}})),
    "a node's annotations": ("publisher", node(body=notes("example.com/n"))),
    "a node's taints": ("scaler", node(body={"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})),
    "a node's cordon": ("publisher", node(body={"spec": {"unschedulable": True}})),
    "a node's machine": ("publisher", merged(NODES, "bare", {"spec": {"providerID": "fsas-cdi://other"}})),
    "a node's finalizers": ("scaler", node(body={"metadata": {"finalizers": ["example.com/mine"]}})),
    "a claim's labels": ("scaler", claim(body={"metadata": {"labels": {"a": "b"}}})),
    "a claim's annotations": ("scaler", claim(body=notes("example.com/n"))),
    "a claim's other finalizer": ("scaler", claim(body={"metadata": {"finalizers": ["example.com/mine"]}})),
    "a claim's finalizers away": ("scaler", claim(body={"metadata": {"finalizers": None}})),
    "an allocation in use": ("scaler", claim(body={"status": {"allocation": None, "reservedFor": None}},
                                             subresource="status")),
    "who a claim is reserved for": ("scaler", claim(body={"status": {"reservedFor": None}}, subresource="status")),
    "another's condition": ("scaler", claim(body={"status": {"devices": [
        {**DEVICE, "conditions": [{**CONDITION, "type": "Ready"}]}]}}, subresource="status")),
    "a device's data": ("scaler", claim(body={"status": {"devices": [{**DEVICE, "data": {"a": 1}}]}},
                                        subresource="status")),
    "a slice of a node": ("publisher", deleted(SLICES, "of-node")),
    "a slice of a node more": ("publisher", created(SLICES, slice_body("mine", "node-1", nodeName="node-1"))),
    "a slice for all nodes": ("publisher", created(SLICES, slice_body("mine", "a100-fabric1", allNodes=True))),
    "a pool that is not of the fabric": ("publisher", created(SLICES, slice_body("mine", "node-1"))),
    "a device that nothing is waited for": ("publisher", created(SLICES, slice_body(
        "mine", "a100-fabric2", devices=[{"name": "a100-0"}]))),
    "a device of a node": ("publisher", lambda client: client.replace(SLICES, "of-node", {
        **client.get(SLICES, "of-node"), "spec": slice_body("", "node-0", nodeName="node-0", devices=[])["spec"]})),
    "the target of a device": ("operator", device(body={"spec": {"target_node": "node-1"}})),
    "whether it is forced": ("operator", device(body={"spec": {"force_detach": True}})),
    "the same by all": ("all", device(body={"spec": {"force_detach": True}})),
    "another's annotation": ("operator", device(body=notes("example.com/n"))),
    "another's finalizer": ("operator", device(body={"metadata": {"finalizers": [cohdi.FINALIZER]}})),
    "another label of a device": ("operator", device(body={"metadata": {"labels": {"a": "b"}}})),
    "a device's owners": ("operator", device(body={"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "0"}]}})),
    "a size by the operator": ("operator", request(body={"spec": {"resource": {"size": 9}}})),
    "the intent by the scaler": ("scaler", device(body=notes(cohdi.ATTACH))),
    "for whom a size is by the operator": ("operator", request(body=notes(cohdi.CLAIMS))),
    "another note on a request": ("scaler", request(body=notes("composable.infra/other"))),
    "the release by the scaler": ("scaler", device(body=notes(cohdi.RELEASE))),
    "the agent's evidence by the scaler": ("scaler", device(body=notes(cohdi.NODE))),
    "the finalizer by the scaler": ("scaler", device(body={"metadata": {"finalizers": None}})),
    "the model of a request": ("scaler", request(body={"spec": {"resource": {"model": "H100"}}})),
    "a request that forces": ("scaler", request(body={"spec": {"resource": {"force_detach": True}}})),
    "a request that forces more": ("scaler", created(COMPOSABILITY_REQUESTS, {
        "apiVersion": cohdi.GROUP_VERSION, "kind": "ComposabilityRequest", "metadata": {"name": "mine"}, "spec": {
            "resource": {"type": "gpu", "model": "A", "size": 1, "target_node": "node-1", "force_detach": True}}})),
    "a request for any node": ("scaler", created(COMPOSABILITY_REQUESTS, {
        "apiVersion": cohdi.GROUP_VERSION, "kind": "ComposabilityRequest", "metadata": {"name": "mine"},
        "spec": {"resource": {"type": "gpu", "model": "A", "size": 1}}})),
    "a taint that evicts": ("operator", created(RULES, rule("x-taint", "NoExecute"))),
    "a taint of all devices": ("operator", created(RULES, rule("x-taint", driver=CLASS))),
    "a taint of another key": ("operator", created(RULES, rule("x-taint", key="example.com/mine"))),
    "a taint of another name": ("operator", created(RULES, rule("mine"))),
    "another's taint": ("operator", deleted(RULES, "theirs")),
    "another component's Lease": ("publisher", lambda client: client.replace(
        LEASES, "composable-infra-scaler", {**client.get(LEASES, "composable-infra-scaler", NAMESPACE),
                                            "spec": {"holderIdentity": "thief"}}, NAMESPACE)),
    "an agent's Lease": ("all", lambda client: client.replace(
        LEASES, "node-agent-node-0", {**client.get(LEASES, "node-agent-node-0", NAMESPACE),
                                      "spec": {"holderIdentity": "thief"}}, NAMESPACE)),
    "another GateLease": ("scaler", created(GATE_LEASES, gate_lease("mine"))),
    "another agent's Lease": ("operator", created(LEASES, lease("node-agent-node-1"))),
    "an Event in another's name": ("scaler", created(EVENTS, event("theirs.1", "kubelet"))),
    "another's Event": ("scaler", merged(EVENTS, "theirs", {"reportingComponent": "composable-infra"}, HERE)),
}


@pytest.fixture(scope="module")
def served(clients: Clients) -> Clients:
    """With a taint rule and an Event of somebody else."""
    clients.admin.create(EVENTS, event("theirs", "kubelet"))
    if has_rules(clients):
        clients.admin.create(RULES, rule("theirs", "NoExecute", "example.com/theirs"))
    return clients


def has_rules(clients: Clients) -> bool:
    try:
        clients.admin.list(RULES)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("what", POLICY)
def test_the_policies_refuse_what_permissions_cannot(served: Clients, what: str) -> None:
    account, attempt = POLICY[what]
    if "taint" in what and "node's" not in what and not has_rules(served):
        pytest.skip("this release does not serve resource.k8s.io/v1beta2 DeviceTaintRule")
    with pytest.raises((Forbidden, Invalid)) as caught:
        attempt(served.of[account])
    assert re.search(r"ValidatingAdmissionPolicy 'composable-infra-|is immutable", caught.value.message)


def test_what_they_need_is_granted(served: Clients) -> None:
    for account, what, attempt in GRANTED:
        try:
            attempt(served.of[account])
        except ApiError as error:
            raise AssertionError(f"{account}: {what}: {error}") from error
    gates = served.admin.get(PODS, "held", HERE)["spec"]["schedulingGates"]
    assert gates == [{"name": OTHER_GATE}]


def test_taints_of_a_device_and_of_its_part_come_and_go(served: Clients) -> None:
    if not has_rules(served):
        pytest.skip("this release does not serve resource.k8s.io/v1beta2 DeviceTaintRule")
    taints = DeviceTaints(served.of["operator"])
    assert taints.place("gpu-9", [(CLASS, "node-0", "gpu-0"), (CLASS, "node-0", "gpu-0-mig-1")], "GPU-9")
    assert len(mine(served)) == 2
    taints.remove("gpu-9")
    assert mine(served) == []


def mine(clients: Clients) -> list[str]:
    """Names of the taint rules of one device."""
    names = [str(rule["metadata"]["name"]) for rule in clients.admin.list(RULES).items]
    return [name for name in names if name.startswith("gpu-9-taint")]


def test_an_allocation_that_is_reserved_for_nobody_is_dropped(served: Clients) -> None:
    served.admin.merge_patch(CLAIMS, "train", {"status": {"reservedFor": None}}, HERE, subresource="status")
    served.of["scaler"].merge_patch(CLAIMS, "train", {"status": {"allocation": None}}, HERE, subresource="status")
    assert "allocation" not in served.admin.get(CLAIMS, "train", HERE)["status"]
    with pytest.raises((Forbidden, Invalid), match="do not allocate"):
        served.of["scaler"].merge_patch(CLAIMS, "train", {"status": {"allocation": {"devices": {"results": [
            {"request": "r", **DEVICE}]}}}}, HERE, subresource="status")


def everything(lab: Lab) -> Iterator[tuple[str, str, str]]:
    """(group, resource, subresource) of all that the API server knows, secrets and commands in pods among it."""
    paths = {"": "/api/v1"} | {g["name"]: f"/apis/{g['preferredVersion']['groupVersion']}"
                               for g in lab.api.get("/apis")["groups"]}
    for group, path in paths.items():
        for found in lab.api.get(path)["resources"]:
            name, _unused, subresource = found["name"].partition("/")
            yield group, name, subresource


def rights(role: str) -> dict[str, set[str]]:
    """Verbs by group/resource that the shipped ClusterRoles of an account grant."""
    found: dict[str, set[str]] = {}
    for each in (*(ROLES if role == "all" else (role,)), "endpoints"):
        for name, verbs in allowed(f"composable-infra-{each}").items():
            found.setdefault(name, set()).update(verbs)
    return found


@pytest.mark.parametrize("role", ACCOUNTS)
def test_no_account_may_do_anything_else_in_the_cluster(clients: Clients, role: str) -> None:
    """Each verb on each resource of the API server is asked for, in a namespace and in all."""
    granted, wrong = rights(role), []
    user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNTS[role]}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    for group, name, subresource in everything(clients.lab):
        key = f"{group}/{name}" + (f"/{subresource}" if subresource else "")
        for verb in VERBS:
            answer = clients.lab.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": user, "groups": groups, "resourceAttributes": {
                    "group": group, "resource": name, "subresource": subresource, "verb": verb}}})
            own = name.startswith("selfsubject") or name == "selfsubjectreviews"
            if verb in EVERY_ACCOUNT.get(key, ()):
                continue
            if answer["status"]["allowed"] != (verb in granted.get(key, ()) or (own and verb == "create")):
                wrong.append(f"{verb} {key}: {answer['status']['allowed']}")
    assert wrong == []
