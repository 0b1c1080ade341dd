# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spare machines that are powered on and off by Redfish; their kubelet joins the cluster by itself when they run.

A playbook has prepared them before (``node_prepare`` and the site's own way to join). A machine that is on and is no
node is on its way, unless it was told to shut down. The Node object of one that was switched off may stay: such a node
counts as none (``NodeGroups.registered``). Source: DMTF DSP0266, ComputerSystem.Reset.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.http import Endpoint
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider, Registered
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

Json = Mapping[str, t.Any]
ON, OFF = "On", "GracefulShutdown"


def static(group: NodeGroup, _client: Client, registered: Registered) -> NodeProvider:
    """``machines``: each with node (its name in the cluster), endpoint, system (path of its ComputerSystem), ca_path,
    and username with password_path. Raises BadSetting."""
    where, listed = f"nodes.{group.id}.provider.machines", group.provider.get("machines")
    if not isinstance(listed, list) or not listed:
        raise BadSetting(where, listed, "must list at least one machine")
    found = _Machines([_machine(f"{where}[{i}]", each) for i, each in enumerate(listed)], registered)
    return NodeProvider(found.coming, found.grow, found.shrink, found.removable)


def _machine(where: str, data: object) -> _Machine:
    if not isinstance(data, Mapping):
        raise BadSetting(where, data, "must be a mapping")
    for key in ("node", "system"):
        if not isinstance(data.get(key), str) or not data[key]:
            raise BadSetting(f"{where}.{key}", data.get(key), "must be a text")
    return _Machine(str(data["node"]), str(data["system"]), Endpoint(where, data))


@dataclass(frozen=True, slots=True)
class _Machine:
    node: str
    system: str
    endpoint: Endpoint

    def is_on(self) -> bool:
        """Whether it runs, or begins to."""
        return self.endpoint.call("GET", self.system).get("PowerState") in ("On", "PoweringOn")

    def reset(self, kind: str) -> None:
        """Ask for a change of its power."""
        self.endpoint.call("POST", f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})


class _Machines:
    """The list, in its order."""

    def __init__(self, machines: list[_Machine], registered: Registered) -> None:
        self._machines, self._registered = machines, registered
        self._shut_down: set[str] = set()

    def _spare(self) -> list[_Machine]:
        there = {raw["metadata"]["name"] for raw in self._registered()}
        return [machine for machine in self._machines if machine.node not in there]

    def coming(self) -> int:
        """Machines that are on and no nodes, and do not shut down."""
        return sum(machine.is_on() for machine in self._spare() if machine.node not in self._shut_down)

    def grow(self, count: int) -> None:
        """Power the first ones on that are off."""
        off = [machine for machine in self._spare() if not machine.is_on()]
        if len(off) < count:
            raise ProviderError(f"{count} spare machines are needed, and {len(off)} are off")
        for machine in off[:count]:
            machine.reset(ON)
            self._shut_down.discard(machine.node)

    def shrink(self, node: str) -> None:
        """Shut a node's machine down; its Node object is deleted by whoever deletes nodes that are gone."""
        machine = next(each for each in self._machines if each.node == node)
        if machine.is_on():
            machine.reset(OFF)
        self._shut_down.add(node)

    def removable(self, node: str) -> str:
        """Only the machines of the list are ours to power off."""
        return "" if any(each.node == node for each in self._machines) else f"node {node} is no machine of the list"
