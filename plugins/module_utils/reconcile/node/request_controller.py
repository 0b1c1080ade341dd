# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of ComposabilityRequests, as composable-resource-operator writes it."""

from __future__ import annotations

from ...planning.node.compose import request_status
from ..keys import RequestKey, Result
from ..state.cluster_state import ClusterState
from ..state.node_snapshot import node_snapshot
from ..state.writer import Writer


class RequestController:
    """Reconciles the status of requests where the operator is played here (``enabled``)."""

    def __init__(self, state: ClusterState, writer: Writer, *, enabled: bool) -> None:
        self._state, self._writer, self._enabled = state, writer, enabled

    def reconcile(self, key: RequestKey) -> Result:
        """Write state and children of one request, and why nothing comes. Raises kube.errors.ApiError."""
        raw = self._state.requests.get(key.name)
        if raw is None or not self._enabled:
            return Result()
        spec = raw["spec"]["resource"]
        node = node_snapshot(self._state, spec.get("target_node") or "")
        children = [resource for resource in node.resources if resource.request == key.name]
        lacks = next((request.lacks for request in node.requests if request.name == key.name), "")
        error = node.blocked.get(spec["model"], "") or ((node.problem or lacks) if spec["size"] else "")
        deleting = bool(raw["metadata"].get("deletionTimestamp"))
        self._writer.request_status(key.name, request_status(spec, children, error, deleting))
        return Result()
