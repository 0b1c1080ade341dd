# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's account as shipped: one process leads, and it may write what it needs and nothing else."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.autoscaler.requests import HARD, RequestWriter
from ansible_collections.composable.infra.lab.autoscaling import processes
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import LEASES, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, asked, is_ready, wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"nodes": 1, "devices": {A100: 1}, "handover": "reschedule", "hold": 600.0}
NODE = "node-0"
SITE = {"key": "site", "value": "x", "effect": "NoSchedule"}
TAINTED: Json = {"spec": {"taints": [SITE, {"key": HARD, "value": "1", "effect": "NoSchedule"}], "unschedulable": True}}


def test_second_process_waits_until_the_first_has_left(stage: Stage) -> None:
    certificates = processes.Certificates(stage.folder / "autoscaler-pki")
    first, _port = processes.provider(stage, processes.groups(), certificates)
    OPENED.add(first)
    second = OPENED.add(processes.start_provider(stage, processes.groups(), certificates, "provider-2"))
    second.wait_for("listening on")
    wait_for("it says who leads", lambda: "this process waits to lead" in asked(second, "/readyz")[1])
    assert asked(second, "/readyz")[0] == 503
    assert "answering Cluster Autoscaler" not in second.text()
    assert OPENED.stop(first) == 0
    second.wait_for("answering Cluster Autoscaler")
    wait_for("it is ready", lambda: is_ready(second))
    assert OPENED.stop(second) == 0


@pytest.fixture
def account(stage: Stage) -> Client:
    """The API server, as the provider sees it."""
    path = stage.lab.service_account_kubeconfig("composable-infra", "composable-infra-autoscaler")
    return Client(Connection.load(str(path), None))


@pytest.fixture
def drained(stage: Stage) -> Iterator[None]:
    """Cluster Autoscaler has tainted and cordoned the node, as before a deletion."""
    # The API server names who writes after the program that asks.
    its = Client(Connection.load(str(stage.lab.kubeconfig), None), user_agent="cluster-autoscaler/v1.34.0")
    its.merge_patch(NODES, NODE, TAINTED)
    yield
    stage.client.merge_patch(NODES, NODE, {"spec": {"taints": [], "unschedulable": None}})


@pytest.mark.usefixtures("drained")
def test_node_that_comes_back_is_freed(stage: Stage, account: Client) -> None:
    writer = RequestWriter(account, ClusterState(EngineConfig.from_dict(stage.config()).settings))
    wait_for("nobody changes the node meanwhile", lambda: writer.return_node(NODE))
    spec = stage.client.get(NODES, NODE)["spec"]
    taints = [taint["key"] for taint in spec.get("taints") or []]
    assert SITE["key"] in taints
    assert HARD not in taints
    assert not spec.get("unschedulable")


@pytest.mark.usefixtures("drained")
@pytest.mark.parametrize("spec", [
    {"taints": []}, {"taints": [*TAINTED["spec"]["taints"], {"key": "more", "effect": "NoExecute"}]},
    {"podCIDR": "10.9.0.0/24"}], ids=["the site's taint away", "one more taint", "another network"])
def test_nothing_else_of_a_nodes_spec_is_changed(account: Client, spec: Json) -> None:
    with pytest.raises(ApiError, match=r"takes away the taint|may not update podCIDR|node updates may only change"):
        account.merge_patch(NODES, NODE, {"spec": spec})


def test_node_is_not_cordoned(account: Client) -> None:
    with pytest.raises(ApiError, match="takes away the taint ToBeDeletedByClusterAutoscaler and the cordon only"):
        account.merge_patch(NODES, NODE, {"spec": {"unschedulable": True}})


def test_leases_of_others_are_not_written(account: Client) -> None:
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "composable-infra-scaler", "namespace": "composable-infra"},
            "spec": {"holderIdentity": "stranger"}}
    with pytest.raises(ApiError, match="creates only ComposabilityRequests of size 0 and its own Lease"):
        account.create(LEASES, body, namespace="composable-infra")
