# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shipped for a cluster: CRDs that keep the neighbours' wire format, and rights that are no wider than said."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents, shipped_documents
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting import sums
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines import waits_keeper
from ansible_collections.composable.infra.tests.unit.lab.deploy_support import (
    GROUP,
    allowed,
    of_kind,
    schema,
)

ROLES = ("composable-infra-publisher", "composable-infra-scaler", "composable-infra-operator")


def test_namespace_comes_before_what_lives_in_it() -> None:
    kinds = [item["kind"] for item in shipped_documents()]
    assert kinds[0] == "Namespace"
    assert "ServiceAccount" in kinds


def test_request_schema() -> None:
    properties = schema("composabilityrequests")
    resource = properties["spec"]["properties"]["resource"]
    assert sorted(resource["required"]) == ["model", "size", "type"]
    assert resource["properties"]["type"]["enum"] == ["gpu", "cxlmemory"]
    assert resource["properties"]["allocation_policy"]["default"] == "samenode"
    assert resource["properties"]["size"]["minimum"] == 0
    assert properties["status"]["properties"]["scalarResource"] == resource
    assert properties["status"]["properties"]["resources"]["additionalProperties"]["required"] == ["state"]


def test_resource_schema() -> None:
    properties = schema("composableresources")
    assert sorted(properties["spec"]["required"]) == ["model", "target_node", "type"]
    assert set(properties["status"]["properties"]) == {"state", "error", "device_id", "cdi_device_id", "conditions"}


@pytest.mark.parametrize("plural", ["composabilityrequests", "composableresources"])
def test_every_field_is_described(plural: str) -> None:
    def walk(node: Any, path: str) -> None:
        for name, child in node.get("properties", {}).items():
            assert child.get("description") or name == "metadata", f"{path}.{name}"
            walk(child, f"{path}.{name}")

    walk({"properties": schema(plural)}, "")


@pytest.mark.parametrize("role", ROLES)
def test_no_role_has_wildcards_or_reads_secrets(role: str) -> None:
    rights = allowed(role)
    assert not any("*" in resource or "*" in verbs for resource, verbs in rights.items())
    assert not {"/secrets", "/configmaps", "/pods/exec"} & rights.keys()
    for rule in of_kind("ClusterRole")[role]["rules"]:
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_publisher_owns_slices_and_labels_nodes() -> None:
    rights = allowed(ROLES[0])
    assert rights["resource.k8s.io/resourceslices"] == {"get", "list", "watch", "create", "update", "delete"}
    assert rights["/nodes"] == {"get", "list", "watch", "patch"}
    assert "resource.k8s.io/resourceclaims/status" not in rights


def test_scaler_may_write_conditions_of_the_vendors_driver_and_our_own_only() -> None:
    rights = allowed(ROLES[1])
    (driver,) = [
        rule for rule in of_kind("ClusterRole")[ROLES[1]]["rules"] if rule["resources"] == ["resourceclaims/driver"]
    ]
    assert driver["resourceNames"] == ["gpu.nvidia.com", "devices.composable.infra"]
    assert sorted(driver["verbs"]) == ["arbitrary-node:patch", "arbitrary-node:update"]
    assert rights["/pods/status"] == {"patch"}
    assert "create" not in rights["resource.k8s.io/resourceclaims"]
    assert "delete" not in rights[f"{GROUP}/composabilityrequests"]


def test_operator_owns_the_custom_resources_and_not_the_slices() -> None:
    rights = allowed(ROLES[2])
    assert rights[f"{GROUP}/composableresources"] == {"get", "list", "watch", "create", "patch", "delete"}
    assert rights[f"{GROUP}/composabilityrequests"] == {"get", "list", "watch", "patch"}
    for resource in ("composabilityrequests", "composableresources"):
        assert rights[f"{GROUP}/{resource}/status"] == {"patch"}
    assert rights["resource.k8s.io/resourceslices"] == {"get", "list", "watch"}
    assert rights["resource.k8s.io/devicetaintrules"] == {"create", "delete", "list"}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_is_bound_to_its_own_account_and_to_that_of_all(role: str) -> None:
    binding = of_kind("ClusterRoleBinding")[role]
    assert binding["roleRef"]["name"] == role
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": name, "namespace": "composable-infra"} for name in ("composable-infra", role)
    ]
    assert {"composable-infra", role} <= of_kind("ServiceAccount").keys()


def test_leases_are_allowed_in_our_namespace_only() -> None:
    roles = of_kind("Role")
    assert {role["metadata"]["namespace"] for role in roles.values()} == {"composable-infra"}
    (gates,) = roles.pop("composable-infra-gates")["rules"]
    assert (gates["apiGroups"], gates["resources"]) == (["composable.infra"], ["gateleases"])
    assert gates["verbs"] == ["get", "create", "update"]
    (waits,) = roles.pop("composable-infra-waits")["rules"]
    assert (waits["resources"], waits["verbs"]) == (["configmaps"], ["get", "patch"])
    (usage,) = roles.pop("composable-infra-usage")["rules"]
    assert (usage["resources"], usage["verbs"]) == (waits["resources"], waits["verbs"])
    assert [*waits["resourceNames"], *usage["resourceNames"]] == [*of_kind("ConfigMap")] == [
        waits_keeper.NAME, sums.NAME]
    (role,) = roles.values()
    assert [rule["resources"] for rule in role["rules"]] == [["leases"]]
    assert not any("coordination.k8s.io/leases" in allowed(name) for name in ROLES)


def test_parameter_of_the_gates_policy_is_a_kind_of_our_own() -> None:
    """Each API server watches all objects of a parameter's kind: of Leases, one for each node, renewed every 10 s."""
    kinds = {item["spec"]["names"]["kind"]: item["spec"] for item in of_kind("CustomResourceDefinition").values()}
    for item in documents(DEPLOY / "gates" / "policy.yaml"):
        if item["kind"] == "MutatingAdmissionPolicy":
            wanted = item["spec"]["paramKind"]
            crd = kinds[wanted["kind"]]
            assert wanted["apiVersion"] == f"{crd['group']}/{crd['versions'][0]['name']}"
            properties = crd["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            assert {"holderIdentity", "renewTime", "leaseDurationSeconds"} <= properties.keys()
