# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the health of devices to the kubelet, which writes it into the status of the pods that use
them.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .wire import health_pb2
from .wire.rpc import Method

# Seconds until a report is repeated, and seconds for which the kubelet trusts it.
REPEAT_SECONDS, BELIEVED_SECONDS = 10.0, 30
_HEALTHY, _UNHEALTHY = 1, 2
_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a device of a pool. ``illness``: a sentence, empty if the device is healthy."""

    pool: str
    device: str
    illness: str = ""


class HealthStream:
    """Send each kubelet that listens the whole list at once, after each change and regularly.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._now: tuple[DeviceHealth, ...] = ()
        self._looked, self._version, self._closed = time.time(), 0, False
        self._changed = threading.Condition()

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        return {"NodeWatchResources": self._watch}

    def tell(self, devices: Sequence[DeviceHealth]) -> None:
        """Set the current health of all devices."""
        with self._changed:
            self._looked = time.time()
            if tuple(devices) != self._now:
                self._now, self._version = tuple(devices), self._version + 1
                self._changed.notify_all()

    def close(self) -> None:
        """End all streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _watch(self, _request: object, context: t.Any) -> Iterator[t.Any]:
        context.add_callback(self._wake)
        said = -1
        while context.is_active():
            with self._changed:
                if self._closed:
                    return
                said, message = self._version, self._message()
            yield message
            self._wait(said, context)

    def _wait(self, said: int, context: t.Any) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._version != said or not context.is_active(),
                                   REPEAT_SECONDS)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _message(self) -> t.Any:
        return health_pb2.NodeWatchResourcesResponse(devices=[{
            "device": {"pool_name": each.pool, "device_name": each.device},
            "health": _UNHEALTHY if each.illness else _HEALTHY,
            "last_updated_time": int(self._looked), "health_check_timeout_seconds": BELIEVED_SECONDS,
            "message": each.illness[:_LONGEST]} for each in self._now])
