# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider ``cluster-api`` with the real controllers of Cluster API: a MachineDeployment grows and shrinks by it.

Machines are a stand-in's (lab/autoscaling/cluster_api.py), the Nodes are played by kwok. The provider has the account
of the shipped RBAC.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.providers.table import provider_of
from ansible_collections.composable.infra.lab.autoscaling import cluster_api as capi
from ansible_collections.composable.infra.lab.binaries.cluster_api import find_manager
from ansible_collections.composable.infra.lab.binaries.gobuild import find_go
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import nodes
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup, Shape
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"nodes": 1}
HOOK = {"pre-drain.delete.hook.machine.cluster.x-k8s.io/test": "holds it"}
SECONDS = 180.0


class Deployment:
    """The MachineDeployment on the lab, and our provider for it."""

    def __init__(self, stage: Stage) -> None:
        self.api, self._client = stage.lab.api, stage.client
        account = stage.lab.service_account_kubeconfig("composable-infra", "composable-infra-autoscaler")
        group = NodeGroup(capi.DEPLOYMENT, Shape(), selector=capi.POOL, provider={
            "kind": "cluster-api", "namespace": capi.NAMESPACE, "machine_deployment": capi.DEPLOYMENT})
        self.provider: NodeProvider = provider_of(group, Client(Connection.load(str(account))), self.nodes)

    def nodes(self) -> list[Node]:
        """The group's Node objects."""
        return [nodes.read(raw) for raw in self._client.list(NODES).items
                if capi.POOL.items() <= (raw["metadata"].get("labels") or {}).items()]

    def ready(self) -> list[str]:
        """Names of those that are ready."""
        return sorted(node.name for node in self.nodes() if node.ready)

    def machines(self) -> dict[str, Json]:
        """Machine by the node it is."""
        listed = self.api.get(f"{capi.CORE}/machines")["items"]
        return {raw["status"]["nodeRef"]["name"]: raw for raw in listed if (raw.get("status") or {}).get("nodeRef")}

    def has(self, count: int) -> bool:
        """Whether so many nodes are ready, and each Machine knows its own and is available."""
        machines = self.api.get(f"{capi.CORE}/machines")["items"]
        return (len(self.ready()) == len(self.nodes()) == len(machines) == count
                and len(self.machines()) == sum(available(raw) for raw in machines) == count)

    def wait(self, count: int) -> list[str]:
        """The names of the nodes once there are so many."""
        wait_for(f"{count} nodes", lambda: self.has(count), SECONDS)
        return self.ready()

    def replicas(self) -> int:
        """As the spec says."""
        return int(self.api.get(f"{capi.CORE}/machinedeployments/{capi.DEPLOYMENT}")["spec"]["replicas"])

    def annotate(self, node: str, notes: dict[str, str | None]) -> None:
        """Annotate the Machine of a node."""
        machine = self.machines()[node]["metadata"]["name"]
        self.api.request("PATCH", f"{capi.CORE}/machines/{machine}", {"metadata": {"annotations": notes}}, capi.MERGE)


def available(machine: Json) -> bool:
    """Whether Cluster API counts on a Machine."""
    return any(each["type"] == "Available" and each["status"] == "True"
               for each in (machine.get("status") or {}).get("conditions") or ())


@pytest.fixture(scope="module")
def deployment(stage: Stage) -> Iterator[Deployment]:
    """A MachineDeployment of two whose nodes are ready."""
    if find_go() is None:
        pytest.skip("Cluster API's controllers and CRDs come from its Go module, and there is no go command")
    binary = find_manager(print)
    capi.install(stage.lab)
    OPENED.add(capi.manager(stage, binary))
    infrastructure = capi.Infrastructure(stage.lab)
    try:
        capi.create_cluster(stage.lab, 2)
        found = Deployment(stage)
        found.wait(2)
        yield found
        assert infrastructure.faults == []
    finally:
        infrastructure.stop()
        OPENED.stop_all()


def test_it_grows_and_what_is_coming_is_known_until_it_is_a_node(deployment: Deployment) -> None:
    before = deployment.wait(2)
    assert deployment.provider.coming() == 0
    deployment.provider.grow(1)
    assert deployment.provider.coming() == 1
    after = deployment.wait(3)
    assert set(before) < set(after)
    assert (deployment.replicas(), deployment.provider.coming()) == (3, 0)


@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_the_machine_of_the_named_node_goes_and_no_other(deployment: Deployment, which: int) -> None:
    if len(deployment.ready()) < 3:
        deployment.provider.grow(1)
    names = deployment.wait(3)
    gone = names[which]
    deployment.provider.shrink(gone)
    deployment.provider.shrink(gone)
    assert deployment.wait(2) == sorted(set(names) - {gone})
    assert (deployment.replicas(), deployment.provider.coming()) == (2, 0)


def test_node_that_is_ordered_while_another_leaves_is_known(deployment: Deployment) -> None:
    """Cluster API makes its Machine only when the other one is gone; until then it must not be ordered once more."""
    names = deployment.wait(2)
    deployment.annotate(names[0], dict(HOOK))
    deployment.provider.shrink(names[0])
    wait_for("the Machine is on its way", lambda: deployment.machines()[names[0]]["metadata"].get("deletionTimestamp"))
    assert (deployment.provider.coming(), len(deployment.nodes())) == (0, 2), "it is a node still"
    deployment.provider.grow(1)
    assert (deployment.provider.coming(), deployment.replicas()) == (1, 2)
    deployment.annotate(names[0], dict.fromkeys(HOOK))
    wait_for("the old node is gone", lambda: names[0] not in deployment.ready(), SECONDS)
    assert names[1] in deployment.wait(2)
    assert deployment.provider.coming() == 0


def test_rollout_orders_nothing(deployment: Deployment) -> None:
    """A Machine more than there are replicas comes first, and one of the old ones goes then, node by node."""
    before = deployment.wait(2)
    seen: set[int] = set()
    anew = {"spec": {"template": {"spec": {"bootstrap": {"dataSecretName": "join-anew"}}}}}
    deployment.api.request("PATCH", f"{capi.CORE}/machinedeployments/{capi.DEPLOYMENT}", anew, capi.MERGE)

    def replaced() -> bool:
        seen.add(deployment.provider.coming())
        return not set(before) & set(deployment.ready()) and deployment.has(2)

    wait_for("all nodes are others", replaced, SECONDS)
    assert seen == {0}
    assert deployment.replicas() == 2
