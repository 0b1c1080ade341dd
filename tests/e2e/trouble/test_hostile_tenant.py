# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tenant tries that an API server must refuse: with the ClusterRole edit in a namespace of its own, and claims.

The first 24 ways are unit tests, in tests/unit/hostile_tenant. Each attempt here is refused by RBAC or a policy.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, pod_body
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    EVENTS,
    GATE_LEASES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, pods
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.trouble.accounts_support import (
    CONDITION,
    DEVICE,
    RULES,
    gate_lease,
    lease,
    notes,
    resource,
    rule,
    slice_body,
)
from ansible_collections.composable.infra.tests.e2e.trouble.hostile_tenant_support import (
    OTHERS,
    OURS,
    RBAC,
    RED,
    Json,
    Tenants,
    body,
    tenants_pod,
)

pytestmark = pytest.mark.e2e
Try = t.Callable[[Client], object]
SECRETS, CONFIG_MAPS = ApiResource("v1", "secrets", "Secret", True), ApiResource("v1", "configmaps", "ConfigMap", True)
BINDINGS = ApiResource(RBAC, "clusterrolebindings", "ClusterRoleBinding", False)
ROLE_BINDINGS = ApiResource(RBAC, "rolebindings", "RoleBinding", True)
ADMISSION = "admissionregistration.k8s.io/v1"
POLICIES = ApiResource(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)
POLICY_BINDINGS = ApiResource(ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False)


@pytest.fixture(scope="module")
def tenants(stage_factory: StageFactory) -> Iterator[Tenants]:
    """Another tenant has a pod, a claim and a device; red has a pod and a claim."""
    stage = stage_factory(nodes=2, hands="none")
    made = Tenants(stage)
    stage.claim("train", A100)
    stage.client.create(PODS, pod_body("train", None))
    claim = stage.client.get(CLAIMS, "train", OTHERS)
    own = {"apiVersion": claim["apiVersion"], "kind": "ResourceClaim", "metadata": {}, "spec": claim["spec"]}
    made.red.create(CLAIMS, body("evil", own))
    made.red.create(PODS, tenants_pod("evil"))
    made.admin.create(COMPOSABLE_RESOURCES, {**resource("gpu-1"), "metadata": {"name": "gpu-1"}})
    made.admin.create(COMPOSABILITY_REQUESTS, asking("request-1"))
    made.admin.create(SLICES, slice_body("of-node", "node-0", nodeName="node-0", devices=[{"name": "gpu-0"}]))
    made.admin.create(LEASES, lease("composable-infra-scaler"))
    made.admin.create(GATE_LEASES, gate_lease("composable-infra-gates"))
    yield made
    made.red.close()


def asking(name: str, **more: t.Any) -> Json:
    spec = {"type": "gpu", "model": A100, "size": 1, "target_node": "node-0", **more}
    return {"apiVersion": cohdi.GROUP_VERSION, "kind": "ComposabilityRequest", "metadata": {"name": name},
            "spec": {"resource": spec}}


def patched(kind: ApiResource, name: str, patch: Json, namespace: str | None = None, part: str | None = None) -> Try:
    return lambda red: red.merge_patch(kind, name, patch, namespace, part)


def refused(tenants: Tenants, attempt: Try) -> None:
    """The attempt is forbidden, and not only impossible."""
    with pytest.raises(Forbidden):
        attempt(tenants.red)


def test_red_is_a_tenant(tenants: Tenants) -> None:
    """Otherwise all of the following would be refused for want of any right."""
    assert [item["metadata"]["name"] for item in tenants.red.list(CLAIMS, namespace=RED).items] == ["evil"]
    assert tenants.red.list(EVENTS, namespace=RED) is not None
    tenants.red.merge_patch(PODS, "evil", {"metadata": {"labels": {pods.OPT: "true"}}}, RED)


@pytest.mark.parametrize("attempt", [
    patched(COMPOSABILITY_REQUESTS, "request-1", {"spec": {"resource": {"size": 9}}}),
    patched(COMPOSABLE_RESOURCES, "gpu-1", {"spec": {"force_detach": True}}),
    patched(COMPOSABLE_RESOURCES, "gpu-1", notes(cohdi.HELD_FOR, cohdi.ATTACH, cohdi.RELEASE, cohdi.NODE)),
    patched(COMPOSABLE_RESOURCES, "gpu-1", {"status": {"cdi_device_id": "mine"}}, None, "status"),
    lambda red: red.create(COMPOSABILITY_REQUESTS, asking("mine")),
    lambda red: red.create(COMPOSABLE_RESOURCES, resource("mine")),
    lambda red: red.delete(COMPOSABLE_RESOURCES, "gpu-1"),
    lambda red: red.create(RULES, rule("gpu-1-taint")),
    lambda red: red.create(SLICES, slice_body("mine", "a100-fabric1")),
    lambda red: red.create(SLICES, slice_body("mine", "node-1", nodeName="node-1")),
    lambda red: red.delete(SLICES, "of-node"),
], ids=["a size", "force", "the notes", "the device", "a request", "a resource", "a resource less", "a taint", "a pool",
        "a node's devices", "a slice less"])
def test_way_25_writes_what_devices_are_and_where(tenants: Tenants, attempt: Try) -> None:
    refused(tenants, attempt)


ALLOCATION = {"devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-0",
                                       "device": "gpu-0"}]}}


@pytest.mark.parametrize("status", [
    {"allocation": ALLOCATION}, {"devices": [{**DEVICE, "conditions": [CONDITION]}]},
    {"reservedFor": [{"resource": "pods", "name": "evil", "uid": "x"}]},
], ids=["an allocation", "a condition", "who it is for"])
def test_way_26_gives_its_claim_a_device(tenants: Tenants, status: Json) -> None:
    refused(tenants, patched(CLAIMS, "evil", {"status": status}, RED, "status"))
    tenants.red.merge_patch(CLAIMS, "evil", {"status": status}, RED)
    assert not tenants.admin.get(CLAIMS, "evil", RED).get("status")


@pytest.mark.parametrize("attempt", [
    patched(PODS, "evil", {"status": {"nominatedNodeName": "node-0"}}, RED, "status"),
    lambda red: red.raw("POST", f"/api/v1/namespaces/{RED}/pods/evil/binding", {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "evil"},
        "target": {"kind": "Node", "name": "node-0"}}),
    patched(PODS, "train", {"spec": {"schedulingGates": None}}, OTHERS),
    lambda red: red.delete(PODS, "train", OTHERS),
    patched(CLAIMS, "train", {"metadata": {"finalizers": ["red.example/mine"]}}, OTHERS),
    patched(NODES, "node-0", {"metadata": {"labels": {"cohdi.io/fabric": "9"}}}),
    patched(NODES, "node-0", {"metadata": {"labels": {"cohdi.io/a100-size-min": "9"}}}),
], ids=["the node tried first", "a node", "another's gate", "another's pod", "another's claim", "a fabric",
        "a minimum"])
def test_way_27_places_its_pod_or_displaces_others(tenants: Tenants, attempt: Try) -> None:
    refused(tenants, attempt)


@pytest.mark.parametrize("attempt", [
    patched(GATE_LEASES, "composable-infra-gates", {"spec": {"holderIdentity": "red"}}, OURS),
    lambda red: red.delete(GATE_LEASES, "composable-infra-gates", OURS),
    lambda red: red.create(GATE_LEASES, body("composable-infra-gates", gate_lease("x"))),
    patched(LEASES, "composable-infra-scaler", {"spec": {"holderIdentity": "red"}}, OURS),
    lambda red: red.create(LEASES, lease("node-agent-node-1")),
    patched(NAMESPACES, RED, {"metadata": {"labels": {pods.OPT: "true"}}}),
], ids=["the GateLease", "no GateLease", "a GateLease of its own", "who leads", "an agent", "opts in"])
def test_way_28_decides_whose_pods_are_held(tenants: Tenants, attempt: Try) -> None:
    refused(tenants, attempt)


@pytest.mark.parametrize(("kind", "namespace"), [
    (CLAIMS, OTHERS), (CLAIMS, None), (PODS, OTHERS), (PODS, None), (EVENTS, OTHERS), (EVENTS, OURS), (SLICES, None),
    (COMPOSABLE_RESOURCES, None), (COMPOSABILITY_REQUESTS, None), (NODES, None), (GATE_LEASES, OURS), (LEASES, OURS),
    (SECRETS, OURS), (CONFIG_MAPS, OURS), (PODS, OURS),
], ids=lambda value: value.plural if isinstance(value, ApiResource) else str(value))
def test_way_29_reads_what_others_have(tenants: Tenants, kind: ApiResource, namespace: str | None) -> None:
    refused(tenants, lambda red: red.list(kind, namespace=namespace))


def bound(name: str, role: str) -> Json:
    return {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": RED}]}


@pytest.mark.parametrize("attempt", [
    lambda red: red.raw("POST", f"/api/v1/namespaces/{OURS}/serviceaccounts/composable-infra/token",
                        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
    lambda red: red.create(PODS, tenants_pod("mine", OURS)),
    lambda red: red.create(BINDINGS, bound("mine", "composable-infra-operator")),
    lambda red: red.create(ROLE_BINDINGS, {**body("mine", bound("mine", "composable-infra-operator")),
                                           "kind": "RoleBinding"}),
    lambda red: red.delete(POLICIES, "composable-infra-nodes"),
    lambda red: red.delete(POLICY_BINDINGS, "composable-infra-nodes"),
    lambda red: red.raw("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}}),
], ids=["a token", "a pod beside", "a ClusterRoleBinding", "a RoleBinding", "no policy", "no policy's binding",
        "a token's owner"])
def test_way_30_becomes_a_controller(tenants: Tenants, attempt: Try) -> None:
    refused(tenants, attempt)


def test_running_pod_with_devices_is_not_deleted_at_once(tenants: Tenants) -> None:
    """Its containers would run on beside those of the next pod that has its device. Way 32 tries it on a kubelet."""
    hasty = tenants_pod("runs", seconds=0)
    refused(tenants, lambda red: red.create(PODS, hasty))  # an eviction takes the grace period of the pod
    extended = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}]}
    refused(tenants, lambda red: red.create(PODS, {**hasty, "spec": {"terminationGracePeriodSeconds": 0, **extended}}))
    tenants.admin.create(PODS, {**hasty, "spec": {**hasty["spec"], "nodeName": "node-1"}})
    path, at_once = PODS.path("runs", RED), {"gracePeriodSeconds": 0}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", **body("runs", {"metadata": {}})}
    refused(tenants, lambda red: red.raw("DELETE", path, at_once))
    refused(tenants, lambda red: red.raw("POST", f"{path}/eviction", {**eviction, "deleteOptions": at_once}))
    refused(tenants, lambda red: red.delete(PODS, "runs", RED))
    tenants.red.raw("DELETE", path, {"gracePeriodSeconds": 1})
    plain = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0, "nodeName": "node-1"}
    tenants.red.create(PODS, {**tenants_pod("plain"), "spec": plain})
    tenants.red.raw("DELETE", PODS.path("plain", RED), at_once)


def test_red_is_not_the_account_that_it_says(tenants: Tenants) -> None:
    """As long as it may not impersonate, the policies for our accounts do not speak of it."""
    answer = tenants.stage.lab.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{RED}:tenant", "resourceAttributes": {
            "group": "", "resource": "serviceaccounts", "namespace": OURS, "verb": "impersonate"}}})
    assert not answer["status"]["allowed"]
