# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last look before a device leaves: does any claim hold it, asked of the API server and not of a cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from ...kube.api_resources import CLAIMS, NODES
from ...kube.client.verbs import Client
from ...kube.errors import NotFound
from ...kube.objects import cohdi, device_users, nodes, slices
from ...kube.objects.taints import DeviceTaints
from ..state import adapters
from ..state.cluster_state import ClusterState, Json


class ClaimCheck:
    """Fresh reads of all claims; detaches that ask at the same time share one read that began after they asked."""

    def __init__(self, client: Client, state: ClusterState, taints: DeviceTaints) -> None:
        self._client, self._state, self._taints = client, state, taints
        self._lock = threading.Lock()
        self._began = 0.0
        self._items: list[Json] = []

    def claimed(self, resource: str, node: str) -> str:
        """Why the device of a ComposableResource must stay, empty when no claim has it or a part of it.

        The scheduler is kept off it first, where the API server can say so. Raises ApiError when the API server does
        not answer: nothing is then proven.
        """
        raw = self._state.resources.get(resource)
        if raw is None:
            return ""
        device, drivers = adapters.device_name(raw), self._state.settings.drivers
        pool_device = cohdi.annotation(raw, cohdi.POOL_DEVICE)
        keys = self._state.own_keys(raw)
        if self._state.untainted(resource, keys) and self._taints.place(resource, keys, device.uuid):
            self._state.note_taints(resource, keys)
        items = self._fresh(time.monotonic())
        shown = [*self._state.slices.by("node", node), *self._slices_elsewhere(node, device.uuid)]
        return device_users.keeper(items, node, pool_device) or device_users.user(items, shown, node, device, drivers)

    def back(self, node: str, resource: str, machine: str) -> str:
        """Why a node that counts as lost is not, as the API server has it now; empty when it is. Raises ApiError.

        ``machine``: its uid. A node that is gone may have joined under another name: then another Node has its machine,
        or shows the device of the ComposableResource ``resource``.
        """
        if self._state.hands.alive(node):
            return f"the agent of node {node} lives"
        try:
            raw = self._client.get(NODES, node)
        except NotFound:
            return self._renamed(node, resource, machine)
        return "" if nodes.out_of_service(raw) else f"node {node} is there again"

    def departed(self, node: str, resource: str, machine: str) -> str:
        """Why the record of a device that has left its machine must stay, empty if nothing does. Raises ApiError.

        As ``back``. But a node that was renamed contradicts only while it has no agent that lives, or shows the device.
        """
        if self._state.hands.alive(node):
            return f"the agent of node {node} lives"
        try:
            self._client.get(NODES, node)
        except NotFound:
            return self._renamed(node, resource, machine, vouch=True) or self.claimed(resource, node)
        return f"node {node} is there again"

    def _renamed(self, node: str, resource: str, machine: str, *, vouch: bool = False) -> str:
        """Why a node that is gone has another name now. ``vouch``: an agent that lives there speaks for the machine."""
        for other in self._client.list(NODES).items:
            name = other["metadata"]["name"]
            if machine and nodes.machine(other) == machine and not (vouch and self._state.hands.alive(name)):
                return f"node {name} has machine {machine}, which node {node} had"
        uuid = adapters.serial(self._state.resources.get(resource) or {"metadata": {}})
        found = next(self._slices_elsewhere(node, uuid), None)
        return f"node {slices.node(found)} shows the device" if found else ""

    def _slices_elsewhere(self, node: str, uuid: str) -> Iterator[Json]:
        """ResourceSlices of other nodes that show a device whose own node is gone."""
        if uuid and self._state.nodes.get(node) is None:
            yield from (each for each in self._state.slices.each() if slices.node(each) not in (None, "", node)
                        and uuid in device_users.identities(each))

    def _fresh(self, asked: float) -> list[Json]:
        with self._lock:
            if self._began < asked:
                began = time.monotonic()
                self._items = self._client.list(CLAIMS).items
                self._began = began
            return self._items
