# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request to the API server and its answer: headers, credentials, retries, and what a failure means.

Everything here is about bytes; objects are the client's business.
"""

from __future__ import annotations

import re
import string
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from .connection import Connection
from .dial import Dialer
from .errors import ApiError, Unauthorized, Unreachable, from_response
from .http1 import BadAnswer, Headers, HttpConnection
from .pool import Pool
from .retry import next_delay

_TARGET = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. ``patience`` bounds all tries of one request together, waits included."""

    connect: float = 5.0
    read: float = 30.0
    patience: float = 60.0


DEFAULT_LIMITS = Limits()


class _Reply(NamedTuple):
    """``stream`` is the connection when the body is still to come."""

    status: int
    headers: Headers
    body: bytes
    stream: HttpConnection | None = None


class Transport:
    """Thread-safe; one TLS context and one pool for the life of a client."""

    def __init__(
        self,
        connection: Connection,
        *,
        pool: int = 64,
        user_agent: str = "composable.infra",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._dialer = Dialer(connection)
        self._pool = Pool(self._dialer.dial, pool)
        self.server = self._dialer.server
        parts = urlsplit(connection.server)
        self._base = self._dialer.target + parts.path.rstrip("/")
        self._authorization = connection.authorization
        self._fixed = f"Host: {parts.netloc}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        self._fixed += f"Accept-Encoding: identity\r\n{self._dialer.headers}"
        self._limits = limits
        self._closed = threading.Event()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str | None = None,
        limits: Limits | None = None,
    ) -> bytes:
        """The body of a 2xx answer.

        Repeats what surely had no effect: a request that was not sent, 429, 503 with Retry-After; and reads.
        Raises ApiError, Unreachable among them.
        """
        limits = limits or self._limits
        deadline = time.monotonic() + limits.patience
        tries = 0
        while True:
            tries += 1
            try:
                return self._once(method, path, body, content_type, limits)
            except ApiError as error:
                delay = next_delay(error, method, tries)
                if delay is None or time.monotonic() + delay > deadline or self._closed.wait(delay):
                    raise

    def stream(self, path: str, silence: float) -> HttpConnection:
        """A connection of its own whose body is read as it is written; ``silence``: longest pause in seconds."""
        limits = Limits(self._limits.connect, min(self._limits.read, silence))
        reply = self._send("GET", path, None, None, limits, streamed=True)
        if reply.stream is None:
            raise self._error("GET", path, reply)
        reply.stream.set_timeout(silence)
        return reply.stream

    def warm(self, count: int) -> None:
        """Have ``count`` idle connections that were used just now. Raises Unreachable."""
        request = self._request("GET", "/version", None, None, self._authorization())
        taken: list[HttpConnection] = []
        try:
            for _unused in range(count):
                taken.append(self._pool.take(self._limits.connect))
                taken[-1].ask(request, self._limits.read)
                taken[-1].read()
        except (OSError, BadAnswer) as problem:
            raise self.unreachable(problem) from None
        finally:
            for connection in taken:
                self._pool.give_back(connection)

    def close(self) -> None:
        """Close idle connections and end waits between tries; requests under way finish."""
        self._closed.set()
        self._pool.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed.is_set()

    def _once(
        self, method: str, path: str, body: bytes | None, content_type: str | None, limits: Limits
    ) -> bytes:
        reply = self._send(method, path, body, content_type, limits)
        if 200 <= reply.status < 300:
            return reply.body
        raise self._error(method, path, reply)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str | None,
        limits: Limits,
        streamed: bool = False,
    ) -> _Reply:
        used = self._authorization()
        reply = self._exchange(self._request(method, path, body, content_type, used), limits, streamed)
        if reply.status != 401:
            return reply
        fresh = self._authorization(refresh=True)
        if fresh is None or fresh == used:
            return reply
        return self._exchange(self._request(method, path, body, content_type, fresh), limits, streamed)

    def _exchange(self, request: bytes, limits: Limits, streamed: bool) -> _Reply:
        if self._closed.is_set():
            raise Unreachable("the client is closed", permanent=True)
        connection, stream = self._pool.take(limits.connect), None
        try:
            status, headers = connection.ask(request, limits.read)
            if streamed and status == 200:
                stream = connection
            return _Reply(status, headers, b"" if stream else connection.read(), stream)
        except (OSError, BadAnswer) as problem:
            raise self.unreachable(problem) from None
        finally:
            # Ending a watch cuts its connection, which must never be one that a request has taken over.
            if stream is None:
                self._pool.give_back(connection)

    def _request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, authorization: str | None
    ) -> bytes:
        if not _TARGET.fullmatch(path):
            path = quote(path, safe=string.punctuation)
        head = f"{method} {self._base}{path} HTTP/1.1\r\n{self._fixed}"
        if authorization:
            head += f"Authorization: {_one_line(authorization)}\r\n"
        if content_type:
            head += f"Content-Type: {content_type}\r\n"
        if body is not None or method not in ("GET", "DELETE"):
            head += f"Content-Length: {len(body or b'')}\r\n"
        # One write: a head that travels alone costs a packet and a wait.
        return f"{head}\r\n".encode("latin-1", "replace") + (body or b"")

    def _error(self, method: str, path: str, reply: _Reply) -> ApiError:
        error = from_response(reply.status, reply.body, f"{method} {path.partition('?')[0]}")
        if isinstance(error, Unauthorized):
            error.reword(f"{self.server} refuses the credentials (401: absent, wrong or expired)")
        wanted = _seconds(reply.headers.get("retry-after"))
        error.retry_after = error.retry_after if wanted is None else wanted
        return error

    def unreachable(self, problem: BaseException) -> Unreachable:
        """What an exchange that failed after it had begun means; the text names the server and never a header."""
        return Unreachable(f"no answer from {self.server}: {_plain(problem)}", sent=True)


def _one_line(authorization: str) -> str:
    if not (authorization.isascii() and authorization.isprintable()):
        raise ApiError(0, "BadCredentials", "the credentials have characters that no HTTP header may have")
    return authorization


def _seconds(header: str | None) -> float | None:
    try:
        return max(float(header), 0.0) if header else None
    except ValueError:
        return None


def _plain(problem: BaseException) -> str:
    if isinstance(problem, TimeoutError):
        return "silent for longer than the read timeout"
    if isinstance(problem, ConnectionError):
        return f"Connection aborted: {problem}"
    return str(problem) or type(problem).__name__
