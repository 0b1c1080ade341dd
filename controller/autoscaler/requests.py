# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All writes of the provider to the cluster.

A ComposabilityRequest gets the pods that wait on its node, and the permission to return idle
devices. A Node gets a mark that it stays or leaves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import AlreadyExists, Conflict, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.autoscaling import (
    RETURN_IDLE,
    SCALE_UP,
    ScaleUpEntry,
    return_idle_text,
    scale_up_entries,
    scale_up_text,
)
from ansible_collections.composable.infra.plugins.module_utils.model.request import Request
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import request_name
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import Placement
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.request_values import read_request

Change = Callable[[tuple[ScaleUpEntry, ...]], Iterable[ScaleUpEntry]]
# Cluster Autoscaler does not remove a node with it (FAQ, "How can I prevent Cluster Autoscaler from
# scaling down").
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
# Our mark on a node that is kept or being removed, so that a restarted process continues.
SCALE_DOWN = "composable.infra/scale-down"
KEPT, EXPECTING, REMOVING, REMOVED = "kept", "expecting", "removing", "removed"
# Cluster Autoscaler's taint on a node that it has drained (utils/taints/taints.go).
HARD = "ToBeDeletedByClusterAutoscaler"
# Cluster Autoscaler's field manager, by default the name of its program.
AUTOSCALER = "cluster-autoscaler"
ATTEMPTS = 5


class RequestWriter:
    """Write requests and marks. Methods raise the errors of the API client.

    A ComposabilityRequest that another client changed is read again.
    """

    def __init__(self, client: Client, state: ClusterState) -> None:
        self._client, self._state = client, state

    def ask(self, placements: Iterable[Placement], until: float) -> None:
        """Request devices for pods on the nodes of the placements.

        ``until``: when the request expires, in seconds since the epoch.
        """
        for placement in placements:
            for claim, models in placement.needs.items():
                for model, count in models.items():
                    entry = ScaleUpEntry(placement.pod.uid, claim, count, placement.since, until)
                    self._change(placement.node, model, functools.partial(_with, entry))

    def withdraw(self, pods: Iterable[str]) -> None:
        """Withdraw the requests for these pods (uids)."""
        gone = set(pods)
        for request in self._state.requests.values("scale up", True):
            if gone & {entry.pod for entry in scale_up_entries(request.annotation(SCALE_UP))}:
                self._change(request.node, request.model,
                             lambda old: (entry for entry in old if entry.pod not in gone))

    def return_idle(self, node: str, moment: float) -> None:
        """Allow the return of a node's devices that have been idle since before ``moment`` (epoch
        seconds).
        """
        for name in self._state.requests.names_at("node", node) if node else ():
            self._patch(name, {"metadata": {"annotations": {RETURN_IDLE: return_idle_text(moment)}}})

    def keep_node(self, node: str) -> None:
        """Make Cluster Autoscaler leave a node alone."""
        self._annotate_node(node, {SCALE_DOWN_DISABLED: "true", SCALE_DOWN: KEPT})

    def hold_node(self, node: str) -> None:
        """Make Cluster Autoscaler leave a node alone while devices come."""
        self._annotate_node(node, {SCALE_DOWN_DISABLED: "true", SCALE_DOWN: EXPECTING})

    def free_node(self, node: str) -> None:
        """Allow Cluster Autoscaler to request the node's removal again."""
        self._annotate_node(node, {SCALE_DOWN_DISABLED: None, SCALE_DOWN: None})

    def remove_node(self, node: str) -> None:
        """Mark a node as being removed."""
        self._annotate_node(node, {SCALE_DOWN: REMOVING})

    def note_removed(self, node: str) -> None:
        """Mark a node as switched off, while its Node object still exists."""
        self._annotate_node(node, {SCALE_DOWN: REMOVED})

    def return_node(self, node: str) -> bool:
        """Remove Cluster Autoscaler's taint and cordon from a node that was switched off and runs
        again.

        Another client's cordon stays. Return False if the node was changed meanwhile.
        """
        try:
            raw = self._client.get_whole(NODES, node)
            taints = [taint for taint in raw["spec"].get("taints") or () if taint.get("key") != HARD]
            self._client.merge_patch(NODES, node, {
                "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"], "annotations": {SCALE_DOWN: None}},
                "spec": {"taints": taints, **({"unschedulable": None} if _is_its_cordon(raw) else {})}})
        except NotFound:
            return True
        except Conflict:
            return False
        return True

    def marked_nodes(self) -> dict[str, str]:
        """Return the marks on nodes, by name.

        Read the API server, since annotations are not watched.
        """
        found = {raw["metadata"]["name"]: cohdi.annotation(raw, SCALE_DOWN) for raw in self._client.list(NODES).items}
        return {name: text for name, text in found.items() if text}

    def _annotate_node(self, node: str, notes: dict[str, str | None]) -> None:
        try:
            self._client.merge_patch(NODES, node, {"metadata": {"annotations": notes}})
        except NotFound:
            return

    def _change(self, node: str, model: str, change: Change) -> None:
        """Change the entries of the request of (node, model), on the object as it was read."""
        for _unused in range(ATTEMPTS):
            request = self._request(node, model) or self._create(node, model)
            before = request.annotation(SCALE_UP)
            text = scale_up_text(change(scale_up_entries(before)), before)
            if text == before or (text is None and not before):
                return
            body = {"metadata": {"resourceVersion": request.version, "annotations": {SCALE_UP: text}}}
            if self._patch(request.name, body):
                return
        raise Conflict(409, "Conflict", f"cannot change the request of {node} for {model}: other clients changed it "
                       f"{ATTEMPTS} times meanwhile")

    def _patch(self, name: str, body: Json) -> bool:
        try:
            self._state.requests.upsert(self._client.merge_patch(COMPOSABILITY_REQUESTS, name, body))
        except NotFound:
            return True
        except Conflict:
            self._state.requests.upsert(self._client.get(COMPOSABILITY_REQUESTS, name))
            return False
        return True

    def _request(self, node: str, model: str) -> Request | None:
        """Return the request for which the scaler sets the size, None for none."""
        found = [each for each in self._state.requests.values("node", node)
                 if each.model == model and not each.deleting]
        return min(found, key=lambda each: each.name, default=None)

    def _create(self, node: str, model: str) -> Request:
        row = self._state.settings.model(model)
        name = request_name(node, model)
        try:
            raw = self._client.create(COMPOSABILITY_REQUESTS, cohdi.request_body(
                name, node, model, 0, row.type if row else "gpu"))
        except AlreadyExists:
            raw = self._client.get(COMPOSABILITY_REQUESTS, name)
        request = read_request(raw)
        self._state.requests.upsert(request)
        return request


def _is_its_cordon(node: Json) -> bool:
    """Return whether Cluster Autoscaler cordoned a node, by the managed fields."""
    return any(str(entry.get("manager") or "").startswith(AUTOSCALER)
               and "f:unschedulable" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
               for entry in node["metadata"].get("managedFields") or ())


def _with(new: ScaleUpEntry, old: tuple[ScaleUpEntry, ...]) -> tuple[ScaleUpEntry, ...]:
    return (*(entry for entry in old if (entry.pod, entry.claim) != (new.pod, new.claim)), new)
