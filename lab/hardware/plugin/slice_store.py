# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the nodes' ResourceSlices with a rising generation if they differ, or delete them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.hardware.slices import node_slice, slice_name
from ansible_collections.composable.infra.lab.names import DRIVER

_PATH = "/apis/resource.k8s.io/v1/resourceslices"
LOST_TAINT = {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}


class SliceStore:
    """Slices by node. Each node has at most one, with a fixed name."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def publish(self, node: str, entries: list[dict[str, Any]]) -> bool:
        """Announce these devices. Return True if the slice changed.

        A node without devices gets no new slice, but may keep one.
        """
        current = self._read(node)
        if current is None:
            if entries:
                self._api.request("POST", _PATH, node_slice(node, entries, 1))
            return bool(entries)
        if _devices(current) == entries:
            return False
        self._replace(node, current, entries)
        return True

    def taint(self, node: str) -> None:
        """Taint every device of the node for a lost GPU, as the vendor's health check does."""
        current = self._read(node)
        if current is not None and _devices(current):
            self._replace(node, current, [{**entry, "taints": [LOST_TAINT]} for entry in _devices(current)])

    def drop(self, node: str) -> None:
        """Delete the slice."""
        try:
            self._api.request("DELETE", f"{_PATH}/{slice_name(node)}")
        except ApiRefusal as error:
            if error.status != 404:
                raise

    def _replace(self, node: str, current: Mapping[str, Any], entries: list[dict[str, Any]]) -> None:
        body = node_slice(node, entries, int(current["spec"]["pool"]["generation"]) + 1)
        body["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        self._api.request("PUT", f"{_PATH}/{slice_name(node)}", body)

    def _read(self, node: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._api.get(f"{_PATH}/{slice_name(node)}")
        except ApiRefusal as error:
            if error.status == 404:
                return None
            raise
        if found["spec"]["driver"] != DRIVER:
            raise ApiRefusal(409, f"{slice_name(node)} belongs to the driver {found['spec']['driver']}")
        return found


def _devices(written: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(written["spec"].get("devices") or [])
