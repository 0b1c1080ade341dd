# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that this process has chosen for ComposabilityRequests that name none."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Mapping

from .memory import Remembered


class NodeShares(Remembered):
    """Number of devices by node, for each request. Thread-safe.

    After a crash, shares with a device are found again by the device.
    """

    def __init__(self, shares: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self._shares = {name: dict(of) for name, of in (shares or {}).items()}
        self._lock = threading.Lock()

    def set(self, request: str, shares: Mapping[str, int]) -> set[str]:
        """Store a plan. Return the nodes with a number that changed."""
        with self._lock:
            before = self._shares.get(request)
            self._shares[request] = dict(shares)
        names = set(shares) | set(before or {})
        return {name for name in names if before is None or before.get(name, 0) != shares.get(name, 0)}

    def of(self, request: str) -> Mapping[str, int] | None:
        """Return the devices by node, or None if the request was not planned."""
        with self._lock:
            found = self._shares.get(request)
            return None if found is None else dict(found)

    def forget(self, request: str) -> None:
        """Forget a request that is gone."""
        with self._lock:
            self._shares.pop(request, None)

    def copy(self) -> t.Self:
        """Return a copy for a forecast."""
        with self._lock:
            return type(self)(self._shares)
