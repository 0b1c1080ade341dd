# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow which devices the fabric has plugged into which machine, by long polls of /admin/state."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

POLL_SECONDS = 20.0
# A node has its devices even if the CDI Manager does not answer, so retry quickly.
_RETRY_SECONDS = 0.1
# A device is on the machine's bus until the fabric has finished the detach.
_PLUGGED = frozenset({"attached", "detaching"})


@dataclass(frozen=True, slots=True)
class PluggedDevice:
    """A device on a machine's bus.

    `uid` is its name in the fabric, `serial` its name on the node (GPU UUID). `since` is when the
    fabric plugged it in, in seconds since the epoch, or 0.0 if unknown.
    """

    uid: str
    serial: str
    model: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    since: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class FabricState:
    """State of the fabric: devices by machine UID."""

    generation: int
    machines: Mapping[str, tuple[PluggedDevice, ...]]


def parse_state(raw: Mapping[str, Any]) -> FabricState:
    """Return the state in a reply of /admin/state: plugged GPUs, and other devices with a PCI
    class."""
    machines: dict[str, list[PluggedDevice]] = {}
    for entry in raw["devices"]:
        model = str(entry["model"])
        properties = raw.get("models", {}).get(model) or {}
        shown = entry.get("kind", "gpu") == "gpu" or "pci_class" in (properties.get("attributes") or {})
        if entry.get("machine") and entry["state"] in _PLUGGED and shown:
            since = float(entry.get("since") or 0.0)
            device = PluggedDevice(str(entry["uid"]), str(entry["serial"]), model, properties, since)
            machines.setdefault(str(entry["machine"]), []).append(device)
    return FabricState(int(raw["generation"]), {uid: tuple(found) for uid, found in machines.items()})


class FabricWatcher(threading.Thread):
    """Calls `on_state` with every new state. While the emulator does not answer, nothing
    changes."""

    def __init__(
        self, url: str, ca: Path | None, on_state: Callable[[FabricState], None], log: Callable[[str], None]
    ) -> None:
        super().__init__(name="fabric", daemon=True)
        self._url = url.rstrip("/") + "/admin/state"
        self._on_state = on_state
        self._log = log
        timeout = urllib3.Timeout(connect=3, read=POLL_SECONDS + 10)
        self._http = urllib3.PoolManager(ca_certs=str(ca) if ca else None, timeout=timeout, retries=False)

    def run(self) -> None:
        """Poll for ever."""
        generation: int | None = None
        away = False
        while True:
            try:
                state = self._poll(generation)
            except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError) as error:
                if not away:
                    self._log(f"fabric {self._url} cannot be read, trying again: {type(error).__name__}: {error}")
                # A restarted emulator counts from the start, so the next poll must not send the old
                # number.
                generation, away = None, True
                threading.Event().wait(_RETRY_SECONDS)
                continue
            if away:
                self._log(f"fabric {self._url} can be read again")
                away = False
            if state.generation != generation:
                generation = state.generation
                self._on_state(state)

    def _poll(self, generation: int | None) -> FabricState:
        fields = {} if generation is None else {"after": str(generation), "timeout": f"{POLL_SECONDS:g}"}
        reply = self._http.request("GET", self._url, fields=fields)
        if reply.status != 200:
            raise ValueError(f"HTTP status {reply.status}")
        return parse_state(json.loads(reply.data))
