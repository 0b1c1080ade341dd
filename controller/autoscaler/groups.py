# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which real nodes belong to which group, and which have to be left out so that Cluster Autoscaler's loop goes on.

Source for both reasons: Cluster Autoscaler 1.36.1, ``simulator/node_info_utils.go`` (a node whose pod has a claim from
a pool that is not its own cannot be made a template, and the loop ends) and ``processors/customresources`` (a node with
fewer pools of its own than the template is never ready).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, slices
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState

Json = dict[str, t.Any]


class NodeGroups:
    """The groups of real nodes. Changes nothing in the state. ``leaving``: names of nodes that are being removed."""

    def __init__(self, groups: Sequence[NodeGroup], state: ClusterState) -> None:
        self.groups, self._state = {group.id: group for group in groups}, state
        self.leaving: set[str] = set()

    def of_labels(self, labels: Mapping[str, str]) -> NodeGroup | None:
        """The first group whose selector the labels meet."""
        return next((g for g in self.groups.values() if all(labels.get(k) == v for k, v in g.selector.items())), None)

    def of_node(self, name: str) -> NodeGroup | None:
        """The group that Cluster Autoscaler is told for a node; None for one that is left out."""
        raw = self._state.nodes.get(name)
        group = self.of_labels(raw["metadata"].get("labels") or {}) if raw else None
        return None if group is None or self.left_out(group, name) else group

    def all_members(self, group: NodeGroup) -> list[Json]:
        """The nodes of a group, also those that are left out."""
        return [raw for raw in self._state.nodes.list()
                if self.of_labels(raw["metadata"].get("labels") or {}) is group]

    def members(self, group: NodeGroup) -> list[Json]:
        """The nodes of a group that Cluster Autoscaler knows of, those that are being removed included."""
        return [raw for raw in self.all_members(group) if not self.left_out(group, raw["metadata"]["name"])]

    def size(self, group: NodeGroup) -> int:
        """How many of them stay."""
        return sum(raw["metadata"]["name"] not in self.leaving for raw in self.members(group))

    def left_out(self, group: NodeGroup, name: str) -> str:
        """Why Cluster Autoscaler must not see a node now, empty when it may."""
        if pool := next(self._foreign_pools(name), ""):
            return f"a pod there has a claim from pool {pool}, which is not the node's own"
        if (lacking := self._lacking(name)) and any(
                not self._lacking(raw["metadata"]["name"]) for raw in self.all_members(group)):
            return f"it publishes no ResourceSlice of driver {lacking}, and others of its group do"
        return ""

    def _foreign_pools(self, name: str) -> Iterator[str]:
        """Pools that are not the node's own from which pods there, bound or nominated, have claims."""
        for pod in self._state.pods.by("node", name):
            for claim in self._state.claims_by_entry(pod).values():
                for result in claims.results(claim) if claim else ():
                    if self._state.settings.of_pool(result["pool"]) or self._state.slices.by("pool", result["pool"]):
                        yield str(result["pool"])

    def _lacking(self, name: str) -> str:
        """A driver of which the node has no whole pool of its own; an empty one counts."""
        there = {slices.driver(item) for item in self._state.slices.by("node", name) if self._is_whole(item)}
        return next((driver for driver in self._state.settings.drivers if driver not in there), "")

    def _is_whole(self, item: Json) -> bool:
        pool = item["spec"]["pool"]
        own = [each for each in self._state.slices.by("node", slices.node(item) or "")
               if each["spec"]["pool"]["name"] == pool["name"]
               and each["spec"]["pool"]["generation"] == pool["generation"]]
        return len(own) >= int(pool["resourceSliceCount"])
