# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology spread constraints that forbid nodes. As kube-scheduler's
``framework/plugins/podtopologyspread``.

Matching pods are counted once per distinct constraint. The counts follow every pod that the plan
places.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..framework.node_info import Filter, NodeInfo, PlacedPods
from ..framework.pod_info import PodInfo, SpreadConstraint
from .node_affinity import matches_node
from .taint_toleration import untolerated_taint

MISSING_LABEL = "didn't match pod topology spread constraints (missing required label)"
SKEW = "didn't match pod topology spread constraints"


class _DomainCounts:
    """Matching pods per domain for one constraint, for pods with the same node signature."""

    def __init__(self, constraint: SpreadConstraint, nodes: list[NodeInfo]) -> None:
        self.constraint, self.nodes = constraint, frozenset(node.name for node in nodes)
        self.counts = dict.fromkeys((node.labels[constraint.topology_key] for node in nodes), 0)
        self._minimum: int | None = None

    def count(self, pod: PodInfo, node: NodeInfo, change: int) -> None:
        """Count a matching pod. As in kube-scheduler, an empty selector and a terminating pod count
        nothing.
        """
        selector = self.constraint.selector
        if pod.terminating or node.name not in self.nodes or selector.selects_everything:
            return
        if selector.selects(pod.labels):
            value = node.labels[self.constraint.topology_key]
            self.counts[value] = self.counts.get(value, 0) + change
            self._minimum = None

    def minimum(self) -> int:
        """Return the global minimum, 0 if there are fewer domains than ``minDomains``."""
        if len(self.counts) < self.constraint.min_domains:
            return 0
        if self._minimum is None:
            self._minimum = min(self.counts.values(), default=0)
        return self._minimum


class PodTopologySpread:
    """The plugin. ``placed`` and ``nodes`` belong to the caller, which calls ``update`` for each change
    of a pod and ``forget`` for each change of a Node."""

    def __init__(self, placed: PlacedPods, nodes: Mapping[str, NodeInfo]) -> None:
        self.placed, self.nodes = placed, nodes
        self._domains: dict[tuple[str, str, tuple[SpreadConstraint, ...]], list[_DomainCounts]] = {}

    def update(self, pod: PodInfo, node: NodeInfo, change: int) -> None:
        """Count a pod that came to a node (``change`` 1) or left it (-1).

        As AddPod and RemovePod of PreFilterExtensions.
        """
        for (namespace, _signature, _constraints), several in self._domains.items():
            if namespace == pod.namespace:
                for domains in several:
                    domains.count(pod, node, change)

    def forget(self) -> None:
        """Forget all counts, since a Node has changed."""
        self._domains.clear()

    @property
    def kept(self) -> int:
        """Return how many counts are kept."""
        return len(self._domains)

    def pre_filter(self, pod: PodInfo) -> Filter | None:
        """Return the filter for a pod, None if it has no constraint. It is valid until the next
        change.
        """
        if not pod.spread:
            return None
        # counts of each constraint, and how many pods a domain may have before this one
        limits = [(each.constraint.topology_key, each.counts,
                   each.constraint.max_skew + each.minimum() - int(each.constraint.selector.selects(pod.labels)))
                  for each in self._domains_of(pod)]

        def check(node: NodeInfo) -> str:
            for key, counts, most in limits:
                value = node.labels.get(key)
                if value is None:
                    return MISSING_LABEL
                if counts.get(value, 0) > most:
                    return SKEW
            return ""

        return check

    def _domains_of(self, pod: PodInfo) -> list[_DomainCounts]:
        """Return the counts for each constraint of the pod."""
        key = (pod.namespace, pod.node_signature, pod.spread)
        if key not in self._domains:
            several = self._domains[key] = [
                _DomainCounts(each, [node for node in self.nodes.values() if _counts_for(pod, each, node)])
                for each in pod.spread]
            for other, node in self.placed.get(pod.namespace, {}).values():
                for domains in several:
                    domains.count(other, node, 1)
        return self._domains[key]


def _counts_for(pod: PodInfo, constraint: SpreadConstraint, node: NodeInfo) -> bool:
    """Return whether the node's domain counts.

    The node must have the key of every constraint, and both policies must include it (KEP-3094).
    """
    spec = pod.raw["spec"]
    if any(each.topology_key not in node.labels for each in pod.spread):
        return False
    if constraint.honor_affinity and not matches_node(spec, node.name, node.labels):
        return False
    return not constraint.honor_taints or untolerated_taint(node.taints, spec.get("tolerations") or ()) is None
