# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A last check before a device leaves the bus.

It reads the current request and the current claims.
"""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import device_users
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import DRA_DRIVERS

from . import device_request
from .device_request import DeviceRequest
from .node_state import NodeState

WITHDRAWN = "the operator has withdrawn its request to release the device"


class ClaimCheck:
    """Read the API server directly, because a watch may be late.

    ``own_driver``: the driver of the agent's kubelet plugin, empty for none. A device that this
    plugin has prepared stays, also if its claim is gone from the API server.
    """

    def __init__(self, client: Client, state: NodeState, own_driver: str = "") -> None:
        self._client, self._state = client, state
        self._drivers = DRA_DRIVERS | {own_driver}

    def in_the_way(self, request: DeviceRequest, uuid: str) -> str:
        """Return why the device must stay, in a sentence, empty if it may leave.

        ``uuid``: of the GPU, empty if unknown.
        """
        try:
            return (self._withdrawn(request) or self._state.own_plugin.holder(uuid, _address(request))
                    or self._claimed(request, uuid))
        except ApiError as error:
            return f"the agent cannot find out whether a claim uses the device: {error}"

    def _withdrawn(self, request: DeviceRequest) -> str:
        now = device_request.read(self._client.get(COMPOSABLE_RESOURCES, request.name))
        return "" if (now.uid, now.device) == (request.uid, request.device) and now.release else WITHDRAWN

    def _claimed(self, request: DeviceRequest, uuid: str) -> str:
        """Return in a sentence which claim has the device, empty for none.

        A GPU that no slice shows may be in use as a partition, by a virtual machine, or while the
        vendor's plugin is away. Read the slices after the claims, because a plugin may rename
        devices.
        """
        node, device = self._state.node, device_users.DeviceName(uuid, _address(request))
        items = self._client.list(CLAIMS).items
        shown = self._client.list(SLICES, field_selector=f"spec.nodeName={node}").items
        return device_users.keeper(items, node, request.pool_device) or device_users.user(
            items, shown, node, device, self._drivers)


def _address(request: DeviceRequest) -> str:
    return request.evidence.address if request.evidence else ""
