# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handle the nodes that Cluster Autoscaler wants to delete.

A node is removed after its devices, or the node stays and its idle devices are returned. Cluster
Autoscaler drains before it calls. A node that stays is refused and annotated, since Cluster
Autoscaler would repeat a refused call every 20 s. Source: Cluster Autoscaler 1.36.1,
``core/scaledown/actuation``.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, ProviderError, Refused
from ansible_collections.composable.infra.controller.autoscaler.groups import NodeGroups
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.protocols import Marks, NodeView
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.requests import EXPECTING, KEPT, REMOVED, REMOVING
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_down import (
    ScaleDownDecision,
    ScaleDownPolicy,
    SpareNode,
    decide_scale_down,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

log = logging.getLogger("composable.infra")
# Cluster Autoscaler's taint on a node that it does not need. The value is the time
# (utils/taints/taints.go).
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"


class ScaleDowns:
    """The scale-downs of a process. Thread-safe.

    No lock is held during a call to a provider of nodes.
    """

    def __init__(self, groups: NodeGroups, view: NodeView, marks: Marks, providers: Mapping[str, NodeProvider],
                 policy: ScaleDownPolicy, measurements: Measurements, clock: Callable[[], float] = time.time) -> None:
        self._groups, self._view, self._marks, self._providers = groups, view, marks, providers
        self._policy, self._measurements, self._clock = policy, measurements, clock
        self._kept: dict[str, str] = {}
        self._expecting: set[str] = set()
        self._hinted: dict[str, str] = {}
        self._waits: dict[str, str] = {}
        self._told_to_go: set[str] = set()
        self._lock = threading.RLock()
        self.watts: Counter[str] = Counter()

    def resume(self) -> None:
        """Continue the work that an earlier process marked on the nodes. Raises ApiError."""
        with self._lock:
            for name, mark in self._marks.marked_nodes().items():
                if mark in (REMOVING, REMOVED):
                    self._groups.leaving.add(name)
                if mark == REMOVED:
                    self._groups.away.add(name)
                elif mark == EXPECTING:
                    self._expecting.add(name)
                elif mark == KEPT and (group := self._groups.group_now(name)):
                    self._kept[name] = group.id

    def delete(self, group: NodeGroup, names: Collection[str]) -> None:
        """Start to remove all of these nodes, or none.

        Raises Refused if a node stays, with the reason for each such node. Cluster Autoscaler then
        removes its taint from all nodes of the call. Raises ApiError if a node cannot be marked.
        Then no node is removed.
        """
        with self._lock:
            self._groups.look()
            strange = [name for name in names if self._groups.group_now(name) is not group]
            if strange:
                raise Refused(Kind.NOT_FOUND, f"group {group.id} has no node {', '.join(strange)}")
            decisions = self._decide(group, [name for name in names if name not in self._groups.leaving])
            kept = {name: decision for name, decision in decisions.items() if not decision.remove}
            for name, decision in (kept or decisions).items():
                self._note(group, name, decision)
            if not kept:
                self._begin(decisions)
                return
            for name in kept:
                self._keep(group, name)
        raise Refused(Kind.FAILED_PRECONDITION, "; ".join(decision.reason for decision in kept.values()))

    def _decide(self, group: NodeGroup, names: Sequence[str]) -> dict[str, ScaleDownDecision]:
        """Return the decision for each node, as if the nodes before it were gone."""
        found: dict[str, ScaleDownDecision] = {}
        for name in names:
            gone = sum(decision.remove for decision in found.values())
            found[name] = decide_scale_down(self._spare(group, name, gone), self._policy)
        return found

    def _spare(self, group: NodeGroup, name: str, gone: int) -> SpareNode:
        devices = list(self._view.devices(name))
        ready = sum(found == group.id for node, found in self._kept.items() if node != name)
        return SpareNode(name, self._groups.size(group) - gone, group.min_size, ready,
                         Counter(model for model, used in devices if not used), sum(used for _model, used in devices),
                         self._providers[group.id].removable(name), group.watts)

    def _begin(self, names: Collection[str]) -> None:
        """Mark all nodes before one is removed, so that a restarted process knows all of them."""
        try:
            for name in names:
                self._marks.remove_node(name)
        except ApiError:
            with contextlib.suppress(ApiError):
                for name in names:
                    self._marks.free_node(name)
            raise
        self._groups.leaving.update(names)

    def _keep(self, group: NodeGroup, name: str) -> None:
        self._marks.return_idle(name, self._clock())
        self._marks.keep_node(name)
        self._kept[name] = group.id

    def _note(self, group: NodeGroup, name: str, decision: ScaleDownDecision) -> None:
        self._measurements.count("scale_down_total", decision="remove" if decision.remove else "keep")
        self.watts[group.id] += round(decision.watts)
        log.info("ScaleDownDecided node %s: %s (saves %g W as configured)", name, decision.reason,
                 decision.watts)

    def step(self) -> None:
        """Follow the nodes that leave, unmark kept nodes in use, mark nodes to which devices come, and
        return unneeded nodes' idle devices.

        Raises ApiError.
        """
        with self._lock:
            for name in sorted(self._groups.leaving):
                self._follow(name)
            for name in sorted(self._kept):
                if any(used for _model, used in self._view.devices(name)):
                    self._marks.free_node(name)
                    del self._kept[name]
            self._hold_expecting()
            for group in self._groups.groups.values():
                for node in self._groups.all_members(group):
                    self._heed_hint(node)

    def _hold_expecting(self) -> None:
        """Mark the nodes to which devices come, and unmark those that have them.

        Cluster Autoscaler would otherwise cordon a node that it does not need before the device
        arrives there.
        """
        expecting = self._view.expecting() - self._kept.keys() - self._groups.leaving
        for name in sorted(expecting - self._expecting):
            if self._groups.node(name) is not None:
                self._marks.hold_node(name)
                self._expecting.add(name)
        for name in sorted(self._expecting - expecting):
            if name not in self._kept and name not in self._groups.leaving:
                self._marks.free_node(name)
            self._expecting.discard(name)

    def _follow(self, name: str) -> None:
        """Notice that a leaving node is gone, or is switched off, or runs again.

        A machine that was switched off may be switched on again. Its node then counts as any other.
        """
        node = self._groups.node(name)
        if node is None:
            log.info("NodeRemoved node %s: it is no longer in the cluster", name)
            self._groups.forget(name)
            self._told_to_go.discard(name)
        elif name in self._groups.away:
            if node.ready and self._marks.return_node(name):
                log.info("NodeReturned node %s: it is ready again", name)
                self._groups.bring_back(name)
        elif name in self._told_to_go and not node.ready:
            self._marks.note_removed(name)
            log.info("NodeRemoved node %s: it is switched off", name)
            self._groups.away.add(name)
            self._told_to_go.discard(name)

    def remove(self) -> None:
        """Remove the leaving nodes that have no devices and no pods. Providers may take long.

        Raises ApiError.
        """
        with self._lock:
            leaving = [(name, group) for name in sorted(self._groups.leaving - self._groups.away)
                       if (group := self._groups.group_now(name))]
        for name, group in leaving:
            if self._is_empty(name):
                self._shrink(group, name)

    def _is_empty(self, name: str) -> bool:
        """Return whether the node has no device and no pod.

        Evicted pods may take time to end, and new pods may come.
        """
        if any(True for _device in self._view.devices(name)):
            self._marks.return_idle(name, self._clock())
            return self._wait(name, "its devices are not returned to the fabric yet")
        there = self._view.pods_of(name)
        return self._wait(name, f"pods run on it: {', '.join(there[:3])}") if there else True

    def _wait(self, name: str, why: str) -> bool:
        if self._waits.get(name) != why:
            log.info("NodeWaits node %s: %s", name, why)
        self._waits[name] = why
        return False

    def _shrink(self, group: NodeGroup, name: str) -> None:
        self._waits.pop(name, None)
        try:
            self._providers[group.id].shrink(name)
        except ProviderError as error:
            log.warning("NodeNotRemoved node %s: the provider cannot remove it: %s", name, error)
            return
        with self._lock:
            self._told_to_go.add(name)

    def _heed_hint(self, node: Node) -> None:
        """Return the node's idle devices when Cluster Autoscaler sets its soft taint.

        The soft taint comes before the drain. From then on no pod needs the idle devices.
        """
        name = node.name
        since = next((str(taint.get("value")) for taint in node.taints if taint.get("key") == CANDIDATE), "")
        if since and self._hinted.get(name) != since:
            self._marks.return_idle(name, self._clock())
            log.info("IdleDevicesReturn node %s: Cluster Autoscaler does not need the node", name)
        self._hinted[name] = since
