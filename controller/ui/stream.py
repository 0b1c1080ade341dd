# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes, sent to all open pages by one thread that waits for none of them (server-sent events).

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

# Seconds between two looks at what changed; between two signs of life; after which a page asks to be let in anew; that
# a page may take to read what was sent; and that rows are kept after the last page has gone.
TICK, SIGN_OF_LIFE, LONGEST, PATIENCE, KEEP_SECONDS = 0.25, 15.0, 300.0, 5.0, 10.0
# Bytes that may wait for one page, and pages at the same time: in all, of one namespace, and of all namespaces.
MOST_WAITING, MOST_STREAMS = 8_000_000, 100
MOST_OF_ONE, MOST_OF_NAMESPACES = 20, 80
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(eq=False)
class Stream:
    """One open page. ``waiting``: what its connection would not take yet; ``stalled``: since when."""

    connection: socket.socket
    scope: Scope
    began: float
    waiting: bytearray = field(default_factory=bytearray)
    stalled: float = 0.0
    told: float = 0.0


class Broadcaster:
    """Sends changes. ``clock``: seconds. ``open``: pages now; ``dropped``: pages that read too slowly, so far."""

    def __init__(self, view: View, clock: Callable[[], float] = time.monotonic) -> None:
        self._view, self._clock = view, clock
        self._streams: set[Stream] = set()
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._selector, self._stopping = selectors.DefaultSelector(), False
        self._idle_since: float | None = None
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="ui", daemon=True)

    def start(self) -> None:
        """Begin."""
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
        """How many pages are connected."""
        return len(self._streams)

    def full_for(self, scope: Scope) -> bool:
        """Whether no further page of a scope is allowed. Pages of namespaces leave room for pages of everything."""
        if len(self._streams) >= MOST_STREAMS:
            return True
        if scope.namespace is None:
            return False
        others = [stream.scope for stream in list(self._streams) if stream.scope.namespace is not None]
        return others.count(scope) >= MOST_OF_ONE or len(others) >= MOST_OF_NAMESPACES

    def looked_at(self) -> None:
        """Somebody asked for rows: have them read now, and keep them up to date for a while."""
        self._view.open()
        self._idle_since = self._clock()
        self._wake.set()

    def adopt(self, connection: socket.socket, scope: Scope, position: str) -> bool:
        """Send a page what changed since a position, and all that changes from now on; False when there are too many.

        The connection is this one's from then on. A position that is too old is answered by the event ``reset``.
        """
        self._view.open()
        with self._lock:
            if self.full_for(scope):
                return False
            connection.setblocking(False)
            stream = Stream(connection, scope, self._clock())
            # Under the same lock as the sending: no change is lost or doubled in between.
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
        """Look once, and send it."""
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
        """Give the rows up once nobody has looked at them for a while."""
        if self._streams:
            self._idle_since = None
        elif self._idle_since is not None and now - self._idle_since > KEEP_SECONDS:
            self._idle_since = None
            self._view.close()

    def _tell(self, stream: Stream, change: Change, texts: dict[Scope, bytes]) -> None:
        """Pages of one scope are told the same."""
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
        """Send what the connection takes now; a page that takes nothing for long, or that is far behind, is dropped."""
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
        """Wait, and notice pages that have gone: they send nothing else."""
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
