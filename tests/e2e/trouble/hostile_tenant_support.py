# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_hostile_tenant.py` and others share."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.demo.stage import Stage, pod_body
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    NAMESPACES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for

Json = dict[str, t.Any]
RED, OURS, OTHERS = "red", "composable-infra", "default"
RBAC = "rbac.authorization.k8s.io/v1"
# What the ClusterRole edit is made of, also where nobody aggregates it.
EDIT = ("edit", "system:aggregate-to-edit", "system:aggregate-to-view")


class Tenants:
    """The administrator, and red, with the rights that a tenant has."""

    def __init__(self, stage: Stage) -> None:
        lab: Lab = stage.lab
        self.stage, self.admin = stage, stage.client
        self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RED}})
        post = lab.api.request
        self._accounts()
        rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims", "resourceclaimtemplates"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}
        post("POST", f"/apis/{RBAC}/namespaces/{RED}/roles", {"metadata": {"name": "claims"}, "rules": [rule]})
        for kind, name in (*(("ClusterRole", role) for role in EDIT), ("Role", "claims")):
            post("POST", f"/apis/{RBAC}/namespaces/{RED}/rolebindings", {
                "metadata": {"name": name.replace(":", "-")},
                "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": RED}]})
        self.red = Client(Connection.load(str(lab.service_account_kubeconfig(RED, "tenant"))))
        self.said = ""
        try:
            wait_for("the tenant has its rights", self._may_create_pods, 20.0)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said}") from None

    def _accounts(self) -> None:
        """Its own, and the one of its pods, which a cluster's controllers may make a moment later, or not at all."""
        for name in ("tenant", "default"):
            with contextlib.suppress(ApiRefusal):
                self.stage.lab.api.request("POST", f"/api/v1/namespaces/{RED}/serviceaccounts",
                                           {"metadata": {"name": name}})

    def _may_create_pods(self) -> bool:
        try:
            self.red.create(PODS, tenants_pod("probe"), dry_run=True)
        except Forbidden as error:
            self.said = error.message
            return False
        return True


def body(name: str, raw: Json, namespace: str = RED) -> Json:
    """An object of that name in a namespace."""
    return {**raw, "metadata": {**raw["metadata"], "name": name, "namespace": namespace}}


def tenants_pod(name: str, namespace: str = RED, seconds: int = 1) -> Json:
    """A pod for the claim of its name. ``seconds``: its grace period."""
    pod = body(name, pod_body(name, None), namespace)
    return {**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": seconds}}
