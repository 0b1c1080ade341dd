# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what claims took in a ConfigMap of the controllers' namespace, so that the next leader, and check mode, know.

The ConfigMap is shipped empty (deploy/rbac/scaler.yaml), so that nobody needs the right to create any.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable

from ...kube.api_resources import CONFIG_MAPS
from ...kube.client.verbs import Client
from ...kube.errors import ApiError
from ...planning.prewarm import Floor, costs
from .arrivals import Arrivals, Table, as_text, of_text

NAME: t.Final = "composable-infra-arrivals"
FIELD: t.Final = "peaks.json"


class ArrivalsKeeper:
    """``floors``: of these the ones that are learned; without any, nothing is asked for. ``told``: hears what is wrong
    with the ConfigMap, empty when nothing is. Nothing here raises: who cannot read or write it goes on with what this
    process counted itself. For one thread."""

    def __init__(self, client: Client, namespace: str, floors: Iterable[Floor], arrivals: Arrivals,
                 told: Callable[[str], object], clock: Callable[[], float] = time.time) -> None:
        self._client, self._namespace, self._arrivals = client, namespace, arrivals
        self._floors = [floor for floor in floors if floor.learn]
        self._told, self._clock = told, clock
        self._stored, self._read = "", False

    def read(self) -> bool:
        """Add what is stored; False when that could not be read."""
        if not self._floors:
            return True
        try:
            found = stored(self._client, self._namespace)
        except ApiError as error:
            self._told(f"what prewarm learned is not read from ConfigMap {self._namespace}/{NAME}: {error}")
            return False
        except ValueError as error:
            self._told(f"what prewarm learned begins anew, ConfigMap {self._namespace}/{NAME} is damaged: {error}")
            found = {}
        else:
            self._told("")
        self._arrivals.merge(found)
        self._read = True
        return True

    def costs(self) -> list[str]:
        """What each of them costs in the week that begins now, by what is known."""
        return costs(self._floors, self._clock(), self._arrivals.peaks)

    def keep(self) -> None:
        """Note that this hour is watched, and store what is new. To be called once a minute by the leader alone."""
        if not self._floors:
            return
        now = self._clock()
        self._arrivals.watched(now)
        if not (self._read or self.read()):
            return
        text = as_text(self._arrivals.table(now))
        if text == self._stored:
            return
        try:
            self._client.merge_patch(CONFIG_MAPS, NAME, {"data": {FIELD: text}}, self._namespace)
        except ApiError as error:
            self._told(f"what prewarm learned is not stored in ConfigMap {self._namespace}/{NAME}: {error}")
            return
        self._stored = text
        self._told("")


def stored(client: Client, namespace: str) -> Table:
    """The table that is stored. Raises ApiError, and ValueError for an unreadable one."""
    found = client.get(CONFIG_MAPS, NAME, namespace)
    return of_text(str((found.get("data") or {}).get(FIELD) or ""))
