# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups of real nodes, and the nodes that Cluster Autoscaler must not see, because they would
stop its loop.

Source for both reasons: Cluster Autoscaler 1.36.1. By ``simulator/node_info_utils.go``, a node
cannot be a template if one of its pods has a claim from a pool of another owner, and the loop ends.
By ``processors/customresources``, a node with fewer pools of its own than the template is never
ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.model.slice import Slice
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DRIVER_LABEL
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class Membership:
    """The nodes and their groups at one moment.

    ``group_of``: id of the group by node. ``left_out``: why Cluster Autoscaler must not see a node,
    by node. ``shown``: nodes that it may see, by group.
    """

    group_of: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def without(self, name: str) -> Membership:
        """Return the same without one node."""
        return Membership({node: group for node, group in self.group_of.items() if node != name},
                          {node: why for node, why in self.left_out.items() if node != name},
                          {group: names - {name} for group, names in self.shown.items()})


class NodeGroups:
    """The groups of real nodes, as of the last ``look``. Changes nothing in the state.

    Cluster Autoscaler requests each node in each of its loops. ``leaving``: names of nodes that are
    being removed, which no longer count. ``away``: those of them that are switched off while their
    Node object still exists.
    """

    def __init__(self, groups: Sequence[NodeGroup], state: ClusterState) -> None:
        self.groups, self._state = {group.id: group for group in groups}, state
        self.leaving: set[str] = set()
        self.away: set[str] = set()
        self._seen = Membership()

    def look(self) -> None:
        """Read which nodes exist now, and which of them must be left out."""
        here = {node.name: group for node in self._state.nodes.each_value() if (group := self.of_labels(node.labels))}
        left_out = self._left_out({name: group.id for name, group in here.items()})
        shown = {each: frozenset(name for name, group in here.items() if group.id == each and name not in left_out)
                 for each in self.groups}
        self._seen = Membership({name: group.id for name, group in here.items()}, left_out, shown)

    def forget(self, name: str) -> None:
        """Forget a node that was being removed and is gone.

        The size of its group stays the same.
        """
        self._seen = self._seen.without(name)
        self.leaving.discard(name)
        self.away.discard(name)

    def bring_back(self, name: str) -> None:
        """Count a node that was switched off and runs again.

        Cluster Autoscaler sees it in its next loop.
        """
        self.forget(name)

    def registered(self, group: NodeGroup) -> list[Node]:
        """Return the current nodes of a group, without nodes that are switched off."""
        return [node for node in self.all_members(group) if node.name not in self.away]

    def of_labels(self, labels: Mapping[str, str]) -> NodeGroup | None:
        """Return the first group with a selector that the labels meet, None for none."""
        return next((g for g in self.groups.values() if all(labels.get(k) == v for k, v in g.selector.items())), None)

    def of_node(self, name: str) -> NodeGroup | None:
        """Return a node's group for Cluster Autoscaler, None if the node is left out."""
        group = self._seen.group_of.get(name)
        return None if group is None or name in self._seen.left_out else self.groups[group]

    def node(self, name: str) -> Node | None:
        """Return a node as it is now, None if it does not exist."""
        return self._state.nodes.value(name)

    def group_now(self, name: str) -> NodeGroup | None:
        """Return the group of an existing node, also if the node is left out."""
        node = self.node(name)
        return self.of_labels(node.labels) if node else None

    def all_members(self, group: NodeGroup) -> list[Node]:
        """Return the current nodes of a group, also those that are left out."""
        return [node for node in self._state.nodes.each_value() if self.of_labels(node.labels) is group]

    def members(self, group: NodeGroup) -> list[Node]:
        """Return the nodes of a group that Cluster Autoscaler sees, also those that are being
        removed.
        """
        found = (self._state.nodes.value(name) for name in sorted(self._seen.shown.get(group.id, ())))
        return [node for node in found if node]

    def size(self, group: NodeGroup) -> int:
        """Return how many of these nodes stay."""
        shown = self._seen.shown.get(group.id, frozenset())
        return len(shown) - len(shown & self.leaving)

    def count_left_out(self, group: NodeGroup) -> int:
        """Return how many nodes of a group Cluster Autoscaler does not see."""
        return sum(self._seen.group_of.get(name) == group.id for name in self._seen.left_out)

    def _left_out(self, group_of: Mapping[str, str]) -> dict[str, str]:
        """Return by node name why Cluster Autoscaler must not see the node now."""
        lacking = {name: driver for name in group_of if (driver := self._lacking(name))}
        publishing = {group for name, group in group_of.items() if name not in lacking}
        found = {name: f"it publishes no ResourceSlice of driver {driver}, but other nodes of its group do"
                 for name, driver in lacking.items() if group_of[name] in publishing}
        found |= dict.fromkeys(self.away & group_of.keys(), "it is switched off")
        found |= {name: f"a pod on it has a claim from pool {pool}, which is not the pool of the node"
                  for name, pool in self._foreign_pools() if name in group_of}
        return found

    def _foreign_pools(self) -> Iterator[tuple[str, str]]:
        """Yield (node, pool) of pods, bound or nominated, with claims from pools that belong to no
        node.
        """
        for claim in self._state.claims.each_value():
            pool = next((result.pool for result in claim.results if self._is_foreign(result.pool)), "")
            for _name, uid in claim.pods if pool else ():
                pod = self._state.pods.first_value("uid", uid)
                if pod and (node := pod.node or pod.nominated):
                    yield node, pool

    def _is_foreign(self, pool: str) -> bool:
        return bool(self._state.settings.of_pool(pool) or self._state.slices.values("pool", pool))

    def _lacking(self, name: str) -> str:
        """Return a driver without a complete pool on the node, empty for none.

        An empty pool counts.

        If models have several drivers, only the driver that the node's label names counts.
        """
        node = self._state.nodes.value(name)
        labels = node.labels if node else {}
        wanted = sorted({m.driver_on(labels.get(DRIVER_LABEL) or "") for m in self._state.settings.models})
        there = {found.driver for found in self._state.slices.values("node", name) if self._is_whole(found)}
        return next((driver for driver in wanted if driver not in there), "")

    def _is_whole(self, found: Slice) -> bool:
        own = [each for each in self._state.slices.values("node", found.node)
               if (each.pool, each.generation) == (found.pool, found.generation)]
        return len(own) >= found.count
