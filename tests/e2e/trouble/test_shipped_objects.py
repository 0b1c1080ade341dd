# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our CRDs at a real API server: each rule refuses with a message that says what to do, what CoHDI's parts write
passes, and ``kubectl get`` shows the columns. And our FlowSchemas: which account has which priority level.

The bodies of CoHDI's parts are those that their Go types give (``api/v1alpha1/*_types.go`` of
composable-resource-operator 38251b7): a field without ``omitempty`` is always there, and a status that is not written
yet goes along.
"""

from __future__ import annotations

import typing as t
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
CRO = "/apis/cro.hpsys.ibm.ie.com/v1alpha1"
REQUESTS, RESOURCES = f"{CRO}/composabilityrequests", f"{CRO}/composableresources"
GATES = "/apis/composable.infra/v1alpha1/namespaces/default/gateleases"
FINALIZER = "com.ie.ibm.hpsys/finalizer"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# What Go writes for a status that nobody has written yet.
EMPTY_STATUS: Json = {"state": "", "scalarResource": {"type": "", "model": "", "size": 0}}


@pytest.fixture(scope="module")
def api(stage_factory: StageFactory) -> Api:
    """An administrator's connection; nobody else is at work there."""
    return stage_factory(nodes=1, hands="none").lab.api


def request(name: str, **more: t.Any) -> Json:
    spec = {"type": "gpu", "model": "A100 40G", "size": 1, "target_node": "node-0", **more}
    return {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest",
            "metadata": {"name": name}, "spec": {"resource": {k: v for k, v in spec.items() if v is not None}}}


def resource(name: str, **more: t.Any) -> Json:
    return {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "composability-x"}},
            "spec": {"type": "gpu", "model": "A100 40G", "target_node": "node-0", **more}, "status": {"state": ""}}


def gate(name: str, **spec: t.Any) -> Json:
    return {"apiVersion": "composable.infra/v1alpha1", "kind": "GateLease", "metadata": {"name": name}, "spec": spec}


def refused(api: Api, method: str, path: str, body: Json, content_type: str = "application/json") -> str:
    with pytest.raises(ApiRefusal) as caught:
        api.request(method, path, body, content_type)
    assert caught.value.status == 422
    return str(caught.value)


@pytest.mark.parametrize(("field", "value"), [("type", "cxlmemory"), ("model", "T4"), ("target_node", "node-1")])
def test_what_a_resource_stands_for_is_immutable(api: Api, field: str, value: str) -> None:
    path = f"{RESOURCES}/fixed-{field.replace('_', '-')}"
    api.request("POST", RESOURCES, resource(path.rpartition("/")[2]))
    said = refused(api, "PATCH", path, {"spec": {field: value}}, MERGE)
    assert f"spec.{field}: Forbidden: {field} is immutable" in said
    assert "delete the ComposableResource, and its device is returned" in said
    api.request("PATCH", path, {"spec": {"force_detach": True}}, MERGE)
    assert api.get(path)["spec"]["force_detach"] is True


def test_policy_and_node_exclude_each_other(api: Api) -> None:
    said = refused(api, "POST", REQUESTS, request("two-words", allocation_policy="differentnode"))
    assert "spec.resource.target_node: Invalid value" in said
    assert "target_node is not allowed with the allocation_policy differentnode" in said
    assert "leave one of them out" in said
    api.request("POST", REQUESTS, request("spread", allocation_policy="differentnode", target_node=None))
    assert "leave one of them out" in refused(
        api, "PATCH", f"{REQUESTS}/spread", {"spec": {"resource": {"target_node": "node-0"}}}, MERGE)
    api.request("POST", REQUESTS, request("empty-node", allocation_policy="differentnode", target_node=""))


def test_request_may_be_edited_as_upstream_allows(api: Api) -> None:
    """Upstream plans an edited request anew, also with another model, node or policy; so none of these is immutable."""
    api.request("POST", REQUESTS, request("edited"))
    for change in ({"model": "T4"}, {"target_node": "node-1"}, {"size": 0}, {"force_detach": True},
                   {"allocation_policy": "differentnode", "target_node": None}, {"other_spec": {"milli_cpu": 5}}):
        api.request("PATCH", f"{REQUESTS}/edited", {"spec": {"resource": change}}, MERGE)


def test_gate_lease_with_a_holder_has_its_times(api: Api) -> None:
    said = refused(api, "POST", GATES, gate("no-time", holderIdentity="me"))
    assert "needs renewTime and leaseDurationSeconds" in said
    whole = {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000000Z", "leaseDurationSeconds": 15,
             "leaseTransitions": 3}
    api.request("POST", GATES, gate("whole", **whole))
    assert "never decreases" in refused(api, "PATCH", f"{GATES}/whole", {"spec": {"leaseTransitions": 2}}, MERGE)
    api.request("PATCH", f"{GATES}/whole", {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}, MERGE)
    api.request("POST", GATES, gate("nobody"))


def test_writes_of_upstreams_scaler_pass(api: Api) -> None:
    """createNewComposabilityRequestCR, PatchComposabilityRequestSize, the annotation of a use."""
    body = request("x", allocation_policy=None)
    body["metadata"] = {"generateName": "composability-", "creationTimestamp": None}
    made = api.request("POST", REQUESTS, {**body, "status": EMPTY_STATUS})
    assert made["spec"]["resource"]["allocation_policy"] == "samenode"
    path = f"{REQUESTS}/{made['metadata']['name']}"
    size = [{"op": "replace", "path": "/spec/resource/size", "value": 4}]
    assert api.request("PATCH", path, size, JSON_PATCH)["spec"]["resource"]["size"] == 4
    api.request("POST", RESOURCES, resource("gpu-used"))
    stamp = {"metadata": {"annotations": {"cohdi.io/last-used-time": "2026-01-02T03:04:05Z"}}}
    api.request("PATCH", f"{RESOURCES}/gpu-used", stamp, MERGE)


def test_writes_of_upstreams_operator_pass(api: Api) -> None:
    """A request and its child from the first state to the last, each write a PUT of all that its Go type has."""
    api.request("POST", REQUESTS, request("whole-life"))
    _put(api, f"{REQUESTS}/whole-life", "", finalizers=[FINALIZER], status=EMPTY_STATUS)
    wanted = {"type": "gpu", "model": "A100 40G", "size": 1, "allocation_policy": "samenode", "target_node": "node-0"}
    child: Json = {"state": "", "node_name": "node-0"}
    for status in ({"state": "NodeAllocating", "scalarResource": wanted}, {"state": "Updating", "error": "waits"},
                   {"state": "Running", "resources": {"gpu-1": {**child, "state": "Online", "device_id": "GPU-1",
                                                                "cdi_device_id": "1"}}},
                   {"state": "NodeAllocating"}, {"state": "Cleaning"}, {"state": "Deleting"}):
        _put(api, f"{REQUESTS}/whole-life", "/status", status={"scalarResource": wanted, **status})
    api.request("POST", RESOURCES, resource("gpu-whole-life"))
    _put(api, f"{RESOURCES}/gpu-whole-life", "", finalizers=[FINALIZER], status={"state": ""})
    for status in ({"state": "Attaching"}, {"state": "Attaching", "device_id": "GPU-1", "cdi_device_id": "1"},
                   # an empty serial number of the manager: upstream asks again, and writes the second device
                   {"state": "Attaching", "cdi_device_id": "2"}, {"state": "Online", "error": "Critical"},
                   {"state": "Detaching"}, {"state": "Deleting"}):
        _put(api, f"{RESOURCES}/gpu-whole-life", "/status", status=status)
    for path in (f"{REQUESTS}/whole-life", f"{RESOURCES}/gpu-whole-life"):
        api.request("DELETE", path)
        _put(api, path, "", finalizers=[], status=EMPTY_STATUS if "requests" in path else {"state": ""})
        assert not api.exists(path)


def test_writes_of_upstreams_syncer_pass(api: Api) -> None:
    body = resource("x", force_detach=False)
    body["metadata"] = {"generateName": "gpu-0000", "labels": {"cohdi.io/ready-to-detach-device-id": "GPU-9",
                                                               "cohdi.io/ready-to-detach-cdi-device-id": "9"}}
    made = api.request("POST", RESOURCES, body)
    _put(api, f"{RESOURCES}/{made['metadata']['name']}", "/status",
         status={"state": "Attaching", "device_id": "GPU-9", "cdi_device_id": "9"})


def test_upstreams_whole_status_takes_our_condition_away_and_is_valid(api: Api) -> None:
    """Its Go types do not know conditions; what it writes says nothing about an older generation."""
    api.request("POST", RESOURCES, resource("gpu-both"))
    ready = {"type": "Ready", "status": "True", "reason": "Online", "message": "", "observedGeneration": 1,
             "lastTransitionTime": "2026-01-02T03:04:05Z"}
    api.request("PATCH", f"{RESOURCES}/gpu-both/status", {"status": {"state": "Online", "conditions": [ready]}}, MERGE)
    assert api.get(f"{RESOURCES}/gpu-both")["status"]["conditions"] == [ready]
    _put(api, f"{RESOURCES}/gpu-both", "/status", status={"state": "Online"})
    assert api.get(f"{RESOURCES}/gpu-both")["status"] == {"state": "Online"}


def _put(api: Api, path: str, subresource: str, **changes: t.Any) -> None:
    """As controller-runtime's Update: the object as it was read, with what changed."""
    body = api.get(path)
    if "finalizers" in changes:
        body["metadata"]["finalizers"] = changes["finalizers"]
    if "status" in changes:
        body["status"] = changes["status"]
    api.request("PUT", path + subresource, body)


def columns(api: Api, path: str, wide: bool) -> dict[str, t.Any]:
    """The cells of one object by column, as ``kubectl get`` has them from the server, without the age."""
    table = api.request("GET", path, accept=TABLE)
    shown = {column["name"]: cell for column, cell in
             zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True) if wide or not column["priority"]}
    assert shown.pop("Age")
    return shown


def test_columns_of_kubectl_get(api: Api) -> None:
    api.request("POST", REQUESTS, request("columns"))
    api.request("PATCH", f"{REQUESTS}/columns/status", {"status": {"state": "Updating", "error": "no free device",
                "conditions": [_ready("False", "Updating", "no free device")]}}, MERGE)
    found = {"Name": "columns", "Model": "A100 40G", "Node": "node-0", "Wanted": 1, "State": "Updating",
             "Ready": "False"}
    assert columns(api, f"{REQUESTS}/columns", wide=False) == found
    assert columns(api, f"{REQUESTS}/columns", wide=True) == {**found, "Policy": "samenode", "Error": "no free device"}
    api.request("POST", RESOURCES, resource("gpu-columns"))
    api.request("PATCH", f"{RESOURCES}/gpu-columns/status", {"status": {
        "state": "Online", "device_id": "GPU-1", "cdi_device_id": "d-1", "error": "",
        "conditions": [_ready("True", "Online", "")]}}, MERGE)
    found = {"Name": "gpu-columns", "Model": "A100 40G", "Node": "node-0", "State": "Online", "Ready": "True",
             "Device": "GPU-1"}
    assert columns(api, f"{RESOURCES}/gpu-columns", wide=False) == found
    assert columns(api, f"{RESOURCES}/gpu-columns", wide=True) == {
        **found, "Request": "composability-x", "CDI Device": "d-1", "Error": ""}


def _ready(status: str, reason: str, message: str) -> Json:
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z"}


def test_columns_of_a_gate_lease(api: Api) -> None:
    api.request("POST", GATES, gate("columns", holderIdentity="me", renewTime="2026-01-02T03:04:05.000000Z",
                                    leaseDurationSeconds=15, leaseTransitions=2))
    found = columns(api, f"{GATES}/columns", wide=True)
    assert found.pop("Renewed")
    assert found == {"Name": "columns", "Holder": "me", "Duration": 15, "Transitions": 2}


def test_all_our_kinds_are_one_category(api: Api) -> None:
    """``kubectl get composable-infra``."""
    found = {each["name"] for group in (CRO, "/apis/composable.infra/v1alpha1") for each in api.get(group)["resources"]
             if "composable-infra" in (each.get("categories") or ())}
    assert found == {"composabilityrequests", "composableresources", "gateleases"}


FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
ACCOUNT = "system:serviceaccount:composable-infra:"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:composable-infra", "system:authenticated")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/composable-infra/leases/composable-infra-scaler"
GATE_LEASE = "/apis/composable.infra/v1alpha1/namespaces/composable-infra/gateleases/composable-infra-gates"


def level(api: Api, account: str, path: str) -> tuple[str, str]:
    """FlowSchema and priority level that the API server counts a GET under."""
    found = api.answer_headers(path, account, *GROUPS)
    kinds = ("flowschemas", "prioritylevelconfigurations")
    names = {item["metadata"]["uid"]: item["metadata"]["name"] for kind in kinds
             for item in api.get(f"{FLOWS}/{kind}")["items"]}
    return (names[found["X-Kubernetes-PF-FlowSchema-UID"]], names[found["X-Kubernetes-PF-PriorityLevel-UID"]])


def _has(api: Api, account: str, wanted: tuple[str, str]) -> bool:
    return level(api, account, "/apis/resource.k8s.io/v1/resourceslices") == wanted


def test_each_account_has_its_priority_level(api: Api) -> None:
    scaler, slices = ACCOUNT + "composable-infra-scaler", "/apis/resource.k8s.io/v1/resourceslices"
    assert level(api, scaler, slices) == ("service-accounts", "workload-low"), "so it is without ours"
    for document in documents(DEPLOY / "flowcontrol" / "flowschemas.yaml"):
        api.apply(document)
    ours = ("composable-infra", "composable-infra")
    for name in ("", "-publisher", "-scaler", "-operator", "-agent", "-gate-reaper"):
        account = f"{ACCOUNT}composable-infra{name}"
        wait_for(f"{account} has our level", partial(_has, api, account, ours))
        assert level(api, account, "/version") == ours
    for path in (LEASE, GATE_LEASE):
        assert level(api, scaler, path) == ("composable-infra-leases", "leader-election")
    assert level(api, ACCOUNT + "composable-infra-agent", LEASE) == ours
    assert level(api, scaler, LEASE.replace("namespaces/composable-infra", "namespaces/default")) == ours
    assert level(api, "system:serviceaccount:default:composable-infra-scaler", slices) == (
        "service-accounts", "workload-low"), "an account of another namespace"


def test_flow_schemas_name_levels_that_are_there(api: Api) -> None:
    def dangling() -> dict[str, str]:
        return {item["metadata"]["name"]: condition["status"] for item in api.get(f"{FLOWS}/flowschemas")["items"]
                for condition in (item.get("status") or {}).get("conditions") or ()
                if condition["type"] == "Dangling" and item["metadata"]["name"].startswith("composable-infra")}

    wait_for("both are judged", lambda: dangling() == {"composable-infra": "False", "composable-infra-leases": "False"})
