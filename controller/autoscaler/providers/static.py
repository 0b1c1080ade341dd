# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power spare machines on and off by Redfish.

The kubelet of a running machine joins the cluster by itself, or a job of AWX runs a playbook of the
site that joins it. A machine that is on and is no node counts as coming, unless it was requested to
shut down. The Node object of a machine that was switched off may stay. Such a node does not count
(``NodeGroups.registered``).

The provider launches the job before it powers the machine on, and the playbook waits for the host.
After a crash between the two, no call waits for a machine without a job. The job gets only names.
The credential with which a kubelet joins belongs to the job's template.

Source: DMTF DSP0266, ComputerSystem.Reset, and AWX 24, ``/api/v2/job_templates/ID/launch/``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.awx import KINDS
from ansible_collections.composable.infra.controller.autoscaler.providers.http import Endpoint
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider, Registered
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

Json = Mapping[str, t.Any]
ON, OFF, JOIN = "On", "GracefulShutdown", "join"


def static(group: NodeGroup, _client: Client, registered: Registered) -> NodeProvider:
    """Return the provider of a group. Raises BadSetting.

    The setting ``machines`` lists for each machine node (its name in the cluster), endpoint, system
    (path of its ComputerSystem), ca_path, username and password_path. ``join`` has endpoint,
    token_path, ca_path, template and template_kind of AWX, as for the provider awx.
    """
    where, listed = f"nodes.{group.id}.provider.machines", group.provider.get("machines")
    if not isinstance(listed, list) or not listed:
        raise BadSetting(where, listed, "must list at least one machine")
    machines = [_machine(f"{where}[{i}]", each) for i, each in enumerate(listed)]
    found = _Machines(machines, _join(group), registered)
    return NodeProvider(found.coming, found.grow, found.shrink, found.removable)


def _machine(where: str, data: object) -> _Machine:
    if not isinstance(data, Mapping):
        raise BadSetting(where, data, "must be a mapping")
    for key in ("node", "system"):
        if not isinstance(data.get(key), str) or not data[key]:
            raise BadSetting(f"{where}.{key}", data.get(key), "must be a text and not empty")
    return _Machine(str(data["node"]), str(data["system"]), Endpoint(where, data))


def _join(group: NodeGroup) -> _Join | None:
    where, data = f"nodes.{group.id}.provider.join", group.provider.get("join")
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise BadSetting(where, data, "must be a mapping")
    number, kind = data.get("template"), data.get("template_kind", KINDS[0])
    endpoint = Endpoint(where, data)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise BadSetting(f"{where}.template", number, "must be the number of a template")
    if kind not in KINDS:
        raise BadSetting(f"{where}.template_kind", kind, f"must be one of {', '.join(KINDS)}")
    return _Join(endpoint, f"/api/v2/{kind}/{number}/launch/", number, group.id)


@dataclass(frozen=True, slots=True)
class _Join:
    """A template of AWX that joins a machine to the cluster once the machine can be reached."""

    endpoint: Endpoint
    path: str
    template: int
    group: str

    def launch(self, node: str) -> None:
        """Launch the job for a machine.

        Raises ProviderError, also if the template ignores the variable with the machine's name.
        """
        variables = {"node_action": JOIN, "node_group": self.group, "node_count": 1, "node_name": node}
        answer = self.endpoint.call("POST", self.path, {"extra_vars": variables})
        if ignored := (answer.get("ignored_fields") or {}).get("extra_vars"):
            raise ProviderError(f"{self.endpoint.url}: template {self.template} ignores the variables "
                                f"{', '.join(sorted(ignored))}. Turn on Prompt on launch for its variables")


@dataclass(frozen=True, slots=True)
class _Machine:
    node: str
    system: str
    endpoint: Endpoint

    def is_on(self) -> bool:
        """Return whether it runs, or starts."""
        return self.endpoint.call("GET", self.system).get("PowerState") in ("On", "PoweringOn")

    def reset(self, kind: str) -> None:
        """Request a change of its power."""
        self.endpoint.call("POST", f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})


class _Machines:
    """The listed machines, in their order."""

    def __init__(self, machines: list[_Machine], join: _Join | None, registered: Registered) -> None:
        self._machines, self._join, self._registered = machines, join, registered
        self._shut_down: set[str] = set()

    def _spare(self) -> list[_Machine]:
        there = {node.name for node in self._registered()}
        return [machine for machine in self._machines if machine.node not in there]

    def coming(self) -> int:
        """Return how many machines are on, are no nodes, and do not shut down."""
        return sum(machine.is_on() for machine in self._spare() if machine.node not in self._shut_down)

    def grow(self, count: int) -> None:
        """Power on the first machines that are off, each after the job that joins it."""
        off = [machine for machine in self._spare() if not machine.is_on()]
        if len(off) < count:
            raise ProviderError(f"cannot power on {count} machines of the list, because only {len(off)} are off")
        for machine in off[:count]:
            if self._join:
                self._join.launch(machine.node)
            machine.reset(ON)
            self._shut_down.discard(machine.node)

    def shrink(self, node: str) -> None:
        """Shut a node's machine down. Another component deletes the Node object."""
        machine = next(each for each in self._machines if each.node == node)
        if machine.is_on():
            machine.reset(OFF)
        self._shut_down.add(node)

    def removable(self, node: str) -> str:
        """Return why the node cannot be removed. Only listed machines may be powered off."""
        return "" if any(each.node == node for each in self._machines) else f"node {node} is not a machine of the list"
