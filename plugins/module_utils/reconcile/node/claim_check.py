# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check right before a detach that no claim has the device, with the API server instead of a
cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from ...kube.api_resources import CLAIMS, NODES
from ...kube.client.verbs import Client
from ...kube.errors import NotFound
from ...kube.objects import device_users, nodes
from ...kube.objects.device_users import DeviceName
from ...kube.objects.taints import DeviceTaints
from ...model.slice import Slice
from ...model.value import Json
from ..state.cluster_state import ClusterState


class ClaimCheck:
    """Fresh reads of all claims.

    Detaches that check at the same time share one read, if the read began after they called.
    """

    def __init__(self, client: Client, state: ClusterState, taints: DeviceTaints) -> None:
        self._client, self._state, self._taints = client, state, taints
        self._lock = threading.Lock()
        self._began = 0.0
        self._items: list[Json] = []

    def claimed(self, resource: str, node: str) -> str:
        """Return why the device of a ComposableResource must stay, or an empty string if no claim
        uses it.

        First taint the device for the scheduler, if the API server supports taints. Raise ApiError
        if the API server does not answer. Then nothing is proven.
        """
        found = self._state.resources.value(resource)
        if found is None:
            return "its ComposableResource cannot be read" if self._state.resources.stored(resource) else ""
        if unread := self._state.slices.unreadable():
            return f"ResourceSlice {unread[0]} cannot be read, and it may show the device"
        device, drivers = DeviceName(found.serial, found.address), self._state.settings.drivers
        keys = self._state.own_keys(found)
        if self._state.untainted(resource, keys) and self._taints.place(resource, keys, device.uuid):
            self._state.note_taints(resource, keys)
        items = self._fresh(time.monotonic())
        shown = [found.as_object() for found in (*self._state.slices.values("node", node),
                                                 *self._slices_elsewhere(node, device.uuid))]
        return device_users.keeper(items, node, found.pool_device) or device_users.user(
            items, shown, node, device, drivers)

    def back(self, node: str, resource: str, machine: str) -> str:
        """Return why a node that counts as lost is back, by the API server, or an empty string.
        Raise ApiError.

        ``machine`` is the UID of the node's machine. A node that is gone may have joined under
        another name. Then another Node has its machine or shows the device of the
        ComposableResource ``resource``.
        """
        if self._state.agents.alive(node):
            return f"the agent of node {node} is alive"
        try:
            raw = self._client.get(NODES, node)
        except NotFound:
            return self._renamed(node, resource, machine)
        return "" if nodes.out_of_service(raw) else f"node {node} exists again"

    def departed(self, node: str, resource: str, machine: str) -> str:
        """Return why the record of a device that left its machine must stay, or an empty string.
        Raise ApiError.

        Unlike in ``back``, any existing Node contradicts, even one that is out of service. A
        renamed node contradicts only if it has no live agent or shows the device. A claim that has
        the device contradicts, too.
        """
        if self._state.agents.alive(node):
            return f"the agent of node {node} is alive"
        try:
            self._client.get(NODES, node)
        except NotFound:
            return self._renamed(node, resource, machine, vouch=True) or self.claimed(resource, node)
        return f"node {node} exists again"

    def _renamed(self, node: str, resource: str, machine: str, *, vouch: bool = False) -> str:
        """Return under which other name a node that is gone came back, or an empty string.

        With ``vouch``, ignore a Node that has the machine and a live agent.
        """
        for other in self._client.list(NODES).items:
            name = other["metadata"]["name"]
            if machine and nodes.machine(other) == machine and not (vouch and self._state.agents.alive(name)):
                return f"node {name} has machine {machine}, which node {node} had"
        known = self._state.resources.value(resource)
        found = next(self._slices_elsewhere(node, known.serial if known else ""), None)
        return f"node {found.node} shows the device" if found else ""

    def _slices_elsewhere(self, node: str, uuid: str) -> Iterator[Slice]:
        """Yield the ResourceSlices of other nodes that show a device after its own node is gone."""
        if uuid and self._state.nodes.stored(node) is None:
            yield from (each for each in self._state.slices.each_value() if each.node not in ("", node)
                        and uuid in device_users.identities(each.as_object()))

    def _fresh(self, asked: float) -> list[Json]:
        with self._lock:
            if self._began < asked:
                began = time.monotonic()
                self._items = self._client.list(CLAIMS).items
                self._began = began
            return self._items
