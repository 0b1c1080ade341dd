# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 client for API servers and CDI Managers: one server, kept connections, any status.

A general library uses several times the CPU per call (figures in docs/contributors/benchmarks.md).
None can tell with certainty whether a lost request was sent. This decides between "safe to repeat"
and "it may have happened".
"""

from __future__ import annotations

import re
import ssl
import string
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from .dial import Dialer
from .errors import BadHeader, BadResponse, NoResponse, TooLong
from .http1 import Headers, HttpConnection
from .pool import ConnectionPool
from .proxy import Proxy
from .tls import is_refused_by_server

USER_AGENT = "composable.infra"
_TARGET = re.compile(r"[!-~]+")
# RFC 9110, 5.5: visible characters, blanks and other bytes, but no line break.
_FIELD_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_GZIP = zlib.MAX_WBITS | 16
# Limit in bytes of a body, as sent and as unpacked. A list of 40,000 devices has half of it.
LONGEST_BODY = 64 << 20


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait. ``connect`` is for each step of opening a connection.

    ``read`` is for a request and its whole response, or only for the head of a streamed response.
    """

    connect: float
    read: float


@dataclass(frozen=True, slots=True)
class Response:
    """``headers`` are by name in lower case. ``stream`` is the connection of an unread body."""

    status: int
    headers: Headers
    body: bytes
    stream: HttpConnection | None = None


class HttpClient:
    """Sends requests to one server, directly or through a proxy. Thread-safe.

    Each request is sent once, and redirects are not followed. ``url`` is the server, and its path
    precedes the path of each request. ``context`` is for TLS with an https URL. ``server_name``
    replaces the URL's name in the check of the certificate. ``kept`` is the largest number of idle
    connections to keep. The number of connections in use is not limited.
    """

    def __init__(
        self,
        url: str,
        *,
        context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        server_name: str | None = None,
        kept: int = 64,
        user_agent: str = USER_AGENT,
        always: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Raise BadHeader for a bad header in ``always``, the headers of each request.

        A name may occur more than once in ``always``.
        """
        parts = urlsplit(url)
        # Plain requests through a proxy have the whole URL. TLS requests use a tunnel.
        plain = proxy if context is None else None
        self._base = (f"{parts.scheme}://{parts.netloc}" if plain else "") + parts.path.rstrip("/")
        self._fixed = f"Host: {parts.netloc}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        self._fixed += f"Accept-Encoding: identity\r\n{plain.header if plain else ''}"
        self._fixed += "".join(_line(name, value) for name, value in always)
        self._pool = ConnectionPool(Dialer(url, context, proxy, server_name).dial, kept)

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeouts: Timeouts,
        streamed: bool = False,
    ) -> Response:
        """Return the response with any status.

        ``path`` includes the query. ``headers`` are added to Host, Accept, Content-Length and so
        on. With ``streamed`` and status 200, the caller reads the body and closes
        ``Response.stream``. Raise NoResponse, also for a body of more than LONGEST_BODY bytes.
        """
        request = self._encoded(method, path, headers, body)
        connection, stream = self._pool.take(timeouts.connect), None
        try:
            status, received = connection.ask(request, timeouts.read)
            if streamed and status == 200:
                stream = connection
            content = b"" if stream else _content(connection.read(LONGEST_BODY), received)
            return Response(status, received, content, stream)
        except (OSError, BadResponse) as problem:
            raise NoResponse(problem, sent=not is_refused_by_server(problem)) from None
        finally:
            # The end of a watch cuts its connection, so no other request may use that connection.
            if stream is None:
                self._pool.give_back(connection)

    def warm(self, count: int, path: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        """Use ``count`` connections for a GET of ``path``, so that they are idle and fresh.

        Raise NoResponse.
        """
        request = self._encoded("GET", path, headers, None)
        taken: list[HttpConnection] = []
        try:
            for _unused in range(count):
                taken.append(self._pool.take(timeouts.connect))
                taken[-1].ask(request, timeouts.read)
                taken[-1].read(LONGEST_BODY)
        except (OSError, BadResponse) as problem:
            raise NoResponse(problem, sent=True) from None
        finally:
            for connection in taken:
                self._pool.give_back(connection)

    def close(self) -> None:
        """Close idle connections now, and used and later ones when they are done."""
        self._pool.close()

    def _encoded(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """Return the whole request as one message, as a separate head costs a packet and a wait."""
        if not _TARGET.fullmatch(path):
            path = quote(path, safe=string.punctuation)
        lines = [f"{method} {self._base}{path} HTTP/1.1\r\n{self._fixed}"]
        try:
            lines += [_line(name, value) for name, value in headers.items()]
        except BadHeader as problem:
            raise NoResponse(problem, sent=False) from None
        if body is not None or method not in ("GET", "DELETE"):
            lines.append(f"Content-Length: {len(body or b'')}\r\n")
        lines.append("\r\n")
        return "".join(lines).encode("latin-1", "replace") + (body or b"")


def _line(name: str, value: str) -> str:
    if not _FIELD_VALUE.fullmatch(value):
        raise BadHeader(f"{name} has characters that are not allowed in an HTTP header")
    return f"{name}: {value}\r\n"


def _content(body: bytes, headers: Headers) -> bytes:
    """Return the body without gzip, which some Redfish services use without a request."""
    if not body or headers.get("content-encoding", "").lower() not in ("gzip", "x-gzip"):
        return body
    unpacking = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacking.decompress(body, LONGEST_BODY + 1)
    except zlib.error:
        raise BadResponse("the body is not gzip, although its header says so") from None
    if len(unpacked) > LONGEST_BODY:
        raise TooLong(f"the unpacked body of the answer is longer than {LONGEST_BODY} bytes")
    if not unpacking.eof:
        raise BadResponse("the body is not gzip, although its header says so")
    return unpacked
