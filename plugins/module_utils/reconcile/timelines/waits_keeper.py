# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the waits of the last day in a ConfigMap of the controllers' namespace.

There they survive restarts. The process that writes a claim's timeline counts the claim once and
adds it to the stored counts. deploy/rbac/scaler.yaml has the ConfigMap.
"""

from __future__ import annotations

import secrets
import threading
import time
import typing as t
from collections.abc import Callable

from ...kube.client.verbs import Client
from ...kube.coordination.config_map_text import ConfigMapText
from .day_of_waits import Rows, Stored, counted, last_day, of_text, together
from .timeline import Timeline

NAME: t.Final = "composable-infra-waits"
FIELD: t.Final = "waits.json"
LOOK_SECONDS: t.Final = 60.0


class WaitsKeeper:
    """Keeper of the waits. Thread-safe.

    ``told`` is called with the problem of the ConfigMap, or with an empty string if there is none.
    Nothing here raises. If the ConfigMap cannot be read or written, the process goes on with its
    own counts. Without ``enabled``, send no requests.
    """

    def __init__(self, client: Client, namespace: str, told: Callable[[str], object], *, enabled: bool = True,
                 clock: Callable[[], float] = time.time) -> None:
        self._text = ConfigMapText(client, namespace, NAME, FIELD, "waits of the last day", told)
        self._clock, self._enabled, self._name, self._number = clock, enabled, secrets.token_hex(4), 0
        self._asking, self._lock = threading.Lock(), threading.Lock()
        self._new: Rows = {}
        # Counts being written. They are sent again until the ConfigMap shows their number, so that
        # they are added once.
        self._sent: Rows = {}
        self._stored, self._looked = Stored(), 0.0

    def count(self, timeline: Timeline) -> None:
        """Count a claim when its timeline is written."""
        with self._lock:
            self._new = together(self._new, counted(timeline))

    def known(self) -> Rows:
        """Return the last day: stored counts and those of this process.

        Read the ConfigMap again if the last try is older than LOOK_SECONDS and no other thread
        reads it.
        """
        if self._enabled and self._clock() >= self._looked + LOOK_SECONDS and self._asking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._asking.release()
        with self._lock:
            return last_day(together(self._stored.table, self._sent, self._new), self._clock())

    def keep(self) -> None:
        """Add new counts to the stored ones. Only the leader calls this."""
        with self._asking:
            if not self._enabled or not self._anything() or not self._look():
                return
            with self._lock:
                if not self._sent:
                    self._sent, self._new, self._number = self._new, {}, self._number + 1
            if self._sent:
                self._send()

    def _anything(self) -> bool:
        with self._lock:
            return bool(self._new or self._sent)

    def _look(self) -> bool:
        """Read the ConfigMap. Return False if that failed."""
        self._looked = self._clock()
        found = self._text.read(of_text)
        if found is None:
            return False
        with self._lock:
            self._stored = found
            if (found.writer, found.number) == (self._name, self._number):
                self._sent = {}
        return True

    def _send(self) -> None:
        table = last_day(together(self._stored.table, self._sent), self._clock())
        new = Stored(table, self._name, self._number)
        if self._text.write(new.text()):
            with self._lock:
                self._stored, self._sent = new, {}
