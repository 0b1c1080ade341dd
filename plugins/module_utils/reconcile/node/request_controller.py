# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile ComposabilityRequests: choose nodes if none is named, and write the status.

The status has the form that composable-resource-operator writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...kube.api_resources import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from ...model.node import Node
from ...model.request import Request
from ...model.resource import Resource
from ...planning.node.allocation import SAME_NODE, Allocation, Candidate, NodelessRequest, allocate
from ...planning.node.compose import request_status
from ...planning.node.demand import conflict, installed
from ...planning.node.snapshot import ComposableResource, NodeSnapshot
from ...runtime.work_queue import WorkQueue
from ..controller import Change, Controller
from ..keys import Key, NodeKey, RequestKey, Result
from ..state import adapters
from ..state.cluster_state import ClusterState
from ..state.node_snapshot import blocked_models, node_snapshot
from ..writers.writer import Writer

# Seconds until a request is allocated again that names no node and found too few, as upstream.
RETRY_SECONDS = 30.0


class RequestController(Controller):
    """Reconciles requests if this process is the operator (``enabled``)."""

    kinds = frozenset({COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES})

    def __init__(self, state: ClusterState, writer: Writer, queue: WorkQueue[Key], *, enabled: bool) -> None:
        self._state, self._writer, self._queue, self._enabled = state, writer, queue, enabled
        self.reconcilers = {RequestKey: self.reconcile}

    def concerned(self, change: Change) -> Iterator[RequestKey]:
        """Yield a request that changed, or the request that manages a ComposableResource."""
        if change.resource == COMPOSABILITY_REQUESTS:
            yield RequestKey(change.name)
        elif change.resource == COMPOSABLE_RESOURCES:
            for found in change.versions:
                if isinstance(found, Resource) and found.request:
                    yield RequestKey(found.request)

    def all_keys(self) -> Iterator[RequestKey]:
        """Yield all requests, if this process is their operator."""
        yield from map(RequestKey, self._state.requests.names() if self._enabled else ())

    def reconcile(self, key: RequestKey) -> Result:
        """Choose nodes if the request names none. Write state, children and error to the status.
        Raise ApiError."""
        request = self._state.requests.checked_value(key.name)
        if request is None:
            self._state.shares.forget(key.name)
        if request is None or not self._enabled:
            return Result()
        children = self._state.resources.values("request", key.name)
        if not request.node:
            return self._nodeless(request, children)
        status = request_status(request.spec, children, self._error(request), request.deleting)
        self._writer.requests.set_status(key.name, status)
        return Result()

    def _error(self, request: Request) -> str:
        """Return why the node of a request gets no device now, or an empty string."""
        state, name = self._state, request.node
        blocked = blocked_models(state, name, state.resources.values("node", name), state.now())
        if request.model in blocked or not request.size:
            return blocked.get(request.model, "")
        return state.machine_of(name)[2] or adapters.lacking(request, state.nodes.value(name))

    def _nodeless(self, request: Request, children: list[Resource]) -> Result:
        """Allocate a request that names no node. Each chosen node then requests its share of
        devices."""
        if self._state.snapshot is None:
            return Result(self._state.clock() + RETRY_SECONDS)
        name = request.name
        if request.deleting and not children:
            self._writer.requests.finish(name)
            return Result()
        found = self._allocate(request, children, 0 if request.deleting else request.size)
        for node in self._state.shares.set(name, found.shares):
            self._queue.add_change(NodeKey(node))
        self._writer.requests.set_status(name, request_status(
            request.spec, children, found.error or self._trouble(found, request.model), request.deleting,
            bool(found.error)))
        return Result(self._state.clock() + RETRY_SECONDS if found.error else None)

    def _allocate(self, request: Request, children: list[Resource], size: int) -> Allocation:
        asked = NodelessRequest(request.name, request.model, size, request.policy or SAME_NODE)
        taken = self._occupied(request.name)
        snapshot = self._state.snapshot
        free = {fabric: n for (model, fabric), n in (snapshot.free if snapshot else {}).items()
                if model == request.model}
        candidates = [self._candidate(node, request, taken) for node in self._state.nodes.each_value()] if size else []
        return allocate(asked, map(self._seen, children), candidates, free, self._state.shares.of(request.name) or {})

    def _seen(self, child: Resource) -> ComposableResource:
        """Return a device with the claim that uses it. Devices that no claim uses leave first."""
        user = self._state.user(child)
        return ComposableResource.of(child, used_by=user.key if user else "",
                                     busy=child.name in self._state.operations)

    def _occupied(self, name: str) -> set[str]:
        """Return the nodes of other requests with the policy ``samenode``."""
        found: set[str] = set()
        for other in self._state.requests.each_value():
            if other.name != name and (other.policy or SAME_NODE) == SAME_NODE:
                shares = self._state.shares.of(other.name) or {}
                found |= {node for node, n in shares.items() if n}
                found |= {other.node} if other.node and other.size else set()
        return found

    def _candidate(self, node: Node, request: Request, taken: set[str]) -> Candidate:
        name, model = node.name, request.model
        snapshot = node_snapshot(self._state, name)
        problem = _problem(node) or adapters.lacking(request, node).removeprefix(f"node {name} ")
        problem = problem or snapshot.problem or snapshot.blocked.get(model, "") or self._excluded(snapshot, model)
        return Candidate(name, snapshot.fabric, problem, name in taken)

    def _excluded(self, snapshot: NodeSnapshot, name: str) -> str:
        model = self._state.settings.model(name)
        others = {n: m for n, m in installed(snapshot, self._state.settings).items() if n != name}
        found = conflict(model, others) if model else None
        return f"{name} cannot be on a node together with {found.cdi_model_name}" if found else ""

    def _trouble(self, found: Allocation, model: str) -> str:
        """Return why the chosen nodes do not get their devices now, or an empty string."""
        blocked = (node_snapshot(self._state, node).blocked.get(model, "") for node, n in found.shares.items() if n)
        return next((why for why in blocked if why), "")


def _problem(node: Node) -> str:
    """Return why a node without devices of the request may not be chosen, or an empty string."""
    if node.unschedulable:
        return "unschedulable"
    return "" if node.ready else "not ready"
