# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the vendor's DRA plugin on every node. It finds devices only when its pod starts.

It announces a device with a driver, even before the first use. The vendor's plugin could not give
such a device to a container, because the device has no file yet. Here no kubelet asks, so the
node's record has the UUIDs of such devices (`simulator/plugin.json`, `empty`).

Its slice stays for a short time without its pod. Then it is deleted, as the kubelet deletes the
slices of a driver that is gone. A running plugin notices only a lost GPU, and then taints all
devices of the node. It does not start while a lost GPU is on the bus, because the vendor's library
then returns an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import urllib3

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.hardware.node.records import GPU_DRIVER, BusDevice, Records
from ansible_collections.composable.infra.lab.hardware.plugin.appointments import Appointments
from ansible_collections.composable.infra.lab.hardware.plugin.slice_store import SliceStore
from ansible_collections.composable.infra.lab.hardware.slices import device_entries

_WORKERS = 4
_RETRY_SECONDS = 0.3
# A failed container is restarted with a growing back-off.
_FIRST_BACKOFF, _LAST_BACKOFF = 1.0, 10.0


@dataclass(slots=True)
class _Plugin:
    """The plugin of one node.

    `pod` is the running pod. `since` is when it began, or when the last one ended.
    """

    pod: str | None = None
    since: float = 0.0
    enumerated: str | None = None
    backoff: float = 0.0
    lost: bool = False


class Plugins:
    """The plugins of all nodes.

    `start_seconds` is the time from a pod's start to its slice. A slice stays `grace_seconds`
    without its pod. `on_started` is called when the plugins of all nodes have started once.
    """

    def __init__(self, store: SliceStore, nodes: Mapping[str, Records], start_seconds: float, grace_seconds: float,
                 on_started: Callable[[], None], log: Callable[[str], None]) -> None:
        self._store, self._nodes, self._log = store, nodes, log
        self._start_seconds, self._grace_seconds = start_seconds, grace_seconds
        self._on_started = on_started
        self._lock = threading.Lock()
        self._plugins = {node: _Plugin(enumerated=records.read_note("plugin").get("pod"))
                         for node, records in nodes.items()}
        self._unstarted = set(nodes)
        self._appointments = Appointments(self._look, _WORKERS)

    def start(self) -> None:
        """Start the workers."""
        self._appointments.start()
        if not self._unstarted:
            self._on_started()

    def pod(self, node: str, uid: str | None) -> None:
        """Set the pod that runs on a node now, or None."""
        plugin = self._plugins.get(node)
        if plugin is None:
            return
        with self._lock:
            plugin.pod, plugin.since, plugin.backoff = uid, time.monotonic(), 0.0
            plugin.lost = False
            known = uid is not None and uid == plugin.enumerated
        if known:
            self._started(node)
        else:
            self._appointments.make(node, self._start_seconds if uid else self._grace_seconds)

    def lose(self, node: str) -> None:
        """Record that a device of the node was lost."""
        with self._lock:
            self._plugins[node].lost = True
        self._appointments.make(node)

    def _look(self, node: str) -> None:
        plugin = self._plugins[node]
        try:
            with self._lock:
                pod, rest = plugin.pod, plugin.since + self._wait(plugin) - time.monotonic()
            if pod is None and rest <= 0:
                self._store.drop(node)
            elif pod is not None and pod != plugin.enumerated and rest <= 0:
                self._enumerate(node, plugin, pod)
            elif pod is not None and pod == plugin.enumerated and plugin.lost:
                self._store.taint(node)
                plugin.lost = False
        except (urllib3.exceptions.HTTPError, ApiRefusal) as error:
            self._log(f"slice of {node} not written, trying again: {type(error).__name__}: {error}")
            self._appointments.make(node, _RETRY_SECONDS)

    def _wait(self, plugin: _Plugin) -> float:
        if plugin.pod is None:
            return self._grace_seconds
        return plugin.backoff or self._start_seconds

    def _enumerate(self, node: str, plugin: _Plugin, pod: str) -> None:
        records = self._nodes[node]
        try:
            found = _shown(records)
        except LabError as error:
            with self._lock:
                plugin.since = time.monotonic()
                plugin.backoff = min(_LAST_BACKOFF, max(_FIRST_BACKOFF, plugin.backoff * 2))
            self._log(f"plugin of {node} does not start: {error}. Next try after {plugin.backoff:g} s")
            self._appointments.make(node, plugin.backoff)
            return
        self._store.publish(node, device_entries(found))
        records.keep_note("plugin", {"pod": pod, "empty": [device.uuid for device in found if not device.touched]})
        plugin.enumerated = pod
        self._started(node)

    def _started(self, node: str) -> None:
        with self._lock:
            if not self._unstarted:
                return
            self._unstarted.discard(node)
            if self._unstarted:
                return
        self._on_started()


def _shown(records: Records) -> list[BusDevice]:
    """Return the devices that the vendor's library shows. Raise LabError if it returns an error."""
    if faults.PLUGIN_FAILS in faults.read(records.root):
        raise LabError(f"the fault {faults.PLUGIN_FAILS} is on")
    owned = [device for device in records.devices() if device.driver == GPU_DRIVER]
    if not owned and faults.PLUGIN_NEEDS_GPU in faults.read(records.root):
        raise LabError("the driver is not loaded")
    bound = [device for device in owned if not device.draining]
    lost = [device.address for device in bound if device.lost]
    if lost:
        raise LabError(f"the device {lost[0]} is lost and still on the bus")
    return bound
