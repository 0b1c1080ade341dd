# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the node's ResourceSlice as the plugin wants it, even if a starting kubelet deletes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.composable.infra.lab.hardware.slices import node_slice
from ansible_collections.composable.infra.lab.names import DRIVER
from ansible_collections.composable.infra.lab.real_nodes.plugin.api import PodApi, Refused, query

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_WATCH_SECONDS = 60
_RETRY_SECONDS = 0.5


class Publisher(threading.Thread):
    """Publishes after `registered.set()`, because the kubelet would not serve the devices
    before."""

    def __init__(
        self, api: PodApi, node: str, entries: Sequence[Mapping[str, Any]], log: Callable[[str], None]
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self.registered = threading.Event()
        self._api, self._node, self._entries, self._log = api, node, [dict(entry) for entry in entries], log
        self._own = SLICES + query(**{"spec.nodeName": node, "spec.driver": DRIVER})

    def run(self) -> None:
        """Publish for ever."""
        self.registered.wait()
        while True:
            try:
                version = self.publish()
                for _event in self._api.watch(f"{self._own}&resourceVersion={version}", _WATCH_SECONDS):
                    break
            except (Refused, OSError, ValueError) as error:
                self._log(f"slice not published, trying again: {error}")
                threading.Event().wait(_RETRY_SECONDS)

    def publish(self) -> str:
        """Write the slice if it differs. Return the version from which to watch."""
        listed = self._api.request("GET", self._own)
        present: list[dict[str, Any]] = listed["items"]
        for other in present[1:]:
            self._api.request("DELETE", f"{SLICES}/{other['metadata']['name']}")
        if not present:
            self._api.request("POST", SLICES, self._slice(1))
            self._log(f"{len(self._entries)} devices published")
        elif (present[0]["spec"].get("devices") or []) != self._entries:
            self._api.request("PUT", f"{SLICES}/{present[0]['metadata']['name']}", self._changed(present[0]))
            self._log(f"{len(self._entries)} devices published in place of others")
        return str(listed["metadata"]["resourceVersion"])

    def _slice(self, generation: int) -> dict[str, Any]:
        document = node_slice(self._node, self._entries, generation)
        document["metadata"] = {"generateName": f"{self._node}-{DRIVER}-", "ownerReferences": [self._owner()]}
        return document

    def _changed(self, present: Mapping[str, Any]) -> dict[str, Any]:
        generation = int(present["spec"]["pool"]["generation"]) + 1
        return {**self._slice(generation), "metadata": present["metadata"]}

    def _owner(self) -> dict[str, Any]:
        uid = self._api.request("GET", f"/api/v1/nodes/{self._node}")["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid, "controller": True}
