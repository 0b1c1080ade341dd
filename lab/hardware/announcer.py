# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the vendor's DRA plugin: announces in ResourceSlices what it finds on the nodes' buses."""

from __future__ import annotations

import math
import queue
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.hardware.slices import device_entries, node_slice, slice_name
from ansible_collections.composable.infra.lab.hardware.tree import NodeTree
from ansible_collections.composable.infra.lab.names import DRIVER

_PATH = "/apis/resource.k8s.io/v1/resourceslices"
_RETRY_SECONDS = 0.3
_WORKERS = 8


class Announcer:
    """Writes slices of nodes that were named by `announce`, several nodes at a time, one node in order."""

    def __init__(self, api: Api, trees: Mapping[str, NodeTree], delay: float, log: Callable[[str], None]) -> None:
        self._api = api
        self._trees = trees
        self._delay = delay
        self._log = log
        self._published: dict[str, dict[str, Any]] = {}
        self._appointed: dict[str, float] = {}
        self._queues: list[queue.SimpleQueue[str]] = [queue.SimpleQueue() for _worker in range(_WORKERS)]

    def start(self) -> None:
        """Start the workers."""
        for number, mine in enumerate(self._queues):
            threading.Thread(target=self._work, args=(mine,), name=f"announcer-{number}", daemon=True).start()

    def announce(self, node: str) -> None:
        """Bring the node's slice up to date: now, and again when its newest device's delay has passed."""
        self._enqueue(node)

    def _enqueue(self, node: str) -> None:
        self._queues[zlib.crc32(node.encode()) % _WORKERS].put(node)

    @staticmethod
    def _start(seconds: float, what: Callable[[str], None], node: str) -> None:
        timer = threading.Timer(seconds, what, (node,))
        timer.daemon = True
        timer.start()

    def _work(self, mine: queue.SimpleQueue[str]) -> None:
        while True:
            node = mine.get()
            try:
                self._publish(node)
            except (urllib3.exceptions.HTTPError, ApiRefusal) as error:
                self._log(f"slice of {node} not written, trying again: {type(error).__name__}: {error}")
                self._published.pop(node, None)
                self._start(_RETRY_SECONDS, self._enqueue, node)

    def _publish(self, node: str) -> None:
        now, found = time.time(), self._trees[node].found()
        due = (when for d in found if (when := d.appeared + self._delay) > now)
        self._appoint(node, min(due, default=math.inf), now)
        entries = device_entries(d for d in found if d.appeared + self._delay <= now)
        current = self._published.get(node) or self._read(node)
        if current is None and entries:
            self._published[node] = self._api.request("POST", _PATH, node_slice(node, entries, 1))
        elif current is not None and _devices(current) != entries:
            self._published[node] = self._replace(node, current, entries)
        elif current is not None:
            self._published[node] = current

    def _appoint(self, node: str, due: float, now: float) -> None:
        """See to the next device when it is due, once; the one after that is seen to then."""
        if due < self._appointed.get(node, math.inf):
            self._appointed[node] = due
            self._start(due - now, self._keep, node)

    def _keep(self, node: str) -> None:
        # Kept before the node is looked at: a clock that says the device is not due yet must lead to another one.
        self._appointed.pop(node, None)
        self._enqueue(node)

    def _replace(self, node: str, current: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
        body = node_slice(node, entries, int(current["spec"]["pool"]["generation"]) + 1)
        body["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        written: dict[str, Any] = self._api.request("PUT", f"{_PATH}/{slice_name(node)}", body)
        return written

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
