# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Know which nodes have node operations now, which attaches and detaches need.

A node agent counts as alive while its Lease changes. Clocks of different hosts are never compared.
A Lease is old if it has not changed for its own duration by the local clock.
"""

from __future__ import annotations

import json
import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from ...kube.coordination.lease import Observed, observe
from ...model.value import Json
from ...planning.bar_room import BAR_ROOM

AGENT, SSH, NONE = "agent", "ssh", "none"
NODE_OPERATIONS: t.Final = (AGENT, SSH, NONE)
# Not a setting: the operator is another process, perhaps CoHDI's, and does the node operations.
ELSEWHERE: t.Final = "elsewhere"
# Annotation of the Lease, in JSON: common attributes of all devices behind the fabric's ports of
# the node, and BAR_ROOM.
PLACES: t.Final = "composable.infra/fabric-places"
_VERSION: t.Final = 1
_KNOWN_PLACES: t.Final = ("pcieRoot", "numaNode", BAR_ROOM)


class NodeAgents:
    """State of node operations. Thread-safe. ``kind`` is one of NODE_OPERATIONS or ``elsewhere``.
    ``clock`` returns seconds."""

    def __init__(self, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.kind, self._clock = kind, clock
        self._leases: dict[str, Observed] = {}
        self._places: dict[str, Mapping[str, str | int]] = {}
        self._lock = threading.Lock()

    @property
    def give_evidence(self) -> bool:
        """Return whether node operations are recorded, so that the controller can wait for them."""
        return self.kind in (AGENT, SSH)

    def lease_changed(self, node: str, lease: Json) -> bool:
        """Record the Lease of a node agent. Return True if the agent was not alive before."""
        now, places = self._clock(), read_places(lease)
        with self._lock:
            before = self._leases.get(node)
            self._places[node] = places
            self._leases[node] = observe(lease, before, now)
        return before is None or not _is_alive(before, now)

    def lease_gone(self, node: str) -> None:
        """Forget a node agent that has released its Lease."""
        with self._lock:
            self._leases.pop(node, None)
            self._places.pop(node, None)

    def alive(self, node: str) -> bool:
        """Return whether the node agent is alive."""
        with self._lock:
            lease = self._leases.get(node)
        return lease is not None and _is_alive(lease, self._clock())

    def states(self) -> dict[str, tuple[bool, Mapping[str, str | int]]]:
        """Return by node whether its agent is alive, and its ``places``."""
        now = self._clock()
        with self._lock:
            return {node: (_is_alive(lease, now), self._places.get(node, {})) for node, lease in self._leases.items()}

    def places(self, node: str) -> Mapping[str, str | int]:
        """Return the common attributes of all devices that the fabric attaches to a node, and their
        BAR_ROOM.

        Empty if unknown.
        """
        with self._lock:
            return self._places.get(node, {})

    def missing(self, node: str) -> str:
        """Return in a sentence why node operations are not possible now, or an empty string."""
        if self.kind == NONE:
            return (f"node_operations is none, so no program can prove that a device is idle on node {node} "
                    "and remove it")
        if self.kind == AGENT:
            with self._lock:
                lease = self._leases.get(node)
            if lease is None:
                return f"node {node} has no node agent. Install it with the role controllers, or set node_operations"
            if not _is_alive(lease, self._clock()):
                return f"the node agent of node {node} no longer renews its Lease. Check its pod"
        return ""


def places_text(places: Mapping[str, str | int]) -> str | None:
    """Return the annotation's text, or None if nothing is known, so that a patch removes the
    annotation."""
    return json.dumps({"version": _VERSION, **places}, sort_keys=True) if places else None


def read_places(lease: Json) -> dict[str, str | int]:
    """Return the attributes in a raw Lease. Ignore a text that cannot be read or has another
    version."""
    try:
        told = json.loads(((lease.get("metadata") or {}).get("annotations") or {}).get(PLACES) or "{}")
    except ValueError:
        return {}
    found = told if isinstance(told, dict) and told.get("version", _VERSION) == _VERSION else {}
    return {name: found[name] for name in _KNOWN_PLACES if type(found.get(name)) in (str, int)}


def _is_alive(lease: Observed, now: float) -> bool:
    return bool(lease.holder) and now - lease.since < lease.duration
