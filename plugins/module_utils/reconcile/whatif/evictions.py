# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evict pods, which are created again and wait, and remove devices from nodes."""

from __future__ import annotations

from collections.abc import Collection

from ...kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES, NAMESPACES, PODS, SLICES
from ...kube.objects import pods, slices
from ...kube.objects.claims import DeviceKey
from ...kube.times import format_time
from ...model.value import Json
from ...planning.settings import Settings
from .capture import Capture
from .captured_engine import engine_of


def evicted(capture: Capture, uids: Collection[str], claims: Collection[str]) -> Capture:
    """Delete pods (their UIDs) and create them again as the youngest, without a node.

    Pods of DaemonSets are not created again. Deallocate ``claims`` (their UIDs).
    """
    gone, freed, holds = set(uids), set(claims), Gate(capture)
    listed = [raw for raw in capture.of(PODS.plural) if raw["metadata"]["uid"] not in gone]
    back = [holds.over(pending(raw, capture.taken)) for raw in capture.of(PODS.plural)
            if raw["metadata"]["uid"] in gone and not of_daemon_set(raw)]
    return capture.with_objects(
        pods=[*listed, *back],
        resourceclaims=[unallocated(raw) if raw["metadata"]["uid"] in freed else raw
                        for raw in capture.of(CLAIMS.plural)])


def pending(pod: Json, now: float) -> Json:
    """Return the pod as if just created. It keeps its name and the names of its claims."""
    meta = {key: value for key, value in pod["metadata"].items() if key != "deletionTimestamp"}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    status = pod.get("status") or {}
    kept = {"resourceClaimStatuses": status["resourceClaimStatuses"]} if "resourceClaimStatuses" in status else {}
    return {**pod, "metadata": {**meta, "uid": f"{meta['uid']}-again", "creationTimestamp": format_time(now)},
            "spec": spec, "status": {"phase": "Pending", **kept}}


def unallocated(claim: Json) -> Json:
    """Return the claim as it was before the scheduler saw it."""
    return {**claim, "status": {}}


def of_daemon_set(pod: Json) -> bool:
    """Return whether a DaemonSet owns the pod, so that it cannot move to another node."""
    return any(each.get("kind") == "DaemonSet" for each in pod["metadata"].get("ownerReferences") or ())


class Gate:
    """Gates new pods as the admission policy (deploy/gates/policy.yaml) does while a controller
    runs.

    The namespaces and settings come from a capture.
    """

    def __init__(self, capture: Capture) -> None:
        self._settings = Settings.from_dict(capture.settings)
        self._labels = {raw["metadata"]["name"]: raw["metadata"].get("labels") or {}
                        for raw in capture.of(NAMESPACES.plural)}

    def holds(self, namespace: str) -> bool:
        """Return whether new pods of a namespace are gated."""
        said = self._settings.handover_namespaces.get(namespace)
        opted_in = self._labels.get(namespace, {}).get(pods.OPT) == "true" or said == "gated"
        return opted_in and self._settings.handover_of(namespace) == "gated"

    def over(self, pod: Json) -> Json:
        """Return the pod as the admission policy would create it, gated or not."""
        spec = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
        gates = [{"name": name} for name in pods.foreign(pod)]
        opted_out = (pod["metadata"].get("labels") or {}).get(pods.OPT) == "false"
        if pods.wants_devices(pod) and not opted_out and self.holds(pod["metadata"]["namespace"]):
            gates.append({"name": pods.GATE})
        return {**pod, "spec": {**spec, **({"schedulingGates": gates} if gates else {})}}


def without_devices(capture: Capture, names: Collection[str]) -> Capture:
    """Remove these ComposableResources, and their devices from the slices of nodes."""
    state = engine_of(capture).state
    found = (resource for name in names if (resource := state.resources.value(name)))
    shown = {key for resource in found for key in state.own_keys(resource)}
    return capture.with_objects(
        composableresources=[raw for raw in capture.of(COMPOSABLE_RESOURCES.plural)
                             if raw["metadata"]["name"] not in names],
        resourceslices=[_without(raw, shown) for raw in capture.of(SLICES.plural)])


def _without(item: Json, shown: Collection[DeviceKey]) -> Json:
    if not slices.node(item):
        return item
    left = [d for d in slices.devices(item) if (slices.driver(item), slices.pool(item), d["name"]) not in shown]
    return {**item, "spec": {**item["spec"], "devices": left}}
