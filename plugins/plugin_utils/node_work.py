# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requested node operations from the objects of the cluster, for playbooks that carry them out."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..module_utils.kube.objects import cohdi, device_users
from ..module_utils.kube.objects import slices as slice_objects
from ..module_utils.kube.objects.device_users import DeviceName
from ..module_utils.model.value import Json
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


def node_work(resources: Iterable[Json], hosts: Mapping[str, str], slices: Sequence[Json], claims: Sequence[Json],
              now: float) -> Json:
    """Return the operations that are due now: ``bring_up``, ``release``, ``restart`` and ``write``.

    ``resources`` are ComposableResources. Those without the label of their node belong to another
    program. ``hosts`` maps each served node to its host in the inventory. ``now`` is in seconds
    since the epoch.

    Items of ``bring_up`` and ``release`` have the options of node_device, and ``name``, ``node``
    and ``host``. Each node has at most one item at a time. ``restart`` lists nodes on which the
    plugin must look again. ``write`` has evidence that follows from the state of the cluster, with
    the name of its object.
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
    """One ComposableResource, and the work of its node so far."""

    def __init__(self, raw: Json, slices: Sequence[Json], claims: Sequence[Json]) -> None:
        self.raw, self.claims = raw, claims
        self.name, self.node = raw["metadata"]["name"], raw["spec"]["target_node"]
        status = raw.get("status") or {}
        self.device = status.get("cdi_device_id") or ""
        told = Evidence.parse(cohdi.annotation(raw, cohdi.NODE))
        self.release = cohdi.annotation(raw, cohdi.RELEASE)
        if not self.device and told and told.phase == REMOVED and self.release:
            # The CDI Manager has the device back already, but the plugin still shows it.
            self.device = told.device
        self.evidence = told if told and told.device == self.device else None
        self.uuid = status.get("device_id") or (self.evidence.uuid if self.evidence else "")
        self.slices = [item for item in slices if slice_objects.node(item) == self.node]
        self.announced = dict(pair for item in self.slices for pair in slice_objects.uuids(item))

    def step(self) -> str:
        """Return the next step: bring_up, release, restart, write, or an empty text."""
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
            # Restart even if a slice shows it. A plugin that looked before the first use cannot
            # pass it to a container.
            return "restart"
        return "write" if shown and not done.has(ANNOUNCED) else ""

    def user(self) -> str:
        """Return a sentence about the claim that has the device.

        Return an empty text without a claim, and for a forced removal.
        """
        if self.raw["spec"].get("force_detach"):
            return ""
        device = DeviceName(self.uuid, self.evidence.address if self.evidence else "")
        return device_users.user(self.claims, self.slices, self.node, device, DRA_DRIVERS)

    def shown(self, now: float) -> Evidence:
        """Return the evidence with the state of the cluster."""
        done = self._begun()
        if self.release:
            user = self.user() if done.phase != REMOVED else ""
            return done.with_trouble(CLAIM_IN_USE, user, now) if user else done.with_step(WITHDRAWN, now)
        return replace(done, phase=READY).with_step(ANNOUNCED, now)

    def _begun(self) -> Evidence:
        """Return the evidence to start from, with the requested release."""
        done = self.evidence or Evidence(PREPARING, self.device, by="ssh", uuid=self.uuid)
        return replace(done, release=self.release) if self.release else done

    def options(self, others: Iterable[_Asked]) -> Json:
        """Return the options of node_device, with the object's name and node."""
        theirs = {text for o in others if o.node == self.node and o.name != self.name
                  for text in (o.uuid, o.evidence.address if o.evidence and o.evidence.phase != REMOVED else "")}
        return {"name": self.name, "node": self.node, "uid": self.device, "device": self.uuid,
                "known": sorted((theirs | self.announced.keys()) - {"", self.uuid}),
                "evidence": json.loads(self._begun().to_json()) if self.evidence or self.release else None,
                "force": bool(self.raw["spec"].get("force_detach"))}


def plugin_restarted(resources: Iterable[Json], nodes: Iterable[str], now: float) -> list[Json]:
    """Return the evidence after the plugins of these nodes were restarted, with the objects' names.

    A device after its bring-up is Ready then.
    """
    found = []
    for one in _asked(resources, set(nodes), (), ()):
        if one.evidence and one.step() == "restart":
            done = one.evidence.with_step(PLUGIN_RESTARTED, now)
            ready = replace(done, phase=READY) if done.phase == PREPARING else done
            found.append({"name": one.name, "evidence": json.loads(ready.to_json())})
    return found


def plugin_pods(pods: Iterable[Json]) -> Iterator[Json]:
    """Yield pods of the vendors' DRA plugins: pods of a DaemonSet with the labels of a chart."""
    selectors = [s for v in VENDORS for s in v.plugin_selectors]
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        owners = [o["kind"] for o in pod["metadata"].get("ownerReferences") or ()]
        if "DaemonSet" in owners and any(all(labels.get(k) == v for k, v in s.items()) for s in selectors):
            yield {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
                   "node": pod["spec"].get("nodeName") or ""}
