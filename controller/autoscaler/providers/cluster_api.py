# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add and remove nodes of a MachineDeployment of Cluster API, with any infrastructure, such as
Metal3.

Source: cluster-api v1.14, ``api/core/v1beta2``. When replicas become fewer, a Machine with the
annotation ``cluster.x-k8s.io/delete-machine`` is deleted first
(``internal/controllers/machineset/machineset_delete_policy.go``).
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider, Registered
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

DELETE_MACHINE = "cluster.x-k8s.io/delete-machine"
DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
# Machines for which replicas were lowered. It is written together with the replicas, so that none
# counts twice.
REMOVED = "composable.infra/removed-machines"
VERSIONS = ("v1beta2", "v1beta1")
ATTEMPTS = 5
Found = t.TypeVar("Found")


def cluster_api(group: NodeGroup, client: Client, registered: Registered) -> NodeProvider:
    """Return the provider of a group.

    Its settings are ``machine_deployment``, ``namespace`` and ``api_version`` (of
    ``cluster.x-k8s.io``). Raises BadSetting.
    """
    found = _MachineDeployment(client, _text(group, "namespace"), _text(group, "machine_deployment"),
                               _version(group), registered)
    return NodeProvider(found.coming, found.grow, found.shrink)


def _text(group: NodeGroup, key: str) -> str:
    value = group.provider.get(key)
    if not isinstance(value, str) or not value:
        raise BadSetting(f"nodes.{group.id}.provider.{key}", value, "must be a name")
    return value


def _version(group: NodeGroup) -> str:
    value = group.provider.get("api_version", VERSIONS[0])
    if value not in VERSIONS:
        raise BadSetting(f"nodes.{group.id}.provider.api_version", value, f"must be one of {', '.join(VERSIONS)}")
    return str(value)


class _MachineDeployment:
    """A MachineDeployment. Replicas beyond the registered nodes count as coming."""

    def __init__(self, client: Client, namespace: str, name: str, version: str, registered: Registered) -> None:
        self._client, self._namespace, self._name, self._registered = client, namespace, name, registered
        self._kind = ApiResource(f"cluster.x-k8s.io/{version}", "machinedeployments", "MachineDeployment", True)
        self._machines = ApiResource(f"cluster.x-k8s.io/{version}", "machines", "Machine", True)

    def coming(self) -> int:
        """Return how many replicas are no nodes yet.

        A node that leaves stays registered for a while, though it is no replica any more.
        """
        raw = self._read()
        gone = set(_removed(raw))
        leaving = {_node(machine) for machine in self._all_machines()
                   if machine["metadata"].get("deletionTimestamp") or machine["metadata"]["name"] in gone}
        staying = sum(node.name not in leaving for node in self._registered())
        return max(0, int(raw["spec"].get("replicas") or 0) - staying)

    def grow(self, count: int) -> None:
        """Add ``count`` replicas."""
        self._change(lambda raw: {"spec": {"replicas": int(raw["spec"].get("replicas") or 0) + count}})

    def shrink(self, node: str) -> None:
        """Remove the Machine of a node, and one replica with it."""
        machine = self._machine_of(node)
        if machine is None or machine["metadata"].get("deletionTimestamp"):
            return
        name = machine["metadata"]["name"]
        self._try(lambda: self._client.merge_patch(
            self._machines, name, {"metadata": {"annotations": {DELETE_MACHINE: "true"}}}, self._namespace))
        self._change(lambda raw: _without(raw, name))

    def _machine_of(self, node: str) -> Json | None:
        return next((raw for raw in self._all_machines() if _node(raw) == node), None)

    def _all_machines(self) -> list[Json]:
        return self._try(lambda: self._client.list(
            self._machines, namespace=self._namespace, label_selector=f"{DEPLOYMENT_LABEL}={self._name}")).items

    def _read(self) -> Json:
        return self._try(lambda: self._client.get(self._kind, self._name, self._namespace))

    def _change(self, change: Callable[[Json], Mapping[str, t.Any]]) -> None:
        """Change the object as it was read, so that no other client's change of the replicas is
        lost.
        """
        for _unused in range(ATTEMPTS):
            raw = self._read()
            body: Json = dict(change(raw))
            if not body:
                return
            body["metadata"] = {**body.get("metadata", {}), "resourceVersion": raw["metadata"]["resourceVersion"]}
            try:
                self._client.merge_patch(self._kind, self._name, body, self._namespace)
                return
            except Conflict:
                continue
            except ApiError as error:
                raise ProviderError(f"MachineDeployment {self._namespace}/{self._name}: {error}") from None
        raise ProviderError(f"cannot write MachineDeployment {self._namespace}/{self._name}: other clients changed it "
                            f"{ATTEMPTS} times meanwhile")

    def _try(self, call: Callable[[], Found]) -> Found:
        try:
            return call()
        except ApiError as error:
            raise ProviderError(f"MachineDeployment {self._namespace}/{self._name}: {error}") from None


def _without(raw: Json, machine: str) -> Json:
    """Return a patch that removes one replica for a machine, empty if that was written before."""
    removed = _removed(raw)
    if machine in removed:
        return {}
    replicas = max(0, int(raw["spec"].get("replicas") or 0) - 1)
    return {"spec": {"replicas": replicas},
            "metadata": {"annotations": {REMOVED: json.dumps([*removed, machine][-100:])}}}


def _removed(raw: Json) -> list[str]:
    """Return the names of the Machines for which the replicas of a MachineDeployment were lowered.
    """
    try:
        return [str(name) for name in json.loads(cohdi.annotation(raw, REMOVED) or "[]")]
    except (ValueError, TypeError):
        return []


def _node(machine: Json) -> str:
    """Return the name of a Machine's node, empty if it has none yet."""
    return str(((machine.get("status") or {}).get("nodeRef") or {}).get("name") or "")
