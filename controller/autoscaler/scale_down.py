# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that Cluster Autoscaler wants to delete: they go, devices first, or they stay and their idle devices go.

It drains before it asks. A node that stays is refused and annotated: refused alone it would be asked for every 20 s.
Source: Cluster Autoscaler 1.36.1, ``core/scaledown/actuation``.
"""

from __future__ import annotations

import logging
import threading
import time
import typing as t
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, ProviderError, Refused
from ansible_collections.composable.infra.controller.autoscaler.groups import NodeGroups
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.protocols import Marks
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.requests import KEPT, REMOVING
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_down import (
    ScaleDownDecision,
    ScaleDownPolicy,
    SpareNode,
    decide_scale_down,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

log = logging.getLogger("composable.infra")
# Written by Cluster Autoscaler on a node that it does not need: the value says since when (utils/taints/taints.go).
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
Json = dict[str, t.Any]


class ScaleDowns:
    """One for a process. Thread-safe. ``devices``: (model, in use) of each device on a node."""

    def __init__(self, groups: NodeGroups, devices: Callable[[str], Iterator[tuple[str, bool]]], marks: Marks,
                 providers: Mapping[str, NodeProvider], policy: ScaleDownPolicy, measurements: Measurements,
                 clock: Callable[[], float] = time.time) -> None:
        self._groups, self._devices, self._marks, self._providers = groups, devices, marks, providers
        self._policy, self._measurements, self._clock = policy, measurements, clock
        self._kept: dict[str, str] = {}
        self._hinted: dict[str, str] = {}
        self._lock = threading.RLock()
        self.watts: Counter[str] = Counter()

    def resume(self) -> None:
        """Go on with what an earlier process wrote on the nodes. Raises ApiError."""
        with self._lock:
            for name, mark in self._marks.marked_nodes().items():
                if mark == REMOVING:
                    self._groups.leaving.add(name)
                elif mark == KEPT and (group := self._group(name)):
                    self._kept[name] = group.id

    def delete(self, group: NodeGroup, names: Collection[str]) -> None:
        """Begin to remove nodes, or keep them. Raises Refused when one of them stays, with the reason of each."""
        with self._lock:
            strange = [name for name in names if self._group(name) is not group]
            if strange:
                raise Refused(Kind.NOT_FOUND, f"group {group.id} has no node {', '.join(strange)}")
            kept = [said for name in names if (said := self._delete(group, name))]
        if kept:
            raise Refused(Kind.FAILED_PRECONDITION, "; ".join(kept))

    def _delete(self, group: NodeGroup, name: str) -> str:
        """Why it stays, empty when it goes; asked again it goes on going."""
        if name in self._groups.leaving:
            return ""
        decision = decide_scale_down(self._spare(group, name), self._policy)
        self._marks.return_idle(name, self._clock())
        self._note(group, name, decision)
        if decision.remove:
            self._marks.remove_node(name)
            self._groups.leaving.add(name)
            return ""
        self._marks.keep_node(name)
        self._kept[name] = group.id
        return decision.reason

    def _note(self, group: NodeGroup, name: str, decision: ScaleDownDecision) -> None:
        self._measurements.count("scale_down_total", decision="remove" if decision.remove else "keep")
        self.watts[group.id] += round(decision.watts)
        log.info("ScaleDownDecided node %s: %s (saves %g W by the configuration)", name, decision.reason,
                 decision.watts)

    def _spare(self, group: NodeGroup, name: str) -> SpareNode:
        devices = list(self._devices(name))
        ready = sum(found == group.id for node, found in self._kept.items() if node != name)
        return SpareNode(name, self._groups.size(group), group.min_size, ready,
                         Counter(model for model, used in devices if not used), sum(used for _model, used in devices),
                         self._providers[group.id].removable(name))

    def _group(self, name: str) -> NodeGroup | None:
        raw = next((raw for group in self._groups.groups.values() for raw in self._groups.all_members(group)
                    if raw["metadata"]["name"] == name), None)
        return self._groups.of_labels(raw["metadata"].get("labels") or {}) if raw else None

    def step(self) -> None:
        """Remove nodes whose devices are gone, let kept nodes be asked for again that are in use, and have the idle
        devices go of nodes that Cluster Autoscaler does not need. Raises ApiError."""
        with self._lock:
            for name in sorted(self._groups.leaving):
                self._remove(name)
            for name in sorted(self._kept):
                if any(used for _model, used in self._devices(name)):
                    self._marks.free_node(name)
                    del self._kept[name]
            for group in self._groups.groups.values():
                for raw in self._groups.all_members(group):
                    self._heed_hint(raw)

    def _remove(self, name: str) -> None:
        group = self._group(name)
        if group is None:
            log.info("NodeRemoved node %s", name)
            self._groups.leaving.discard(name)
            return
        if any(True for _device in self._devices(name)):
            self._marks.return_idle(name, self._clock())
            return
        try:
            self._providers[group.id].shrink(name)
        except ProviderError as error:
            log.warning("NodeNotRemoved node %s: %s", name, error)

    def _heed_hint(self, raw: Json) -> None:
        """The soft taint comes before the drain: by then nobody needs what is idle there."""
        name = raw["metadata"]["name"]
        since = next((str(taint.get("value")) for taint in (raw.get("spec") or {}).get("taints") or ()
                      if taint.get("key") == CANDIDATE), "")
        if since and self._hinted.get(name) != since:
            self._marks.return_idle(name, self._clock())
            log.info("IdleDevicesReturn node %s: Cluster Autoscaler does not need it", name)
        self._hinted[name] = since
