# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An open watch: bytes become events, and another thread can end it while it blocks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ...net.http1 import HttpConnection
from ..api_resources import Object
from ..client import managed_fields
from ..client.transport import Transport
from ..errors import ApiError, Unreachable, from_status


class WatchStream:
    """A watch that one thread iterates once. It opens at the first ``next`` or before.

    ``close()`` may be called from any thread.
    """

    def __init__(self, transport: Transport, path: str, silence: float) -> None:
        self._transport, self._path, self._silence = transport, path, silence
        self._lock = threading.Lock()
        self._closed = False
        self._connection: HttpConnection | None = None
        self._events = self._read()

    def __iter__(self) -> Iterator[Object]:
        return self._events

    def __next__(self) -> Object:
        return next(self._events)

    def open(self) -> None:
        """Connect and wait for the server's answer, as ``next`` would. Raise ApiError."""
        if self._closed or self._connection is not None:
            return
        connection = self._transport.stream(self._path, self._silence)
        with self._lock:
            self._connection = connection

    def close(self) -> None:
        """End the watch. A blocked ``next`` ends at once with StopIteration. Never raise."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.cut()

    def _read(self) -> Iterator[Object]:
        try:
            self.open()
            if self._connection is not None and not self._closed:
                yield from _events(self._connection.pieces())
        except ApiError:
            if not self._closed:
                raise
        except Exception as problem:
            if not self._closed:
                raise self._transport.unreachable(problem) from None
        finally:
            # Close it under the lock, because the number of a closed socket may already belong to
            # another one.
            with self._lock:
                if self._connection is not None:
                    self._connection.close()


def _events(pieces: Iterator[bytes]) -> Iterator[Object]:
    begun: list[bytes] = []
    for piece in pieces:
        ended, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield from _decoded(b"".join((*begun, ended)))
            begun.clear()
        begun.append(rest)
    yield from _decoded(b"".join(begun))


def _decoded(block: bytes) -> Iterator[Object]:
    try:
        for event in managed_fields.loads_lines([line for line in block.split(b"\n") if line.strip()]):
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                raise from_status(obj)
            yield event
    except (ValueError, KeyError, TypeError):
        raise Unreachable("the connection ended in the middle of an event of the watch", sent=True) from None
