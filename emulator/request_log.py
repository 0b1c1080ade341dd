# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every request with its times and its effect: what tests and benchmarks read to know who did what, and when."""

from __future__ import annotations

import asyncio
import time
import typing as t
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from aiohttp import web

from .journal import Journal

KEPT: t.Final = 100_000


@dataclass(slots=True)
class Entry:
    """One request. Times: seconds since 1970 and, for differences, of the monotonic clock.

    ``status`` None: no reply yet, or none could be sent. ``peer``: client port, one per connection.
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


ENTRY: t.Final = web.RequestKey("entry", Entry)


class RequestLog:
    """The newest 100,000 requests; with a journal they outlive the process."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._remember()

    def since(self, n: int) -> list[dict[str, t.Any]]:
        """Entries with a number above ``n``."""
        return [asdict(entry) for entry in self._entries if entry.n > n]

    def save(self, entry: Entry) -> None:
        """Write an entry as it is now; a later write of the same number replaces it."""
        if self._journal:
            self._journal.write(asdict(entry))

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Record the managers' requests; looking at the emulator itself is not recorded."""
        if request.path == "/" or request.path.startswith("/admin/"):
            return await handler(request)
        entry = request[ENTRY] = self._begin(request)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            self._end(entry, error.status)
            raise
        except (Exception, asyncio.CancelledError):
            self._end(entry, None)
            raise
        self._end(entry, response.status)
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
        if self._journal is None:
            return
        found: dict[int, Entry] = {}
        for record in self._journal.read():
            found[record["n"]] = Entry(**record)
        self._entries.extend(found.values())
        self._journal.replace(asdict(entry) for entry in self._entries)
