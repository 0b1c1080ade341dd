# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choice of a free unit for an attach, from a model that all threads share.

The allocator excludes units that other attaches have already chosen.
"""

from __future__ import annotations

import hashlib
import threading
import time
import typing as t
import uuid
from collections.abc import Callable, Collection, Iterator

from ....errors import Missing, Refused
from ..composition.dialects import DIALECTS, dialect_for
from ..composition.preconditions import Change
from .service_model import Host, ServiceModel, Unit

# Maximum age of the model in seconds. A unit is read again right before the request.
OLDEST: t.Final = 5.0
_RANKS: t.Final = {"OK": 0, "Unknown": 1, "Warning": 2}


class UnitAllocator:
    """Chooses free units. Thread-safe. ``look`` reads the whole service."""

    def __init__(self, look: Callable[[], ServiceModel]) -> None:
        self._look = look
        self._loading = threading.Lock()
        self._lock = threading.Lock()
        self._service_model: ServiceModel | None = None
        self._began = 0.0
        self._reached: dict[str, float] = {}

    def service_model(self, oldest: float = 0.0) -> ServiceModel:
        """Return a model from a reading that began at most ``oldest`` seconds ago.

        Waiting threads share the next model.
        """
        asked = time.monotonic()
        with self._loading:
            if self._service_model is None or self._began < asked - oldest:
                began = time.monotonic()
                self._service_model, self._began = self._look(), began
                self._forget(began)
            return self._service_model

    def take(self, machine: str, model: str, kind: str, token: str | None, tried: Collection[str]) -> Change:
        """Return the best free unit that no other attach has chosen.

        Use an older model first, then a new one.

        Raise Missing if there is no such machine, and Refused.
        """
        for oldest in (OLDEST, 0.0):
            service_model = self.service_model(oldest)
            host = service_model.hosts.get(machine)
            if host is None:
                continue
            found = sorted(candidates(service_model, host, model, kind), key=_order(token))
            with self._lock:
                for unit in found:
                    if unit.uid not in self._reached and unit.uid not in tried:
                        self._reached[unit.uid] = float("inf")
                        return Change(service_model, host, unit, attach=True)
        raise self._none_left(machine, model, kind)

    def release(self, uid: str) -> None:
        """Record the end of an attach. Older models may be wrong about the unit."""
        with self._lock:
            self._reached[uid] = time.monotonic()

    def _forget(self, began: float) -> None:
        with self._lock:
            self._reached = {uid: end for uid, end in self._reached.items() if end >= began}

    def _none_left(self, machine: str, model: str, kind: str) -> Missing | Refused:
        service_model = self.service_model(OLDEST)
        if machine not in service_model.hosts:
            return Missing(f"cannot attach a {model} to machine {machine}: the CDI Manager knows no such machine")
        found = service_model.units.values()
        free = sum(unit.is_free and (unit.traits.model, unit.traits.kind) == (model, kind) for unit in found)
        host = service_model.hosts[machine]
        if free and not any(dialect_for(Change(service_model, host, unit, attach=True)) for unit in found):
            ways = ", ".join(dialect.name for dialect in DIALECTS)
            return Refused(f"cannot attach a {model} to machine {machine}: {free} are free, but the CDI Manager offers "
                           f"none of {ways} for this machine")
        return Refused(f"cannot attach a {model} to machine {machine}: no {kind} of this model is free for "
                       "this machine", exhausted=True)


def candidates(service_model: ServiceModel, host: Host, model: str, kind: str | None) -> Iterator[Unit]:
    """Yield the free units of a model that the machine can get, except unhealthy units."""
    for unit in service_model.units.values():
        fits = unit.is_free and unit.health in _RANKS and unit.traits.model == model
        if fits and kind in (None, unit.traits.kind) and dialect_for(Change(service_model, host, unit, attach=True)):
            yield unit


def _order(token: str | None) -> Callable[[Unit], tuple[int, str]]:
    """Return a sort key with healthy units first, then in a stable order for each token.

    So two tokens rarely want the same unit.
    """
    mark = token or uuid.uuid4().hex

    def key(unit: Unit) -> tuple[int, str]:
        return _RANKS[unit.health], hashlib.sha256(f"{mark} {unit.uid}".encode()).hexdigest()

    return key
