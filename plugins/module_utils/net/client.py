# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP/1.1 client of API servers and CDI Managers: one server, kept connections, and no opinion on statuses.

A general library costs several times the CPU per call (docs/contributors/benchmarks.md has the figures), and none tells
surely whether a lost request had been sent, which decides between "safe to repeat" and "it may have happened".
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
# RFC 9110, 5.5: visible characters, blanks, and whatever else a byte can be, but no line break.
_FIELD_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_GZIP = zlib.MAX_WBITS | 16
# Bytes of a body, as sent and as unpacked: a listing of 40,000 devices has half of it. Any server can send more.
LONGEST_BODY = 64 << 20


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: ``connect`` for each step of opening a connection, ``read`` for a request and its whole response.

    Where a response is streamed, ``read`` is for its head.
    """

    connect: float
    read: float


@dataclass(frozen=True, slots=True)
class Response:
    """``headers`` by name in lower case; ``stream`` is the connection when the body is still to come."""

    status: int
    headers: Headers
    body: bytes
    stream: HttpConnection | None = None


class HttpClient:
    """Thread-safe. Sends to one server, directly or through a proxy, each request once; follows no redirection.

    ``url``: where the server is; its path is put before the path of each request. ``context``: TLS, for a url of
    https. ``server_name``: the name in the server's certificate where it is not the url's. ``kept``: most idle
    connections that are kept for later requests; in use there may be any number.
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
        """Raises BadHeader. ``always``: headers of each request; a name may come more than once."""
        parts = urlsplit(url)
        # A proxy is asked for a plain address by its whole URL, and for a TLS one by a tunnel.
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
        """The response, whatever its status. Raises NoResponse, also for a body of more than LONGEST_BODY bytes.

        ``path`` with its query; ``headers`` besides Host, Accept, Content-Length and the like. ``streamed``: when the
        status is 200 the body is left to the caller, who reads and closes ``Response.stream``.
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
            # Ending a watch cuts its connection, which must never be one that a request has taken over.
            if stream is None:
                self._pool.give_back(connection)

    def warm(self, count: int, path: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        """Have ``count`` idle connections that were used just now, for a GET of ``path``. Raises NoResponse."""
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
        """Close idle connections; one that is in use closes when it is done, later ones too."""
        self._pool.close()

    def _encoded(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        """The whole request: a head that travels alone costs a packet and a wait."""
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
        raise BadHeader(f"{name} has characters that no HTTP header may have")
    return f"{name}: {value}\r\n"


def _content(body: bytes, headers: Headers) -> bytes:
    """The body without a compression that was not asked for, which some Redfish services use all the same."""
    if not body or headers.get("content-encoding", "").lower() not in ("gzip", "x-gzip"):
        return body
    unpacking = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacking.decompress(body, LONGEST_BODY + 1)
    except zlib.error:
        raise BadResponse("the body is not gzip, as its header says") from None
    if len(unpacked) > LONGEST_BODY:
        raise TooLong(f"the unpacked body of the answer is longer than {LONGEST_BODY} bytes")
    if not unpacking.eof:
        raise BadResponse("the body is not gzip, as its header says")
    return unpacked
