# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a node: drained, or lost. Both give the final state, with its devices back on the
fabric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...kube.api_resources import CLAIMS, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, NODES, PODS, SLICES
from ...kube.objects import claims, pods, slices
from ...model.value import Json
from ...planning.settings import Settings
from .capture import Capture
from .evictions import evicted, of_daemon_set, without_devices
from .fabric_changes import returned
from .options import Options


@dataclass(frozen=True, slots=True)
class DrainNode:
    """A node is cordoned, drained and closed to devices, as by the playbook drain_and_detach."""

    node: str

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change."""
        after = _emptied(capture, self.node)
        labels = _closed(Settings.from_dict(capture.settings))
        return after.with_objects(nodes=[_drained(raw, labels) if raw["metadata"]["name"] == self.node else raw
                                         for raw in after.of(NODES.plural)])


@dataclass(frozen=True, slots=True)
class LoseNode:
    """A node is gone for longer than ``gone_node_duration``."""

    node: str

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change."""
        after = _emptied(capture, self.node)
        left = [raw for raw in after.of(PODS.plural) if pods.bound(raw) != self.node]
        return after.with_objects(
            pods=left, nodes=[raw for raw in after.of(NODES.plural) if raw["metadata"]["name"] != self.node],
            resourceslices=[raw for raw in after.of(SLICES.plural) if slices.node(raw) != self.node])


def _emptied(capture: Capture, node: str) -> Capture:
    """Evict the node's pods, deallocate its claims, and return its devices."""
    leaving = [raw["metadata"]["uid"] for raw in capture.of(PODS.plural)
               if pods.node(raw) == node and not pods.ended(raw) and not of_daemon_set(raw)]
    resources = [raw for raw in capture.of(COMPOSABLE_RESOURCES.plural) if raw["spec"].get("target_node") == node]
    uids = {(raw.get("status") or {}).get("cdi_device_id") for raw in resources}
    devices = [d for machine in capture.fabric.machines.values() for d in machine.devices if d.uid in uids]
    names = {raw["metadata"]["name"] for raw in resources}
    after = without_devices(evicted(capture, leaving, list(_claims_of(capture, node))), names)
    asked = [raw for raw in after.of(COMPOSABILITY_REQUESTS.plural)
             if (raw["spec"].get("resource") or {}).get("target_node") != node]
    return replace(after.with_objects(composabilityrequests=asked), fabric=returned(after.fabric, devices))


def _claims_of(capture: Capture, node: str) -> Iterator[str]:
    """Yield the UIDs of claims that have devices of a node, from a pool or from the node's
    slices."""
    own = {(slices.driver(raw), slices.pool(raw)) for raw in capture.of(SLICES.plural) if slices.node(raw) == node}
    for raw in capture.of(CLAIMS.plural):
        here = claims.node(raw) == node or any((r["driver"], r["pool"]) in own for r in claims.results(raw))
        if here and claims.results(raw):
            yield raw["metadata"]["uid"]


def _drained(raw: Json, labels: dict[str, str]) -> Json:
    meta = raw["metadata"]
    return {**raw, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}},
            "spec": {**(raw.get("spec") or {}), "unschedulable": True}}


def _closed(settings: Settings) -> dict[str, str]:
    return {settings.label(f"{model.k8s_device_name}-{which}"): "0" for model in settings.models
            for which in ("size-min", "size-max")}


def read_drain_node(options: Options, capture: Capture) -> DrainNode:
    """Return the change. Raise BadChange."""
    options.only("drain_node", ("node",))
    return DrainNode(options.one_of("node", _nodes(capture)))


def read_lose_node(options: Options, capture: Capture) -> LoseNode:
    """Return the change. Raise BadChange."""
    options.only("lose_node", ("node",))
    return LoseNode(options.one_of("node", _nodes(capture)))


def _nodes(capture: Capture) -> list[str]:
    return sorted(raw["metadata"]["name"] for raw in capture.of(NODES.plural))
