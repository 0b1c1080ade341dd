# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the sums of usage in a ConfigMap of the controllers' namespace.

The stored sums count all time up to one moment. A write adds the time since then and moves the
moment, both at once. So a write that is lost or repeated changes nothing, and no list of counted
claims is needed. deploy/rbac/scaler.yaml has the ConfigMap.
"""

from __future__ import annotations

import secrets
import threading
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...kube.client.verbs import Client
from ...kube.coordination.config_map_text import ConfigMapText
from ...planning.accounting.sums import (
    FIELD,
    NAME,
    Counted,
    OtherVersion,
    Place,
    Stored,
    Sum,
    of_text,
    together,
)
from .ledger import Ledger
from .moments import Moments

LOOK_SECONDS: t.Final = 60.0
BEGIN_SECONDS: t.Final = 10.0
"""How long the release of a device waits until this process counts."""


class UsageKeeper:
    """Keeper of the sums. Thread-safe.

    ``version`` returns the resourceVersion up to which this process knows the claims. ``told`` is
    called with the problem of the ConfigMap, or with an empty string. Nothing here raises. Without
    ``enabled``, send no requests.
    """

    def __init__(self, client: Client, namespace: str, ledger: Ledger, moments: Moments,
                 version: Callable[[], str], told: Callable[[str], object], *, enabled: bool,
                 clock: Callable[[], float]) -> None:
        self._client, self._namespace, self._ledger, self._moments = client, namespace, ledger, moments
        self._claims_version, self._told, self._enabled, self._clock = version, told, enabled, clock
        self._text = ConfigMapText(client, namespace, NAME, FIELD, "sums of usage", self._say)
        self._name, self._asking = secrets.token_hex(4), threading.Lock()
        self._stored, self._looked, self._began = Stored(), 0.0, 0.0
        self._counts = threading.Event()
        self.problem = ""

    def begin(self) -> None:
        """Read the stored sums, and what claims did since then. Then take part."""
        if self._enabled:
            with self._asking:
                self._look()
            if self._stored.claims:
                since = (self._stored.claims, self._stored.until)
                self._ledger.replay.read(self._client, self._namespace, since, self._moments, self._clock())
        self._began = self._clock()
        self._ledger.update()
        self._counts.set()

    def await_begin(self) -> None:
        """Wait until this process counts, for BEGIN_SECONDS at most.

        It may lead before, and the note of a device that has left would be lost.
        """
        if self._enabled:
            self._counts.wait(BEGIN_SECONDS)

    def update(self) -> None:
        """Read the nodes that changed, and at times what another process has stored."""
        self._look_if_due()
        self._ledger.update()

    def notes(self, resource: str) -> Mapping[str, str | None]:
        """Return the annotation of a ComposableResource that lists its claims and since when they use it."""
        return self._ledger.notes(resource) if self._counts.is_set() else {}

    def known(self) -> Stored:
        """Return all sums up to now: the stored ones and those of this process since then.

        Before this process counts, return the stored ones.
        """
        self._look_if_due()
        now, stored = self._clock(), self._stored
        if not self._counts.is_set():
            return stored
        return replace(stored, table=self._up_to(stored, now)[0], since=stored.since or self._began, until=now,
                       uncertain=stored.uncertain + self._ledger.uncertain)

    def _up_to(self, stored: Stored, now: float) -> tuple[dict[Place, Sum], Counted]:
        since = stored.until or self._began
        if not since:
            return {}, Counted()
        found, counted = self._ledger.between(since, now)
        return together([stored.table, found], now), counted

    def keep(self) -> None:
        """Add the time since the last write to the stored sums. Only the leader calls this."""
        if self._enabled and self._counts.is_set():
            with self._asking:
                if self._look():
                    self._ledger.update()
                    self._send()

    def settle(self, resource: str) -> None:
        """Store the sums before a ComposableResource with a device is deleted.

        Its annotation is lost with it. One write counts all devices that have left by then.
        """
        self.await_begin()
        ended = self._ledger.ended_at(resource) if self._enabled and self._counts.is_set() else 0.0
        if ended > self._ledger.until:
            with self._asking:
                if ended > self._ledger.until and self._look():
                    self._ledger.update()
                    self._send()

    def _look_if_due(self) -> None:
        """Read the ConfigMap if the last try is older than LOOK_SECONDS and no other thread reads
        it."""
        if self._enabled and self._clock() >= self._looked + LOOK_SECONDS and self._asking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._asking.release()

    def _look(self) -> bool:
        """Read the ConfigMap. Return False if that failed."""
        self._looked = self._clock()
        found = self._text.read(of_text, OtherVersion)
        if found is None:
            return False
        self._stored = found
        self._ledger.settled(found.until, found.counted)
        return True

    def _send(self) -> None:
        claims_version, now = self._claims_version(), self._clock()
        stored = self._stored
        table, counted = self._up_to(stored, now)
        new = Stored(table, stored.since or self._began, now, self._name, claims_version,
                     stored.uncertain + self._ledger.uncertain, counted)
        if self._text.write(new.text()):
            self._stored = new
            self._ledger.settled(now, counted)

    def _say(self, problem: str) -> None:
        self.problem = problem
        self._told(problem)
