# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send changes to all open pages (server-sent events).

One thread sends them, and never waits for a page.

Source: html.spec.whatwg.org, section 9.2, Server-sent events.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.controller.ui.view import Change, View

# Times in seconds: between two checks for changes, between two signs of life, until a page must
# connect again, until a page must have read the sent data, and for which rows are kept after the
# last page.
TICK, SIGN_OF_LIFE, LONGEST, PATIENCE, KEEP_SECONDS = 0.25, 15.0, 300.0, 5.0, 10.0
# The most bytes that wait for one page, and the most pages at the same time, in all, of one
# namespace, and of all namespaces.
MOST_WAITING, MOST_STREAMS = 8_000_000, 100
MOST_OF_ONE, MOST_OF_NAMESPACES = 20, 80
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(eq=False)
class Stream:
    """One open page. ``waiting``: bytes that its connection has not taken yet.

    ``stalled``: since when.
    """

    connection: socket.socket
    scope: Scope
    began: float
    waiting: bytearray = field(default_factory=bytearray)
    stalled: float = 0.0
    told: float = 0.0


class Broadcaster:
    """Send changes to the open pages.

    ``clock``: returns seconds. ``open``: the number of pages now. ``dropped``: the number of pages
    so far that read too slowly.
    """

    def __init__(self, view: View, clock: Callable[[], float] = time.monotonic) -> None:
        self._view, self._clock = view, clock
        self._streams: set[Stream] = set()
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._selector, self._stopping = selectors.DefaultSelector(), False
        self._idle_since: float | None = None
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="ui", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End all streams."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        with self._lock:
            for stream in list(self._streams):
                self._end(stream)

    @property
    def open(self) -> int:
        """The number of connected pages."""
        return len(self._streams)

    def full_for(self, scope: Scope) -> bool:
        """Return whether no further page of a scope is allowed.

        Pages of namespaces leave room for other pages.
        """
        if len(self._streams) >= MOST_STREAMS:
            return True
        if scope.namespace is None:
            return False
        others = [stream.scope for stream in list(self._streams) if stream.scope.namespace is not None]
        return others.count(scope) >= MOST_OF_ONE or len(others) >= MOST_OF_NAMESPACES

    def looked_at(self) -> None:
        """Read rows now, because a client requested them, and update them for a while."""
        self._view.open()
        self._idle_since = self._clock()
        self._wake.set()

    def adopt(self, connection: socket.socket, scope: Scope, position: str) -> bool:
        """Send a page the changes since a position, and all later changes.

        Return False if there are too many pages.

        From then on the connection belongs to the broadcaster. If the position is too old, the page
        gets the event ``reset``.
        """
        self._view.open()
        with self._lock:
            if self.full_for(scope):
                return False
            connection.setblocking(False)
            stream = Stream(connection, scope, self._clock())
            # The sender uses the same lock, so no change is lost or sent twice in between.
            missed = self._view.since(position)
            self._streams.add(stream)
            self._selector.register(connection, selectors.EVENT_READ, stream)
            self._say(stream, _event("open", "{}", self._view.position))
            if missed is None:
                self._say(stream, _event("reset", "{}", self._view.position))
            for change in missed or ():
                self._tell(stream, change, {})
        self._wake.set()
        return True

    def _run(self) -> None:
        while not self._stopping:
            if not self._streams and self._idle_since is None:
                self._wake.wait()
                self._wake.clear()
                continue
            began = self._clock()
            with self._lock:
                self._turn(began)
            self._listen(max(0.02, TICK - (self._clock() - began)))

    def _turn(self, now: float) -> None:
        """Check for changes once, and send them."""
        change, texts = self._view.refresh(), dict[Scope, bytes]()
        for stream in list(self._streams):
            if change is not None:
                self._tell(stream, change, texts)
            elif now - stream.told > SIGN_OF_LIFE:
                self._say(stream, b":\n\n")
            else:
                self._push(stream)
            if now - stream.began > LONGEST and not stream.waiting:
                self._end(stream)
        self._rest(now)

    def _rest(self, now: float) -> None:
        """Drop the rows if no client has read them for a while."""
        if self._streams:
            self._idle_since = None
        elif self._idle_since is not None and now - self._idle_since > KEEP_SECONDS:
            self._idle_since = None
            self._view.close()

    def _tell(self, stream: Stream, change: Change, texts: dict[Scope, bytes]) -> None:
        """Send a change. Pages of one scope get the same text."""
        if stream.scope not in texts:
            text = change.text(stream.scope)
            texts[stream.scope] = _event("change", text, f"{self._view.name}-{change.number}") if text else b""
        if texts[stream.scope]:
            self._say(stream, texts[stream.scope])

    def _say(self, stream: Stream, data: bytes) -> None:
        stream.waiting += data
        stream.told = self._clock()
        self._push(stream)

    def _push(self, stream: Stream) -> None:
        """Send as much as the connection takes now.

        Drop a page that stalls for long, or is far behind.
        """
        try:
            while stream.waiting:
                sent = stream.connection.send(stream.waiting)
                del stream.waiting[:sent]
            stream.stalled = 0.0
        except _LATER:
            stream.stalled = stream.stalled or self._clock()
            if len(stream.waiting) > MOST_WAITING or self._clock() - stream.stalled > PATIENCE:
                self.dropped += 1
                self._end(stream)
        except OSError:
            self._end(stream)

    def _listen(self, seconds: float) -> None:
        """Wait, and notice pages that have disconnected. A page sends nothing else."""
        deadline = self._clock() + seconds
        while not self._stopping and (left := deadline - self._clock()) > 0:
            if not self._streams:
                self._wake.wait(left)
                self._wake.clear()
                return
            for key, _events in self._selector.select(left):
                with self._lock:
                    self._heard(key.data)

    def _heard(self, stream: Stream) -> None:
        try:
            if stream in self._streams and not stream.connection.recv(4096):
                self._end(stream)
        except _LATER:
            pass
        except OSError:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        if stream in self._streams:
            self._streams.discard(stream)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(stream.connection)
            with contextlib.suppress(OSError):
                stream.connection.shutdown(socket.SHUT_RDWR)
            stream.connection.close()
            self._idle_since = None if self._streams else self._clock()


def _event(name: str, data: str, position: str) -> bytes:
    return f"id: {position}\nevent: {name}\ndata: {data}\n\n".encode()
