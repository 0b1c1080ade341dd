# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An open watch: bytes become events, and another thread can end it while it blocks."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

from .errors import ApiError, Unreachable, from_status
from .resource import Object
from .transport import Transport

_CHUNK = 1 << 16


class WatchStream:
    """Iterate once, in one thread. Opens at the first ``next`` or before; ``close()`` may come from any thread."""

    def __init__(self, transport: Transport, path: str, silence: float) -> None:
        self._transport, self._path, self._silence = transport, path, silence
        self._lock = threading.Lock()
        self._closed = False
        self._answer: Any = None
        self._events = self._read()

    def __iter__(self) -> Iterator[Object]:
        return self

    def __next__(self) -> Object:
        return next(self._events)

    def open(self) -> None:
        """Connect and wait for the server's consent, which ``next`` would do otherwise. Raises ApiError."""
        if self._closed or self._answer is not None:
            return
        answer = self._transport.stream(self._path, self._silence)
        with self._lock:
            self._answer = answer

    def close(self) -> None:
        """End the watch; a blocked ``next`` ends at once with StopIteration. Never raises."""
        with self._lock:
            self._closed = True
            answer = self._answer
        if answer is not None:
            _cut(answer)

    def _read(self) -> Iterator[Object]:
        try:
            self.open()
            if not self._closed:
                yield from self._decode()
        except ApiError:
            if not self._closed:
                raise
        except Exception as problem:
            if not self._closed:
                raise self._transport.unreachable(problem) from None
        finally:
            if self._answer is not None:
                self._answer.close()

    def _decode(self) -> Iterator[Object]:
        rest = b""
        for chunk in self._answer.stream(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield _event(line)
        if rest.strip():
            yield _event(rest)


def _event(line: bytes) -> Object:
    try:
        event: Object = json.loads(line)
        kind, obj = event["type"], event["object"]
    except (ValueError, KeyError, TypeError):
        raise Unreachable("the watch was cut in the middle of an event", sent=True) from None
    if kind == "ERROR":
        raise from_status(obj)
    return event


def _cut(answer: Any) -> None:
    try:
        # urllib3 2.3 and later; it wakes the thread that blocks in a read, which close() does not.
        answer.shutdown()
    except (AttributeError, ValueError, RuntimeError, OSError):
        sock = getattr(answer.connection, "sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
