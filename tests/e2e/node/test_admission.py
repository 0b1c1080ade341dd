# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node agent may do with its own token, and that RBAC or the admission policy refuses everything else."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.agent_identity import ACCOUNT, NAMESPACE, agent_kubeconfig
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden, Invalid
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, TARGET_NODE
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import VENDORS
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory

Json = dict[str, t.Any]
PLUGINS = "dra-driver-nvidia-gpu"
# The lab's DaemonSet would take a pod with all labels of the chart for its own.
PLUGIN = {"app.kubernetes.io/component": "nvidia-dra-driver-kubelet-plugin"}
CONTROLLER = {"app.kubernetes.io/name": "dra-driver-nvidia-gpu", "dra-driver-nvidia-gpu-component": "controller"}
LABELS = [labels for vendor in VENDORS for labels in vendor.plugin_selectors]
CRO = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composableresources"
DAEMON_SETS = ApiResource("apps/v1", "daemonsets", "DaemonSet", True)
ROLES = ApiResource("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False)
MINE, OTHER = "node-0", "node-1"
EVIDENCE = {"metadata": {"annotations": {NODE: "{}"}}}
Try = t.Callable[[Client], object]


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """Two nodes; a ComposableResource, a pod of the plugin and another pod on each."""
    made = stage_factory(nodes=2, hands="none").lab
    names = [node["metadata"]["name"] for node in made.api.get("/api/v1/nodes")["items"]]
    assert {MINE, OTHER} <= set(names)
    made.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLUGINS}})
    for document in documents(DEPLOY / "agent" / "plugin.yaml"):
        made.api.apply(document)
    for node in (MINE, OTHER):
        made.api.request("POST", CRO, {
            "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource",
            "metadata": {"name": f"gpu-{node}", "labels": {TARGET_NODE: node}, "finalizers": ["example.com/kept"],
                         "annotations": {"example.com/note": "as it was"}},
            "spec": {"type": "gpu", "model": "A100 40G", "target_node": node}})
        made.api.apply(pod(f"plugin-{node}", node, PLUGIN))
        made.api.apply(pod(f"controller-{node}", node, CONTROLLER))
        made.api.apply(pod(f"other-{node}", node, {"app": "other"}))
    return made


def pod(name: str, node: str, labels: Json) -> Json:
    """A pod in the plugin's namespace. Its ServiceAccount need not exist when it asks for no token."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": PLUGINS, "labels": labels},
            "spec": {"nodeName": node, "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}],
                     "containers": [{"name": "c", "image": "example.com/image"}]}}


@pytest.fixture(scope="module")
def agent(lab: Lab) -> Iterator[Client]:
    """The agent of the first node."""
    path = agent_kubeconfig(lab.api, lab.state_dir, lab.ca, MINE)
    client = Client(Connection.load(str(path)))
    yield client
    client.close()


@pytest.fixture(scope="module")
def unbound(lab: Lab) -> Iterator[Client]:
    """The same account with a token that is bound to no pod."""
    client = Client(Connection.load(str(lab.service_account_kubeconfig(NAMESPACE, ACCOUNT))))
    yield client
    client.close()


def lease(name: str) -> Json:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"holderIdentity": MINE, "leaseDurationSeconds": 90}}


def event(name: str, component: str = ACCOUNT, instance: str = MINE) -> Json:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "ComposableResource", "name": f"gpu-{MINE}"}, "reason": "Tested",
            "type": "Normal", "message": "a test", "reportingComponent": component, "reportingInstance": instance,
            "source": {"component": component}}


def test_what_an_agent_needs_is_granted(lab: Lab, agent: Client) -> None:
    changed = agent.merge_patch(COMPOSABLE_RESOURCES, f"gpu-{MINE}", EVIDENCE)
    assert changed["metadata"]["annotations"] == {"example.com/note": "as it was", NODE: "{}"}
    agent.merge_patch(COMPOSABLE_RESOURCES, f"gpu-{MINE}", {"metadata": {"annotations": {NODE: None}}})
    agent.create(LEASES, lease(f"node-agent-{MINE}"))
    agent.merge_patch(LEASES, f"node-agent-{MINE}", {"spec": {"holderIdentity": ""}}, NAMESPACE)
    agent.create(EVENTS, event("mine.1"))
    agent.merge_patch(EVENTS, "mine.1", {"count": 2}, "default")
    for kind, fields in ((COMPOSABLE_RESOURCES, None), (SLICES, f"spec.nodeName={MINE}"),
                         (PODS, f"spec.nodeName={MINE}"), (CLAIMS, None)):
        agent.list(kind, field_selector=fields)
    agent.delete(PODS, f"plugin-{MINE}", PLUGINS)
    left = {item["metadata"]["name"] for item in lab.api.get(f"/api/v1/namespaces/{PLUGINS}/pods")["items"]
            if not item["metadata"].get("deletionTimestamp")}
    assert f"plugin-{OTHER}" in left
    assert f"plugin-{MINE}" not in left


@pytest.mark.parametrize("number", range(len(LABELS)))
def test_the_plugins_of_all_vendors_are_restarted(lab: Lab, agent: Client, number: int) -> None:
    lab.api.apply(pod(f"plugin-{number}", MINE, {**LABELS[number]}))
    agent.delete(PODS, f"plugin-{number}", PLUGINS)


def patched(name: str, patch: Json, **more: t.Any) -> Try:
    return lambda client: client.merge_patch(COMPOSABLE_RESOURCES, name, patch, **more)


POLICY: dict[str, Try] = {
    "the evidence of another node": patched(f"gpu-{OTHER}", EVIDENCE),
    "the target of a device": patched(f"gpu-{MINE}", {"spec": {"target_node": OTHER}}),
    "whether it is forced": patched(f"gpu-{MINE}", {"spec": {"force_detach": True}}),
    "its labels": patched(f"gpu-{MINE}", {"metadata": {"labels": {TARGET_NODE: OTHER}}}),
    "all its labels": patched(f"gpu-{MINE}", {"metadata": {"labels": None}}),
    "its finalizers": patched(f"gpu-{MINE}", {"metadata": {"finalizers": None}}),
    "its owners": patched(f"gpu-{MINE}", {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": MINE, "uid": "0"}]}}),
    "another annotation": patched(f"gpu-{MINE}", {"metadata": {"annotations": {"composable.infra/release": "now"}}}),
    "another annotation's text": patched(f"gpu-{MINE}", {"metadata": {"annotations": {"example.com/note": "else"}}}),
    "another annotation away": patched(f"gpu-{MINE}", {"metadata": {"annotations": {"example.com/note": None}}}),
    "all annotations away": patched(f"gpu-{MINE}", {"metadata": {"annotations": None}}),
    "the evidence and more": patched(f"gpu-{MINE}", {**EVIDENCE, "spec": {"model": "H100"}}),
    "the plugin's pod of another node": lambda client: client.delete(PODS, f"plugin-{OTHER}", PLUGINS),
    "the controller of the plugin's chart": lambda client: client.delete(PODS, f"controller-{MINE}", PLUGINS),
    "another pod of its node": lambda client: client.delete(PODS, f"other-{MINE}", PLUGINS),
    "another node's Lease": lambda client: client.create(LEASES, lease(f"node-agent-{OTHER}")),
    "the Lease of the controllers": lambda client: client.create(LEASES, lease("composable-infra-operator")),
    "an Event in another's name": lambda client: client.create(EVENTS, event("theirs.1", "kubelet")),
    "an Event of another node": lambda client: client.create(EVENTS, event("theirs.2", ACCOUNT, OTHER)),
    "another's Event": lambda client: client.merge_patch(
        EVENTS, "theirs", {"reportingComponent": ACCOUNT, "reportingInstance": MINE}, "default"),
}

RBAC: dict[str, Try] = {
    "the status of a device": patched(f"gpu-{MINE}", {"status": {"state": "Online"}}, subresource="status"),
    "a device more": lambda client: client.create(COMPOSABLE_RESOURCES, {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": {"name": "mine"},
        "spec": {"type": "gpu", "model": "A100 40G", "target_node": MINE}}),
    "a device less": lambda client: client.delete(COMPOSABLE_RESOURCES, f"gpu-{MINE}"),
    "requests": lambda client: client.list(COMPOSABILITY_REQUESTS),
    "a pod of another namespace": lambda client: client.delete(PODS, f"lab-node-agent-{MINE}", NAMESPACE),
    "all pods of the namespace": lambda client: client.raw("DELETE", PODS.path(namespace=PLUGINS)),
    "a pod of its own": lambda client: client.create(PODS, pod("mine", MINE, PLUGIN)),
    "the labels of a pod": lambda client: client.merge_patch(
        PODS, f"other-{MINE}", {"metadata": {"labels": PLUGIN}}, PLUGINS),
    "a command in a pod": lambda client: client.raw("POST", PODS.path(f"plugin-{OTHER}", PLUGINS, "exec")),
    "the eviction of a pod": lambda client: client.raw("POST", PODS.path(f"plugin-{OTHER}", PLUGINS, "eviction"), {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"plugin-{OTHER}", "namespace": PLUGINS}}),
    "secrets": lambda client: client.list(SECRETS),
    "nodes": lambda client: client.list(NODES),
    "a label of its node": lambda client: client.merge_patch(NODES, MINE, {"metadata": {"labels": {"a": "b"}}}),
    "the plugin's DaemonSet": lambda client: client.delete(DAEMON_SETS, "any", PLUGINS),
    "a claim": lambda client: client.delete(CLAIMS, "any", PLUGINS),
    "a slice": lambda client: client.delete(SLICES, "any"),
    "its own role": lambda client: client.merge_patch(ROLES, ACCOUNT, {"rules": []}),
    "its Lease away": lambda client: client.delete(LEASES, f"node-agent-{MINE}", NAMESPACE),
    "Leases of others": lambda client: client.list(LEASES, namespace=NAMESPACE),
    "a token of the controllers": lambda client: client.raw(
        "POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/composable-infra/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
}


@pytest.fixture(scope="module")
def foreign_event(lab: Lab) -> None:
    """An Event that the kubelet wrote."""
    lab.api.request("POST", "/api/v1/namespaces/default/events", event("theirs", "kubelet"))


@pytest.mark.parametrize("what", POLICY)
def test_the_policy_refuses(agent: Client, foreign_event: None, what: str) -> None:
    """By what the policy says, so that no other refusal is taken for it."""
    with pytest.raises((Forbidden, Invalid)) as refused:
        POLICY[what](agent)
    said = str(refused.value)
    assert "is immutable" in said or ("ValidatingAdmissionPolicy 'composable-infra-agent'" in said
                                      and "a node agent" in said)


@pytest.mark.parametrize("what", RBAC)
def test_rbac_refuses(agent: Client, what: str) -> None:
    with pytest.raises(Forbidden) as refused:
        RBAC[what](agent)
    assert f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}" in str(refused.value)


@pytest.mark.parametrize("attempt", [
    patched(f"gpu-{MINE}", EVIDENCE),
    lambda client: client.delete(PODS, f"plugin-{OTHER}", PLUGINS),
    lambda client: client.create(LEASES, lease("node-agent-x"))], ids=["evidence", "pod", "lease"])
def test_a_token_without_a_node_is_refused_everything(unbound: Client, attempt: Try) -> None:
    with pytest.raises((Forbidden, Invalid), match="the token names no node"):
        attempt(unbound)


def test_others_are_not_held_by_the_policy(lab: Lab) -> None:
    lab.api.request("PATCH", f"{CRO}/gpu-{OTHER}", {"metadata": {"labels": {"example.com/by": "administrator"}}},
                    "application/merge-patch+json")


def test_nothing_that_was_refused_had_an_effect(lab: Lab, agent: Client) -> None:
    for node in (MINE, OTHER):
        there = lab.api.get(f"{CRO}/gpu-{node}")
        assert there["spec"] == {"type": "gpu", "model": "A100 40G", "target_node": node}
        assert there["metadata"]["labels"][TARGET_NODE] == node
        assert there["metadata"]["annotations"]["example.com/note"] == "as it was"
        assert there["metadata"]["finalizers"] == ["example.com/kept"]
    with pytest.raises(ApiRefusal) as gone:
        lab.api.get(f"{CRO}/mine")
    assert gone.value.status == 404
    assert isinstance(lab.api.get(f"/api/v1/namespaces/{PLUGINS}/pods/other-{MINE}"), dict)
    assert not issubclass(ApiRefusal, ApiError)
