# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider without gRPC.

It has vertical groups, which never own a node, and the groups of the real nodes.

Cluster Autoscaler always takes the node template of a group without nodes from the provider. So the
template of a vertical group has the most devices that a node could have, and Cluster Autoscaler
never caches a real node instead. Source: Cluster Autoscaler 1.36.1,
``processors/nodeinfosprovider/mixed_nodeinfos_processor.go``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansible_collections.composable.infra.controller.autoscaler.cluster import Cluster
from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.providers.orders import NodeOrders
from ansible_collections.composable.infra.controller.autoscaler.providers.table import provider_of
from ansible_collections.composable.infra.controller.autoscaler.requests import RequestWriter
from ansible_collections.composable.infra.controller.autoscaler.scale_down import ScaleDowns
from ansible_collections.composable.infra.controller.autoscaler.scale_up import ScaleUps
from ansible_collections.composable.infra.controller.autoscaler.template import (
    existing_devices,
    most_devices,
    template_node,
)
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import NodeOption
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import (
    AutoscalerConfig,
    NodeGroup,
    VerticalGroup,
)

log = logging.getLogger("composable.infra")
Told = tuple[str, int, int, str]
# Seconds of past Events that are read for pods for which Cluster Autoscaler adds nothing.
UNTRIGGERED_SECONDS = 60.0


class Provider:
    """The provider of a process.

    Methods raise Refused, and ApiError if the cluster cannot be written.

    ``providers_every``: seconds between two requests for the pending orders of the providers of
    nodes.
    """

    providers_every = 5.0

    def __init__(self, cluster: Cluster, config: AutoscalerConfig, measurements: Measurements) -> None:
        self._cluster, self._config, self._groups = cluster, config, cluster.groups
        self._vertical = {group.id: group for group in config.vertical}
        providers: dict[str, NodeProvider] = {
            group.id: provider_of(group, cluster.client, self._registered(group)) for group in config.nodes}
        writer, self.orders = RequestWriter(cluster.client, cluster.state), NodeOrders(providers)
        now = cluster.state.now  # The controllers compare written times with their own clock.
        self.scale_ups = ScaleUps(cluster, writer, self.options, self.orders, config.provision_timeout, measurements,
                                  now)
        self.scale_downs = ScaleDowns(cluster.groups, cluster, writer, providers, config.scale_down, measurements, now)
        self._resumed, self._lock = False, threading.Lock()
        self._looked = -math.inf
        measurements.ask(self._observed)

    def _registered(self, group: NodeGroup) -> t.Callable[[], Sequence[Node]]:
        return lambda: self._groups.registered(group)

    def refresh(self) -> None:
        """Prepare for a loop of Cluster Autoscaler.

        Raises Refused until cluster and CDI Manager were read.
        """
        self._cluster.require_ready()
        self._resume()
        self._groups.look()

    def _resume(self) -> None:
        with self._lock:
            if not self._resumed:
                self._groups.look()
                self.scale_downs.resume()
                self.scale_ups.resume(self._vertical)
                self._cluster.read_ahead()
                self._resumed = True

    def step(self) -> None:
        """Continue the open scale-ups and scale-downs, without calls to providers of nodes.

        Raises ApiError. The next step then repeats the work.
        """
        if self._cluster.may_act():
            self._resume()
            self.scale_ups.step()
            self.scale_downs.step()

    def serve_nodes(self) -> None:
        """Order and remove nodes by the providers of nodes, which may take long.

        Raises ApiError.
        """
        if not self._cluster.may_act():
            return
        self._resume()
        self.orders.carry_out()
        if time.monotonic() - self._looked >= self.providers_every:
            self._looked = time.monotonic()
            self.orders.look()
            self.scale_downs.remove()

    def serve_untriggered(self) -> None:
        """Attach devices for pods for which Cluster Autoscaler adds nothing. Raises ApiError."""
        if self._cluster.may_act():
            self.scale_ups.serve_untriggered(self._cluster.state.now() - UNTRIGGERED_SECONDS)

    def options(self) -> tuple[NodeOption, ...]:
        """Return the nodes that can be added, by the last answers of the providers."""
        found = []
        for group in self._config.nodes:
            if (coming := self.orders.ahead(group.id)) is None:
                continue
            room = max(0, group.max_size - len(self._groups.registered(group)) - coming)
            if room or coming:
                found.append(self._cluster.option(group, coming, room))
        return tuple(found)

    def groups(self) -> list[Told]:
        """Return (id, smallest size, largest size, description) of each group."""
        vertical = [self._told_vertical(group) for group in self._vertical.values()]
        return vertical + [self._told(group) for group in self._groups.groups.values()]

    def _told_vertical(self, group: VerticalGroup) -> Told:
        """Describe a vertical group.

        Its largest size is what fabric and providers can still add.
        """
        target = self.scale_ups.target(group.id)
        left = self._cluster.free_devices() + sum(option.room for option in self.options())
        return group.id, 0, min(group.max_size, target + left), "devices of the fabric, or a node"

    def _told(self, group: NodeGroup) -> Told:
        """Describe a group of real nodes.

        Its largest size is its size, so Cluster Autoscaler never grows it.

        Otherwise its real nodes would be its template.
        """
        size = self._groups.size(group)
        return group.id, min(group.min_size, size), max(size, 1), "real nodes"

    def group_of(self, node: str) -> Told | None:
        """Return the description of a node's group, None if the node has no group, or is left out.
        """
        group = self._groups.of_node(node)
        return self._told(group) if group else None

    def target_size(self, group: str) -> int:
        """Return the target size of a group. During a call that raises it, this is the new size."""
        if group in self._vertical:
            return self.scale_ups.target(group)
        return self._groups.size(self._node_group(group))

    def increase(self, group: str, delta: int) -> None:
        """Raise the target of a vertical group by ``delta`` (positive), and start to serve waiting
        pods.
        """
        if delta < 1:
            raise Refused(Kind.INVALID_ARGUMENT, f"the delta is {delta}, but must be positive")
        if group not in self._vertical:
            raise Refused(Kind.FAILED_PRECONDITION, f"group {self._node_group(group).id} cannot be increased. "
                          "Increase a vertical group, which decides between a device and a node")
        self.scale_ups.increase(group, delta)

    def decrease(self, group: str, delta: int) -> None:
        """Lower the target of a vertical group by ``delta`` (negative), and wait for fewer nodes.
        """
        if delta >= 0:
            raise Refused(Kind.INVALID_ARGUMENT, f"the delta is {delta}, but must be negative")
        if group not in self._vertical:
            raise Refused(Kind.INVALID_ARGUMENT, f"group {self._node_group(group).id} waits for no node")
        self.scale_ups.decrease(group, -delta)

    def delete(self, group: str, nodes: Sequence[tuple[str, str]]) -> None:
        """Delete nodes of a group. ``nodes``: (name, providerID) of each.

        Nodes of a vertical group are instances that could not be created. Raises Refused if a node
        has another providerID now, because another machine has its name.
        """
        if group in self._vertical:
            strange = self.scale_ups.drop(group, [provider_id for _name, provider_id in nodes])
            if strange:
                raise Refused(Kind.NOT_FOUND, f"group {group} has no instance {', '.join(strange)}")
            return
        found = self._node_group(group)
        known = {node.name: node.provider_id for node in self._groups.all_members(found)}
        others = [f"node {name} has the providerID {known[name]!r}, not {provider_id!r}" for name, provider_id in nodes
                  if provider_id and known.get(name, provider_id) != provider_id]
        if others:
            raise Refused(Kind.FAILED_PRECONDITION, "; ".join(others))
        self.scale_downs.delete(found, [name for name, _provider_id in nodes])

    def running(self, group: str) -> list[tuple[str, bool]]:
        """Return (providerID, leaves) of each node of a group. A vertical group has none."""
        if group in self._vertical:
            return []
        return [(node.provider_id, node.name in self._groups.leaving)
                for node in self._groups.members(self._node_group(group))]

    def failed(self, group: str) -> list[tuple[str, str, int, str]]:
        """Return (id, code, class, reason) of each instance that could not be created."""
        return self.scale_ups.failed(group) if group in self._vertical else []

    def template(self, group: str) -> Node:
        """Return the Node that a new node of the group would be."""
        if vertical := self._vertical.get(group):
            there = [node for node in self._cluster.state.nodes.each_value()
                     if vertical.selector.items() <= node.labels.items()]
            devices = (existing_devices(self._cluster.state, vertical.shape.devices) if vertical.shape.devices
                       else most_devices(self._cluster.state, there))
            return template_node(f"{group}-template", replace(vertical.shape, devices=devices), there,
                                 vertical.selector)
        found = self._node_group(group)
        return template_node(f"{group}-template", found.shape, self._groups.all_members(found), found.selector)

    def _node_group(self, name: str) -> NodeGroup:
        if name not in self._groups.groups:
            raise Refused(Kind.NOT_FOUND, f"group {name} does not exist")
        return self._groups.groups[name]

    def _observed(self) -> Mapping[str, Mapping[str, float]]:
        vertical = {name: float(self.scale_ups.target(name)) for name in self._vertical}
        real = {group.id: float(self._groups.size(group)) for group in self._config.nodes}
        left = {group.id: float(self._groups.count_left_out(group)) for group in self._config.nodes}
        return {"target_size": vertical | real, "nodes_left_out": left, "spare_watts": dict(self.scale_downs.watts)}
