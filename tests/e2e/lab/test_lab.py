# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's cluster: scheduling with claims, the shipped CRDs and rights, and what kwok plays."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
import urllib3
import yaml

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.binaries.releases import find_release
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.names import DRIVER
from ansible_collections.composable.infra.plugins.plugin_utils.stack import matrix
from ansible_collections.composable.infra.tests.e2e.support.lab_support import (
    SLICES,
    bare_pod,
    create_pod_with_claim,
    phase,
    wait_for,
)


def test_pod_runs_with_device_from_hand_published_slice(lab: Lab, lab_namespace: str) -> None:
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-by-hand"}}}
    pool = {"name": "by-hand", "generation": 1, "resourceSliceCount": 1}
    body = {
        "metadata": {"name": "by-hand"},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": "node-1", "devices": [device]},
    }
    lab.api.request("POST", SLICES, body)
    try:
        create_pod_with_claim(lab, lab_namespace, "wants-gpu")
        wait_for("a running pod", lambda: phase(lab, lab_namespace, "wants-gpu") == "Running")
        pod = lab.api.get(f"/api/v1/namespaces/{lab_namespace}/pods/wants-gpu")
        claim = lab.api.get(f"/apis/resource.k8s.io/v1/namespaces/{lab_namespace}/resourceclaims/wants-gpu")
        assert pod["spec"]["nodeName"] == "node-1"
        assert claim["status"]["allocation"]["devices"]["results"][0]["pool"] == "by-hand"
    finally:
        lab.api.request("DELETE", f"{SLICES}/by-hand")


def test_device_class_is_the_vendors_own(lab: Lab, lab_namespace: str) -> None:
    """It takes no other type, and a device without the attribute keeps every pod of the class waiting."""
    devices = [{"name": "mig", "attributes": {"type": {"string": "mig"}}},
               {"name": "pooled", "attributes": {"type": {"string": "gpu"}}}]
    pool = {"name": "mixed", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}
    lab.api.request("POST", SLICES, {"metadata": {"name": "mixed"}, "spec": spec})
    try:
        create_pod_with_claim(lab, lab_namespace, "any-gpu")
        wait_for("a running pod", lambda: phase(lab, lab_namespace, "any-gpu") == "Running")
        claim = lab.api.get(f"/apis/resource.k8s.io/v1/namespaces/{lab_namespace}/resourceclaims/any-gpu")
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "pooled"
        untyped = {**spec, "pool": {**pool, "name": "untyped"}, "devices": [{"name": "a", "attributes": {}}]}
        lab.api.request("POST", SLICES, {"metadata": {"name": "untyped"}, "spec": untyped})
        create_pod_with_claim(lab, lab_namespace, "waits")
        wait_for("the scheduler's reason", lambda: "no such key: type" in _unscheduled(lab, lab_namespace, "waits"))
    finally:
        for name in ("mixed", "untyped"):
            with contextlib.suppress(ApiRefusal):
                lab.api.request("DELETE", f"{SLICES}/{name}")


def _unscheduled(lab: Lab, namespace: str, name: str) -> str:
    conditions = lab.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"].get("conditions", ())
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


REQUESTS = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composabilityrequests"


def request_for(**resource: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": {"generateName": "composability-"},
        "spec": {"resource": {"type": "gpu", "model": "H100", "size": 1, **resource}},
    }


def test_request_gets_its_default_policy(lab: Lab) -> None:
    other = {"milli_cpu": 1, "memory": 0, "ephemeral_storage": 0, "allowed_pod_number": 2}
    written = lab.api.request("POST", REQUESTS, request_for(target_node="node-0", other_spec=other))
    lab.api.request("DELETE", f"{REQUESTS}/{written['metadata']['name']}")
    assert written["spec"]["resource"]["allocation_policy"] == "samenode"
    assert written["spec"]["resource"]["other_spec"] == other


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "nic"},
        {"size": -1},
        {"model": ""},
        {"allocation_policy": "roundrobin"},
        {"other_spec": {"memory": -1}},
        {"allocation_policy": "differentnode", "target_node": "node-0"},
    ],
)
def test_request_that_upstream_refuses_is_refused(lab: Lab, wrong: dict[str, Any]) -> None:
    with pytest.raises(ApiRefusal, match=r"spec\.resource"):
        lab.api.request("POST", REQUESTS, request_for(**wrong))


def test_binding_conditions_and_taint_rules_are_served(lab: Lab) -> None:
    conditions = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    device = {"name": "a", "bindsToNode": True, **conditions}
    pool = {"name": "conditions", "generation": 1, "resourceSliceCount": 1}
    body = {
        "metadata": {"name": "conditions"},
        "spec": {"driver": "test.example", "pool": pool, "allNodes": True, "devices": [device]},
    }
    written = lab.api.request("POST", SLICES, body)
    rule = {
        "metadata": {"name": "test-taint"},
        "spec": {"taint": {"key": "k8s.io/device-uuid", "effect": "NoSchedule"}, "deviceSelector": {"driver": "d"}},
    }
    heeded = matrix.lookup("kubernetes.taint_rules")[find_release(lab.description.kubernetes).series]
    rules = f"/apis/resource.k8s.io/{heeded['version']}/devicetaintrules"
    try:
        assert written["spec"]["devices"][0]["bindingConditions"] == ["Ready"]
        assert lab.api.request("POST", rules, rule)["spec"]["taint"]["effect"] == "NoSchedule"
    finally:
        lab.api.request("DELETE", f"{SLICES}/conditions")
        lab.api.request("DELETE", f"{rules}/test-taint")


def as_service_account(lab: Lab, path: str) -> int:
    """HTTP status that the controller's service account gets."""
    config = yaml.safe_load(lab.service_account_kubeconfig("composable-infra", "composable-infra").read_text())
    token = config["users"][0]["user"]["token"]
    ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    with urllib3.PoolManager(ca_cert_data=ca, retries=False) as http:
        reply = http.request("GET", lab.server + path, headers={"Authorization": f"Bearer {token}"})
    return reply.status


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/apis/resource.k8s.io/v1/resourceclaims", 200),
        ("/apis/cro.hpsys.ibm.ie.com/v1alpha1/composableresources", 200),
        ("/api/v1/nodes", 200),
        ("/api/v1/secrets", 403),
        ("/api/v1/namespaces/composable-infra/secrets", 403),
        ("/api/v1/configmaps", 403),
    ],
)
def test_service_account_has_the_shipped_rights_and_no_more(lab: Lab, path: str, status: int) -> None:
    assert as_service_account(lab, path) == status


def test_only_the_administrator_is_cluster_admin(lab: Lab) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    bindings = [entry for entry in lab.api.get(path)["items"] if entry["roleRef"]["name"] == "cluster-admin"]
    assert [subject["name"] for entry in bindings for subject in entry["subjects"]] == ["system:masters"]


def test_unknown_service_account_is_refused(lab: Lab) -> None:
    with pytest.raises(ApiRefusal, match="nobody"):
        lab.service_account_kubeconfig("composable-infra", "nobody")


def test_annotated_pod_completes(lab: Lab, lab_namespace: str) -> None:
    body = bare_pod("short", **{"lab.composable.infra/complete": "true"})
    lab.api.request("POST", f"/api/v1/namespaces/{lab_namespace}/pods", body)
    wait_for("a completed pod", lambda: phase(lab, lab_namespace, "short") == "Succeeded")


def test_what_is_there_is_removed_and_what_is_not_is_told(lab: Lab) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    lab.api.request("POST", path, {"metadata": {"name": "removed"}})
    assert lab.api.remove(f"{path}/removed")
    assert not lab.api.remove(f"{path}/removed")
    with pytest.raises(ApiRefusal):
        lab.api.remove("/api/v1/namespaces")
