# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 on one socket: send a request, read its response, and decide about another request."""

from __future__ import annotations

import contextlib
import math
import re
import select
import ssl
import time
from collections.abc import Iterator
from typing import Protocol

from .errors import BadResponse, TooLong
from .tls import shutdown

_RECEIVE = 1 << 14  # a TLS record is no longer
_HEAD_LIMIT = 1 << 16
_LINE_LIMIT = 1 << 10
_LAST = -1
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5]\d\d)(?: .*)?")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")

Headers = dict[str, str]


class Wire(Protocol):
    """The methods of a socket that are used here. TLS inside TLS has only these."""

    def recv(self, size: int, /) -> bytes:
        """Return some bytes, or none at the end."""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes, or raise OSError."""

    def settimeout(self, seconds: float, /) -> None:
        """Limit the wait of one call."""

    def fileno(self) -> int:
        """Return the descriptor of the TCP connection."""

    def close(self) -> None:
        """Close the connection."""


class HttpConnection:
    """A connection for one request at a time: ``ask``, then ``read`` or ``pieces`` to the end.

    Other threads may only call ``cut``. Methods raise OSError (such as TimeoutError or
    ConnectionError) and BadResponse, and then the connection cannot be used again.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._timeout = -1.0
        self._deadline = math.inf
        self._rest = b""
        self._length: int | None = 0
        self._chunked = self._keep = self._free = False
        self._poll = select.poll()
        self._poll.register(wire.fileno(), select.POLLIN)

    def ask(self, request: bytes, timeout: float) -> tuple[int, Headers]:
        """Send a whole request and read the head of its response.

        ``timeout`` is in seconds for the request and its whole response, unless ``set_timeout`` is
        called later. Return status and headers (names in lower case).
        """
        self._free = False
        self.set_timeout(timeout)
        self._deadline = time.monotonic() + timeout
        # A server may answer and close before it has read everything. In TLS 1.3 it refuses
        # certificates that late.
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            self._wire.sendall(request)
        status, headers, minor = self._head()
        self._begin_body(status, headers, minor)
        return status, headers

    def set_timeout(self, seconds: float) -> None:
        """Limit each silence to ``seconds``. The whole response has no deadline any more."""
        self._deadline = math.inf
        self._wait_at_most(seconds)

    def read(self, longest: int) -> bytes:
        """Return the whole body. Raise TooLong if it has more than ``longest`` bytes."""
        pieces, left = [], longest
        for piece in self.pieces():
            left -= len(piece)
            if left < 0:
                self._free = False
                raise TooLong(f"the body of the answer is longer than {longest} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes, without the chunk format."""
        if self._chunked:
            yield from self._chunks()
        elif self._length is None:
            yield from self._to_the_end()
        else:
            yield from self._counted(self._length)
        # Bytes after the announced body would be taken for the next response.
        self._free = self._keep and not self._rest

    @property
    def reusable(self) -> bool:
        """True if the response was read to its end and the server keeps the connection."""
        return self._free

    def quiet(self) -> bool:
        """Return False if the server has closed the idle connection, or has sent bytes."""
        return not self._poll.poll(0)

    def cut(self) -> None:
        """End the connection from another thread, so that a blocked read returns.

        Raise OSError if it has ended already.
        """
        shutdown(self._wire)

    def close(self) -> None:
        """Close the connection. Never raise."""
        self._free = False
        with contextlib.suppress(OSError):
            self._wire.close()

    def _head(self) -> tuple[int, Headers, str]:
        while True:
            while (end := self._rest.find(b"\r\n\r\n")) < 0:
                if len(self._rest) > _HEAD_LIMIT:
                    raise BadResponse("the header of the answer is not terminated")
                self._more("the server closed it without an answer")
            head, self._rest = self._rest[:end], self._rest[end + 4 :]
            status, headers, minor = _parsed(head.decode("latin-1"))
            if status >= 200:
                return status, headers, minor
            if status == 101:
                raise BadResponse("the server switched to another protocol")

    def _begin_body(self, status: int, headers: Headers, minor: str) -> None:
        options = headers.get("connection", "").lower()
        self._keep = "close" not in options and (minor == "1" or "keep-alive" in options)
        coding = headers.get("transfer-encoding", "").lower()
        if coding not in ("", "chunked"):
            raise BadResponse(f"the server used the transfer coding {coding!r}, which the client does not accept")
        empty = status in (204, 304)
        self._chunked = bool(coding) and not empty
        self._length = 0 if empty else _length(headers)
        if self._length is None and not self._chunked:
            self._keep = False

    def _counted(self, left: int) -> Iterator[bytes]:
        while left > 0:
            if not self._rest:
                self._more()
            piece, self._rest = self._rest[:left], self._rest[left:]
            left -= len(piece)
            yield piece

    def _to_the_end(self) -> Iterator[bytes]:
        yield self._rest
        self._rest = b""
        while piece := self._receive():
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        left = 0
        while True:
            ready, self._rest, left = _take_chunks(self._rest, left)
            if ready:
                yield ready
            if left == _LAST:
                self._skip_trailers()
                return
            self._more()

    def _skip_trailers(self) -> None:
        while True:
            line, ended, rest = self._rest.partition(b"\r\n")
            if ended:
                self._rest = rest
                if not line:
                    return
            elif len(line) > _LINE_LIMIT:
                raise BadResponse("the HTTP trailer is not terminated")
            else:
                self._more()

    def _more(self, problem: str = "the answer was cut off") -> None:
        data = self._receive()
        if not data:
            raise ConnectionResetError(problem)
        self._rest += data

    def _receive(self) -> bytes:
        """Return some bytes, or none at the end. Raise TimeoutError after the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not arrive completely in time")
        # The socket's timeout is for each call. A server that sends single bytes would never end.
        self._wait_at_most(min(left, self._timeout))
        return self._wire.recv(_RECEIVE)

    def _wait_at_most(self, seconds: float) -> None:
        if seconds != self._timeout:
            self._wire.settimeout(seconds)
            self._timeout = seconds


def _parsed(head: str) -> tuple[int, Headers, str]:
    first, *lines = head.split("\r\n")
    found = _STATUS_LINE.fullmatch(first)
    if found is None:
        raise BadResponse("the answer does not begin like HTTP/1.1")
    headers: Headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadResponse("a header of the answer is malformed")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(found[2]), headers, found[1]


def _length(headers: Headers) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise BadResponse("the Content-Length of the answer is not one number")
    return int(text)


def _take_chunks(buffer: bytes, left: int) -> tuple[bytes, bytes, int]:
    """Return the complete data of ``buffer``, its unread rest, and the missing bytes of a chunk.

    ``left`` counts the missing bytes of the open chunk with its CRLF.
    """
    ready: list[bytes] = []
    at = 0
    while left != _LAST:
        if left > 2:
            piece = buffer[at : at + left - 2]
            ready.append(piece)
            at += len(piece)
            left -= len(piece)
        if left:
            if left > 2 or len(buffer) < at + 2:
                break
            if buffer[at : at + 2] != b"\r\n":
                raise BadResponse("a chunk is longer than its size")
            at += 2
        found = _CHUNK_SIZE.match(buffer, at)
        if found is None:
            left = _no_size(buffer, at)
            break
        at, left = found.end(), int(found[1], 16) + 2
        if left == 2:
            left = _LAST
    return b"".join(ready), buffer[at:], left


def _no_size(buffer: bytes, at: int) -> int:
    if len(buffer) - at > _LINE_LIMIT or b"\n" in buffer[at:]:
        raise BadResponse("a chunk has no size")
    return 0
