# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request to the API server and its answer: the connection pool, retries, and what a failure means.

Everything here is about bytes; objects are the client's business.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from . import pool as pools
from .connection import Connection
from .errors import ApiError, Unauthorized, Unreachable, from_response
from .retry import next_delay

try:
    import urllib3
    from urllib3.exceptions import (
        ConnectTimeoutError,
        HTTPError,
        NewConnectionError,
        ProxyError,
        ReadTimeoutError,
        SSLError,
    )
except ImportError:
    HAS_URLLIB3 = False
else:
    HAS_URLLIB3 = True

_WATCHES = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. ``patience`` bounds all tries of one request together, waits included."""

    connect: float = 5.0
    read: float = 30.0
    patience: float = 60.0


DEFAULT_LIMITS = Limits()


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
        if not HAS_URLLIB3:
            raise ApiError(0, "MissingLibrary", "the Python library urllib3 is needed to talk to Kubernetes")
        parts = urlsplit(connection.server)
        self.base = parts.path.rstrip("/")
        self.server = f"{parts.scheme}://{parts.netloc}"
        self._authorization = connection.authorization
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._limits = limits
        self._closed = threading.Event()
        context = connection.ssl_context()
        self._pool = pools.open_pool(connection, context, pool)
        # Ending a watch cuts its connection, which must never be one that a request has taken over.
        self._watches = pools.open_pool(connection, context, _WATCHES)

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

    def stream(self, path: str, silence: float) -> urllib3.BaseHTTPResponse:
        """An open answer whose body comes as it is written; ``silence``: longest pause in seconds."""
        limits = Limits(self._limits.connect, min(self._limits.read, silence))
        answer = self._send("GET", path, None, None, limits, streamed=True)
        if answer.status != 200:
            try:
                raise self._error("GET", path, answer.status, answer.read(), answer.headers)
            finally:
                answer.close()
        sock = getattr(answer.connection, "sock", None)
        if sock is not None:
            sock.settimeout(silence)
        return answer

    def close(self) -> None:
        """Close idle connections and end waits between tries; requests under way finish."""
        self._closed.set()
        self._pool.close()
        self._watches.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed.is_set()

    def _once(
        self, method: str, path: str, body: bytes | None, content_type: str | None, limits: Limits
    ) -> bytes:
        answer = self._send(method, path, body, content_type, limits)
        if 200 <= answer.status < 300:
            return answer.data
        raise self._error(method, path, answer.status, answer.data, answer.headers)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str | None,
        limits: Limits,
        streamed: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        answer = self._exchange(method, path, body, self._with(content_type), limits, streamed)
        if answer.status != 401:
            return answer
        used, fresh = self._authorization(), self._authorization(refresh=True)
        if fresh is None or fresh == used:
            return answer
        answer.drain_conn()
        return self._exchange(method, path, body, self._with(content_type), limits, streamed)

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        limits: Limits,
        streamed: bool,
    ) -> urllib3.BaseHTTPResponse:
        if self._closed.is_set():
            raise Unreachable("the client is closed", permanent=True)
        pool = self._watches if streamed else self._pool
        try:
            return pool.request(
                method,
                self.base + path,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=limits.connect, read=limits.read),
                preload_content=not streamed,
            )
        except (HTTPError, OSError) as problem:
            raise self.unreachable(problem) from None

    def _with(self, content_type: str | None) -> dict[str, str]:
        headers = dict(self._headers)
        if content_type:
            headers["Content-Type"] = content_type
        authorization = self._authorization()
        if authorization:
            headers["Authorization"] = authorization
        return headers

    def _error(
        self, method: str, path: str, status: int, body: bytes, headers: Mapping[str, str]
    ) -> ApiError:
        error = from_response(status, body, f"{method} {path.partition('?')[0]}")
        if isinstance(error, Unauthorized):
            error.reword(f"{self.server} refuses the credentials (401: absent, wrong or expired)")
        wanted = _seconds(headers.get("Retry-After"))
        error.retry_after = error.retry_after if wanted is None else wanted
        return error

    def unreachable(self, problem: BaseException) -> Unreachable:
        """What a failed exchange means; the text names the server and never a header."""
        cause = problem.args[0] if isinstance(problem, HTTPError) and problem.args else problem
        if isinstance(problem, SSLError) and isinstance(cause, ValueError):
            # OpenSSL's verdict on the certificate, or that of urllib3 1.26 on the names in it.
            why = getattr(cause, "verify_message", None) or cause
            text = f"the certificate of {self.server} is not trusted: {why}"
            return Unreachable(f"{text} (check certificate-authority and the host name)", permanent=True)
        unsent = isinstance(problem, (NewConnectionError, ConnectTimeoutError, ProxyError))
        return Unreachable(f"no answer from {self.server}: {_plain(problem)}", sent=not unsent)


def _seconds(header: str | None) -> float | None:
    try:
        return max(float(header), 0.0) if header else None
    except ValueError:
        return None


def _plain(problem: BaseException) -> str:
    if isinstance(problem, ReadTimeoutError):
        return "silent for longer than the read timeout"
    if isinstance(problem, ProxyError):
        return f"the proxy fails: {_plain(problem.original_error)}"
    if isinstance(problem, NewConnectionError):
        # urllib3 puts its own object's description before the first colon.
        return str(problem).partition(": ")[2] or str(problem)
    if isinstance(problem, ConnectTimeoutError):
        return "the connection could not be opened in time"
    return " ".join(str(part) for part in problem.args) or type(problem).__name__
