# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device is kept for which claim: at once in memory, a moment later as an annotation that survives a crash."""

from __future__ import annotations

import threading
import time
import typing as t

from ..kube import cro

Json = dict[str, t.Any]
Hold = tuple[str, float]
NONE: t.Final[Hold] = ("", 0.0)


class Holds:
    """Holds by ComposableResource. Thread-safe; times are seconds since the epoch."""

    def __init__(self) -> None:
        self._holds: dict[str, Hold] = {}
        self._by_claim: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def keep(self, resource: str, claim: str) -> None:
        """Keep a device for the claim (its uid) that it is handed to."""
        with self._lock:
            self._set(resource, (claim, time.time()))

    def of(self, raw: Json) -> Hold:
        """(claim uid, since), from memory or from the annotation."""
        with self._lock:
            return self._holds.get(raw["metadata"]["name"]) or cro.read_hold(raw)

    def end(self, resource: str) -> None:
        """The hold is over, whatever the annotation says until it is written anew: its claim goes elsewhere."""
        with self._lock:
            self._set(resource, NONE)

    def forget(self, resource: str) -> None:
        """The ComposableResource is gone."""
        with self._lock:
            self._set(resource, NONE)
            self._holds.pop(resource, None)

    def kept_for(self, claim: str) -> list[str]:
        """ComposableResources kept in memory for a claim."""
        with self._lock:
            return list(self._by_claim.get(claim, ()))

    def _set(self, resource: str, hold: Hold) -> None:
        before = self._holds.get(resource, NONE)[0]
        names = self._by_claim.get(before, set())
        names.discard(resource)
        if not names:
            self._by_claim.pop(before, None)
        self._holds[resource] = hold
        if hold[0]:
            self._by_claim.setdefault(hold[0], set()).add(resource)
