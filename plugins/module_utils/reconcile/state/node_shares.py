# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes were chosen for ComposabilityRequests that name none, as this process planned it last."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class NodeShares:
    """Devices by node, by request. Thread-safe. What has a device is found again after a crash, by the device."""

    def __init__(self, shares: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self._shares = {name: dict(of) for name, of in (shares or {}).items()}
        self._lock = threading.Lock()

    def set(self, request: str, shares: Mapping[str, int]) -> set[str]:
        """Take down what was planned; the nodes for which it is another number than before."""
        with self._lock:
            before = self._shares.get(request)
            self._shares[request] = dict(shares)
        names = set(shares) | set(before or {})
        return {name for name in names if before is None or before.get(name, 0) != shares.get(name, 0)}

    def of(self, request: str) -> Mapping[str, int] | None:
        """Devices by node; None while the request was not planned."""
        with self._lock:
            found = self._shares.get(request)
            return None if found is None else dict(found)

    def forget(self, request: str) -> None:
        """The request is gone."""
        with self._lock:
            self._shares.pop(request, None)

    def copy(self) -> NodeShares:
        """The same, for a forecast."""
        with self._lock:
            return NodeShares(self._shares)
