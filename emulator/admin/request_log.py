# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of every request with its times and its effect.

Tests and benchmarks read from it who did what, and when.
"""

from __future__ import annotations

import asyncio
import time
import typing as t
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field

from aiohttp import web

from ..pool.journal import Journal
from ..pool.pooled import PooledDevice

KEPT: t.Final = 100_000


@dataclass(slots=True)
class Entry:
    """One request. Times are seconds since 1970, and for differences also of the monotonic clock.

    ``status``: None if there is no reply yet, or none could be sent. ``peer``: port of the client,
    one for each connection. ``effect``: the effects on the fabric, also after the reply, joined by
    "; ". ``faults``: kinds of the faults that struck the request.
    """

    n: int
    method: str
    path: str
    query: dict[str, str]
    peer: int | None
    time_received: float
    monotonic_received: float
    time_replied: float | None = None
    monotonic_replied: float | None = None
    status: int | None = None
    effect: str | None = None
    machine: str | None = None
    device: str | None = None
    model: str | None = None
    manager: str | None = None
    purpose: str | None = None
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Effect:
    """A device was attached to a machine or detached from it.

    ``request``: number of the entry, None for none.
    """

    n: int
    time: float
    monotonic: float
    effect: str
    device: str
    model: str
    machine: str | None
    request: int | None


ENTRY: t.Final = web.RequestKey("entry", Entry)
UNANSWERED: t.Final = web.RequestKey("unanswered", bool)
# The request for which the current task works.
CURRENT: t.Final[ContextVar[Entry | None]] = ContextVar("current", default=None)


class RequestLog:
    """The newest 100,000 requests and effects. With journals they outlive the process."""

    def __init__(self, journal: Journal | None = None, effects: Journal | None = None) -> None:
        self._journal = journal
        self._effect_journal = effects
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._effects: deque[Effect] = deque(maxlen=KEPT)
        self._remember()

    def since(self, n: int) -> list[dict[str, t.Any]]:
        """Return the entries with a number above ``n``."""
        return [asdict(entry) for entry in self._entries if entry.n > n]

    def effects(self, n: int) -> list[dict[str, t.Any]]:
        """Return the effects with a number above ``n``, in the order in which they happened."""
        return [asdict(effect) for effect in self._effects if effect.n > n]

    def effect(self, device: PooledDevice, text: str) -> None:
        """Note an effect on a device, also with the request of the current task."""
        entry = CURRENT.get()
        number = self._effects[-1].n + 1 if self._effects else 1
        made = Effect(
            number, time.time(), time.monotonic(), text, device.spec.uid, device.spec.model, device.machine,
            entry.n if entry else None,
        )
        self._effects.append(made)
        if self._effect_journal:
            self._effect_journal.write(asdict(made))
        if entry:
            entry.effect = text if entry.effect is None else f"{entry.effect}; {text}"
            entry.device = device.spec.uid
            self.save(entry)

    def forget(self) -> None:
        """Drop all entries and effects. Numbers start again."""
        self._entries.clear()
        self._effects.clear()
        for journal in (self._journal, self._effect_journal):
            if journal:
                journal.replace([])

    def save(self, entry: Entry) -> None:
        """Write an entry. A later write of the same number replaces it."""
        if self._journal:
            self._journal.write(asdict(entry))

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Record the requests to managers.

        Requests to the emulator's own pages are not recorded.
        """
        if request.path == "/" or request.path.startswith("/admin/"):
            return await handler(request)
        entry = request[ENTRY] = self._begin(request)
        before = CURRENT.set(entry)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            self._end(entry, error.status)
            raise
        except (Exception, asyncio.CancelledError):
            self._end(entry, None)
            raise
        finally:
            CURRENT.reset(before)
        self._end(entry, None if UNANSWERED in request else response.status)
        return response

    def _begin(self, request: web.Request) -> Entry:
        wall, monotonic = time.time(), time.monotonic()
        peer = request.transport and request.transport.get_extra_info("peername")
        number = self._entries[-1].n + 1 if self._entries else 1
        entry = Entry(
            number, request.method, request.path, dict(request.query), peer[1] if peer else None, wall, monotonic
        )
        self._entries.append(entry)
        self.save(entry)
        return entry

    def _end(self, entry: Entry, status: int | None) -> None:
        entry.status = status
        entry.time_replied, entry.monotonic_replied = time.time(), time.monotonic()
        self.save(entry)

    def _remember(self) -> None:
        if self._journal:
            found = {record["n"]: Entry(**record) for record in self._journal.read()}
            self._entries.extend(found.values())
            self._journal.replace(asdict(entry) for entry in self._entries)
        if self._effect_journal:
            self._effects.extend(Effect(**record) for record in self._effect_journal.read())
            self._effect_journal.replace(asdict(effect) for effect in self._effects)
