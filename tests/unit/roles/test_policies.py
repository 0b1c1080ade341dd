# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose writes an API server judges by the shipped policies: all that our accounts may write, and no heartbeats.

A policy is evaluated for every write that its rules match, whoever writes; only then its conditions say whose it is.
"""

from __future__ import annotations

import ast
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import VENDORS

Json = dict[str, t.Any]
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
# What a policy has no part in: resourceclaims/driver and /binding are asked of RBAC alone, a ConfigMap is named by it,
# and reviews store nothing. Whoever writes the status of a custom resource changes nothing else of it, and it is the
# operator's.
BY_RBAC_ALONE = {"resourceclaims/driver", "resourceclaims/binding", "configmaps", "tokenreviews",
                 "subjectaccessreviews", "composabilityrequests/status", "composableresources/status"}


@dataclass(frozen=True)
class Write:
    """``resource``: with its subresource; ``namespace``: empty for an object of the cluster, and for any."""

    group: str
    resource: str
    operation: str
    namespace: str = ""


def objects(kind: str) -> Iterator[tuple[Path, Json]]:
    for path in sorted(DEPLOY.glob("*/*.yaml")):
        for document in documents(path):
            if document["kind"] == kind:
                yield path, document


POLICIES = {policy["metadata"]["name"]: policy["spec"] for _path, policy in objects("ValidatingAdmissionPolicy")}


def matching(write: Write) -> set[str]:
    """Names of the policies that an API server evaluates for a write."""
    return {name for name, spec in POLICIES.items() if _in_namespaces(spec["matchConstraints"], write.namespace)
            and any(_is_of(rule, write) for rule in spec["matchConstraints"]["resourceRules"])}


def _in_namespaces(constraints: Json, namespace: str) -> bool:
    """Objects of the cluster match every selector of namespaces. Source: NamespaceSelector of MatchResources."""
    selector = constraints.get("namespaceSelector") or {}
    assert selector.keys() <= {"matchExpressions"}
    for each in selector.get("matchExpressions", ()):
        assert (each["key"], each["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        if namespace in each["values"]:
            return False
    return True


def _is_of(rule: Json, write: Write) -> bool:
    """As rules of webhooks: ``*`` is every resource without a subresource, ``pods/*`` every subresource of pods."""
    plain, _sep, sub = write.resource.partition("/")
    wanted = {write.resource, f"{plain}/*" if sub else "*", "*/*"}
    return (bool({write.group, "*"} & {*rule["apiGroups"]}) and bool({write.operation, "*"} & {*rule["operations"]})
            and bool(wanted & {*rule["resources"]}))


def granted() -> Iterator[tuple[str, Write]]:
    """What each role of ours lets its accounts write."""
    for kind in ("ClusterRole", "Role"):
        for path, role in objects(kind):
            for rule in role["rules"]:
                for group, resource, verb in ((g, r, v) for g in rule.get("apiGroups", ()) for r in rule["resources"]
                                              for v in rule["verbs"] if v in OPERATIONS):
                    if resource not in BY_RBAC_ALONE:
                        where = role["metadata"].get("namespace", "")
                        yield f"{path.parent.name}/{path.stem}", Write(group, resource, OPERATIONS[verb], where)


# By the folder and file of the role: the policies that say the rest of it, any one of them.
SAYS = {"agent/kubelet_plugin": {"composable-infra-agent-driver"}, "agent/plugin": {"composable-infra-agent"},
        "agent/rbac": {"composable-infra-agent"}, "autoscaler/rbac": {"composable-infra-autoscaler"},
        "provisioning/rbac": {"composable-infra-provisioning"}}


@pytest.mark.parametrize(("role", "write"), [*dict.fromkeys(granted())], ids=str)
def test_what_an_account_may_write_a_policy_judges(role: str, write: Write) -> None:
    others = ("agent", "autoscaler", "tenants")
    own = SAYS.get(role) or {name for name in POLICIES if not any(word in name for word in others)}
    assert matching(write) & own


@pytest.mark.parametrize("write", [
    Write("coordination.k8s.io", "leases", "UPDATE", "kube-node-lease"), Write("", "nodes/status", "UPDATE")], ids=str)
def test_heartbeats_of_kubelets_are_judged_by_none(write: Write) -> None:
    """At 5,000 nodes there are 500 of them in a second."""
    assert matching(write) == set()


def test_a_pods_status_is_judged_by_one() -> None:
    assert matching(Write("", "pods/status", "UPDATE", "default")) == {"composable-infra-pods"}


def test_an_agent_may_restart_the_plugins_of_all_vendors() -> None:
    (said,) = [each["expression"] for each in POLICIES["composable-infra-agent"]["validations"]
               if ".exists(plugin" in each["expression"]]
    listed = ast.literal_eval(said[said.index("[{"):said.index(".exists(plugin")])
    assert listed == [{**labels} for vendor in VENDORS for labels in vendor.plugin_selectors]
