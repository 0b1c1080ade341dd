# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch which pod of the plugin runs on which node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import urllib3

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.hardware.plugin.daemonset import LABELS, NAMESPACE

_SELECTOR = quote(",".join(f"{name}={value}" for name, value in LABELS.items()))
_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={_SELECTOR}"
_WATCH_SECONDS = 240
_BACKOFF_SECONDS = 0.2


def running_on(pod: Mapping[str, Any]) -> str | None:
    """Return the node on which the pod runs, or None."""
    if pod["metadata"].get("deletionTimestamp") or pod.get("status", {}).get("phase") != "Running":
        return None
    node = pod["spec"].get("nodeName")
    return str(node) if node else None


class PodWatcher(threading.Thread):
    """Calls `on_pod` with a node and the UID of the plugin's running pod, or None, when that
    changes."""

    def __init__(self, api: Api, on_pod: Callable[[str, str | None], None], log: Callable[[str], None]) -> None:
        super().__init__(name="pods", daemon=True)
        self._api, self._on_pod, self._log = api, on_pod, log
        self._running: dict[str, str] = {}

    def run(self) -> None:
        """List and watch for ever."""
        failed = False
        while True:
            try:
                version = self._list()
                failed = False
                self._watch(version)
            except (urllib3.exceptions.HTTPError, ApiRefusal, ValueError, KeyError) as error:
                if not failed:
                    self._log(f"the plugin's pods cannot be read, trying again: {type(error).__name__}: {error}")
                failed = True
                threading.Event().wait(_BACKOFF_SECONDS)

    def take(self, running: Mapping[str, str]) -> None:
        """Set all running pods, by UID, with their nodes."""
        for uid in self._running.keys() - running.keys():
            self._end(uid)
        for uid, node in running.items():
            self._begin(uid, node)

    def see(self, kind: str, pod: Mapping[str, Any]) -> None:
        """Handle one event of the watch."""
        uid, node = str(pod["metadata"]["uid"]), running_on(pod)
        if kind == "DELETED" or node is None:
            self._end(uid)
        else:
            self._begin(uid, node)

    def _list(self) -> str:
        found = self._api.get(_PATH)
        self.take({str(pod["metadata"]["uid"]): node for pod in found["items"] if (node := running_on(pod))})
        return str(found["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        path = f"{_PATH}&watch=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        for event in self._api.stream(path, _WATCH_SECONDS + 30):
            if event["type"] == "ERROR":
                return
            self.see(event["type"], event["object"])

    def _begin(self, uid: str, node: str) -> None:
        if uid not in self._running:
            self._running[uid] = node
            self._on_pod(node, uid)

    def _end(self, uid: str) -> None:
        node = self._running.pop(uid, None)
        # If a pod ends after its successor began, nothing changes.
        if node is not None and node not in self._running.values():
            self._on_pod(node, None)
