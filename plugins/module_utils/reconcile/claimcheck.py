# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last look before a detach: does any claim hold the device, asked of the API server and not of a cache."""

from __future__ import annotations

import threading
import time

from ..kube import claims, slices
from ..kube.client import Client
from ..kube.resource import CLAIMS
from .world import Json, World


class ClaimCheck:
    """Fresh reads of all claims; detaches that ask at the same time share one read that began after they asked."""

    def __init__(self, client: Client, world: World) -> None:
        self._client, self._world = client, world
        self._lock = threading.Lock()
        self._began = 0.0
        self._items: list[Json] = []

    def user(self, node: str, uuid: str) -> str | None:
        """The claim (namespace/name) that holds the device with this UUID, None when no claim does.

        Raises ApiError when the API server does not answer: nothing is then proven.
        """
        asked, key = time.monotonic(), self._world.local_device(node, uuid)
        for claim in self._fresh(asked):
            if key in claims.device_keys(claim) if key else self._holds_unseen(claim, node):
                return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        return None

    def _holds_unseen(self, claim: Json, node: str) -> bool:
        """A device of the node that no slice shows now may be the one that is asked for."""
        if claims.node(claim) != node:
            return False
        drivers = self._world.settings.drivers
        shown = {k for item in self._world.slices.by("node", node) for _uuid, k in slices.uuids(item)}
        pool = {(r["driver"], r["pool"], r["device"]) for r in claims.binding_results(claim)}
        return any(k[0] in drivers and k not in shown and k not in pool for k in claims.device_keys(claim))

    def _fresh(self, asked: float) -> list[Json]:
        with self._lock:
            if self._began < asked:
                began = time.monotonic()
                self._items = self._client.list(CLAIMS).items
                self._began = began
            return self._items
