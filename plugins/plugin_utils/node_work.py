# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes are asked to do, from the objects of the cluster: for playbooks that are the hands of the nodes."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..module_utils.kube.objects import cohdi, device_users
from ..module_utils.kube.objects import slices as slice_objects
from ..module_utils.kube.objects.device_users import DeviceName
from ..module_utils.node.evidence import (
    ANNOUNCED,
    CLAIM_IN_USE,
    PLUGIN_RESTARTED,
    PREPARING,
    READY,
    REMOVED,
    TOUCHED,
    WITHDRAWN,
    Evidence,
)
from ..module_utils.node.vendors import DRA_DRIVERS, VENDORS

Json = dict[str, t.Any]


def node_work(resources: Iterable[Json], hosts: Mapping[str, str], slices: Sequence[Json], claims: Sequence[Json],
              now: float) -> Json:
    """What is to be done now: ``bring_up``, ``release``, ``restart`` and ``write``.

    ``resources`` are ComposableResources; those without the label of their node are somebody else's. ``hosts`` is the
    inventory's host of each node that is served, ``now`` seconds since the epoch.

    Items of ``bring_up`` and ``release`` have the options of node_device, and ``name``, ``node`` and ``host``; of one
    node there is one item at a time. ``restart``: nodes whose plugin must look again. ``write``: evidence that follows
    from what the cluster shows, with the name of its object.
    """
    asked = [a for a in _asked(resources, hosts, slices, claims) if a.device]
    work: Json = {"bring_up": [], "release": [], "restart": [], "write": []}
    busy: set[str] = set()
    for one in asked:
        kind = one.step()
        if kind in ("bring_up", "release") and one.node not in busy:
            busy.add(one.node)
            work[kind].append(dict(one.options(asked), host=hosts[one.node]))
        elif kind == "write":
            work["write"].append({"name": one.name, "evidence": json.loads(one.shown(now).to_json())})
    waiting = {one.node for one in asked if one.step() == "restart"}
    work["restart"] = sorted(waiting - busy)
    return work


def _asked(resources: Iterable[Json], nodes: Container[str], slices: Sequence[Json],
           claims: Sequence[Json]) -> list[_Asked]:
    return [_Asked(r, slices, claims) for r in resources if r["spec"]["target_node"] in nodes
            and cohdi.TARGET_NODE in (r["metadata"].get("labels") or {})]


class _Asked:
    """One ComposableResource, and what its node did so far."""

    def __init__(self, raw: Json, slices: Sequence[Json], claims: Sequence[Json]) -> None:
        self.raw, self.claims = raw, claims
        self.name, self.node = raw["metadata"]["name"], raw["spec"]["target_node"]
        status = raw.get("status") or {}
        self.device = status.get("cdi_device_id") or ""
        told = Evidence.parse(cohdi.annotation(raw, cohdi.NODE))
        self.release = cohdi.annotation(raw, cohdi.RELEASE)
        if not self.device and told and told.phase == REMOVED and self.release:
            # The CDI Manager has it back already; the plugin still shows it.
            self.device = told.device
        self.evidence = told if told and told.device == self.device else None
        self.uuid = status.get("device_id") or (self.evidence.uuid if self.evidence else "")
        self.slices = [item for item in slices if slice_objects.node(item) == self.node]
        self.announced = dict(pair for item in self.slices for pair in slice_objects.uuids(item))

    def step(self) -> str:
        """What comes next: bring_up, release, restart, write, or nothing."""
        done = self.evidence
        shown = self.uuid in self.announced
        if self.release:
            if done is None or done.phase != REMOVED or done.release != self.release:
                return "write" if self.user() else "release"
            if not done.has(PLUGIN_RESTARTED):
                return "restart"
            return "write" if not shown and not done.has(WITHDRAWN) else ""
        if self.raw["metadata"].get("deletionTimestamp") and not (done and done.phase == REMOVED):
            return ""
        if done is None or not done.has(TOUCHED) or done.phase not in (PREPARING, READY):
            return "bring_up"
        if done.phase == PREPARING:
            # Also where a slice shows it: a plugin that looked before its first use can give it to no container.
            return "restart"
        return "write" if shown and not done.has(ANNOUNCED) else ""

    def user(self) -> str:
        """The claim that has the device, in a sentence; empty for none, and for a removal by force."""
        if self.raw["spec"].get("force_detach"):
            return ""
        device = DeviceName(self.uuid, self.evidence.address if self.evidence else "")
        return device_users.user(self.claims, self.slices, self.node, device, DRA_DRIVERS)

    def shown(self, now: float) -> Evidence:
        """The evidence with what the cluster shows."""
        done = self._begun()
        if self.release:
            user = self.user() if done.phase != REMOVED else ""
            return done.with_trouble(CLAIM_IN_USE, user, now) if user else done.with_step(WITHDRAWN, now)
        return replace(done, phase=READY).with_step(ANNOUNCED, now)

    def _begun(self) -> Evidence:
        """From what the work goes on, with what the node is asked to let the device go by."""
        done = self.evidence or Evidence(PREPARING, self.device, by="ssh", uuid=self.uuid)
        return replace(done, release=self.release) if self.release else done

    def options(self, others: Iterable[_Asked]) -> Json:
        """Options of node_device, with the object's name and node."""
        theirs = {text for o in others if o.node == self.node and o.name != self.name
                  for text in (o.uuid, o.evidence.address if o.evidence and o.evidence.phase != REMOVED else "")}
        return {"name": self.name, "node": self.node, "uid": self.device, "device": self.uuid,
                "known": sorted((theirs | self.announced.keys()) - {"", self.uuid}),
                "evidence": json.loads(self._begun().to_json()) if self.evidence or self.release else None,
                "force": bool(self.raw["spec"].get("force_detach"))}


def plugin_restarted(resources: Iterable[Json], nodes: Iterable[str], now: float) -> list[Json]:
    """Evidence after the plugins of these nodes were restarted, with the names of the objects.

    A device that is up is Ready then.
    """
    found = []
    for one in _asked(resources, set(nodes), (), ()):
        if one.evidence and one.step() == "restart":
            done = one.evidence.with_step(PLUGIN_RESTARTED, now)
            ready = replace(done, phase=READY) if done.phase == PREPARING else done
            found.append({"name": one.name, "evidence": json.loads(ready.to_json())})
    return found


def plugin_pods(pods: Iterable[Json]) -> Iterator[Json]:
    """Pods of the vendors' DRA plugins: those of a DaemonSet with the labels that one of their charts gives."""
    selectors = [s for v in VENDORS for s in v.plugin_selectors]
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        owners = [o["kind"] for o in pod["metadata"].get("ownerReferences") or ()]
        if "DaemonSet" in owners and any(all(labels.get(k) == v for k, v in s.items()) for s in selectors):
            yield {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
                   "node": pod["spec"].get("nodeName") or ""}
