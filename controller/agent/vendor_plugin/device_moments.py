# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the node's devices came, made their steps, and left, as this process saw it."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claims import DeviceKey
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import REMOVED, TOUCHED, Evidence

from ..device_request import DeviceRequest
from ..node_operations import NodeOperations
from .plugin_control import PluginControl
from .plugin_pods import Run, run_of


@dataclass(frozen=True, slots=True)
class FirstUse:
    """The first use of a device, as this process saw it, and the plugins that ran then.

    A node's clock may be set while plugins run, so the timestamps of evidence and pods do not show
    their order.
    """

    at: float
    ran: frozenset[Run]


class DeviceMoments:
    """The moments that decide on a restart of a vendor's plugin. Thread-safe.

    All are of ``time.monotonic()``. Work from before this process counts from its start, ``began``.
    """

    def __init__(self, operations: NodeOperations, control: PluginControl) -> None:
        self._operations, self._control = operations, control
        self.began, self.last_step, self.last_arrival = time.monotonic(), 0.0, 0.0
        self._known: dict[str, tuple[str, bool]] = {}
        self._stepped: dict[str, float] = {}
        self._uses: dict[str, FirstUse] = {}
        self._leaving: dict[str, float | None] = {}
        self._lock = threading.Lock()

    def arrived(self, requests: Iterable[DeviceRequest]) -> None:
        """Note which of all ComposableResources, or of their devices, are new since the last call.
        """
        with self._lock:
            for request in requests:
                now = (request.device, request.coming)
                before, self._known[request.uid] = self._known.get(request.uid), now
                if before != now and any(now):
                    self.last_arrival = time.monotonic()

    def stepped(self, request: DeviceRequest, before: Evidence | None, now: Evidence) -> None:
        """Note a step of a device. A restart then waits for devices that arrive together."""
        moment = time.monotonic()
        if now.has(TOUCHED) and not (before and before.has(TOUCHED)):
            found = (run_of(pod) for plugin in self._operations.plugins() for pod in self._control.live(plugin))
            self._uses[request.uid] = FirstUse(moment, frozenset(found))
        with self._lock:
            if before is None or before.steps != now.steps:
                self.last_step = self._stepped[request.uid] = moment
            if now.phase == REMOVED and (name := now.uuid or now.address):
                self._leaving.setdefault(name, None)

    def find_leavers(self, announced: Mapping[str, DeviceKey]) -> None:
        """Find the announced devices, by UUID, that the bus does not show. Call it after a start.
        """
        there = self._operations.uuids()
        drivers = {plugin.driver for plugin in self._operations.plugins()}
        with self._lock:
            for uuid, key in announced.items():
                if there is not None and uuid not in there and key[0] in drivers:
                    self._leaving.setdefault(uuid, None)

    def forget_hidden(self, shown: Collection[str]) -> None:
        """Forget the removed devices that the slices show no longer, given by UUID or address."""
        with self._lock:
            self._leaving = {name: told for name, told in self._leaving.items() if name in shown}

    def leaving(self) -> dict[str, float | None]:
        """Return the removed devices, by UUID or address, with the last restart for each, or None.
        """
        with self._lock:
            return dict(self._leaving)

    def told(self, leaving: Iterable[str]) -> None:
        """Note that the plugin was restarted for these removed devices."""
        with self._lock:
            self._leaving.update(dict.fromkeys(leaving, time.monotonic()))

    def first_use(self, uid: str) -> FirstUse | None:
        """Return the first use of a device, None if this process did not see it."""
        return self._uses.get(uid)

    def last_step_of(self, requests: Iterable[DeviceRequest]) -> float:
        """Return when the last of these devices made its last step."""
        with self._lock:
            return max((self._stepped.get(request.uid, self.began) for request in requests), default=self.began)

    def forget(self, uid: str) -> None:
        """Forget the ComposableResource with this uid, which is gone."""
        with self._lock:
            for known in (self._known, self._stepped, self._uses):
                known.pop(uid, None)
