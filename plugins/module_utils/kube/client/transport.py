# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request to the API server and its answer: credentials, retries, and the meaning of a failure.

This module handles bytes. The client handles objects.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...net.backoff import Backoff
from ...net.client import USER_AGENT, HttpClient, Response, Timeouts
from ...net.errors import BadHeader, NoResponse
from ...net.http1 import HttpConnection
from ...net.tls import is_refused_by_server
from ..errors import ApiError, TooNew, Unauthorized, Unavailable, Unreachable, from_response
from .connection import Connection
from .rate_limit import TokenBucket
from .server_clock import ServerClock

_BACKOFF = Backoff(0.1, factor=4.0, longest=10.0)
_TRIES = 3
_THROTTLED_TRIES = 10


@dataclass(frozen=True, slots=True)
class Limits(Timeouts):
    """Time limits in seconds. ``patience`` limits all tries of one request together, including
    waits.
    """

    connect: float = 5.0
    read: float = 30.0
    patience: float = 60.0


DEFAULT_LIMITS = Limits()


class Transport:
    """Sends requests with one TLS context and one pool for the life of a client. Thread-safe.

    Raise BadKubeconfig.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        pool: int = 64,
        user_agent: str = USER_AGENT,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        parts = urlsplit(connection.server)
        self.server = f"{parts.scheme}://{parts.netloc}"
        self._http = HttpClient(
            connection.server, context=connection.ssl_context(), proxy=connection.proxy(),
            server_name=connection.tls_server_name, kept=pool, user_agent=user_agent,
            always=connection.impersonation.headers(),
        )
        self._authorization = connection.authorization
        self._limits = limits
        self._closed = threading.Event()
        self.clock = ServerClock()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str | None = None,
        limits: Limits | None = None,
        streamed: bool = False,
        check: Callable[[], None] | None = None,
        rate: TokenBucket | None = None,
    ) -> Response:
        """Send a request, and return the answer, which always has a 2xx status.

        Repeat a request that certainly had no effect: one that was not sent, 429, 503 with
        Retry-After, and reads. After a 401, repeat with other credentials if there are any. A
        ``streamed`` request is repeated only after a 401, because its caller decides about other
        cases. ``rate``: each try waits for its turn. ``check``: called before each try, after that
        wait. If it raises, nothing is sent. Raise ApiError, also Unreachable.
        """
        limits = limits or self._limits
        deadline = time.monotonic() + limits.patience
        tries, shown = 0, self._authorization()
        while True:
            if self._closed.is_set():
                raise Unreachable("the client is closed", permanent=True)
            tries += 1
            if rate:
                self._await_turn(rate, deadline - time.monotonic())
            if check:
                check()
            requested = self.clock.steady()
            try:
                response = self._http.request(method, path, _headers(shown, content_type), body, limits, streamed)
            except NoResponse as lost:
                error = self._lost(lost)
            else:
                self.clock.note(response.headers.get("date"), requested)
                if 200 <= response.status < 300:
                    return response
                error = self._refused(method, path, response)
            if isinstance(error, Unauthorized) and (fresh := self._authorization(refresh=True)) not in (None, shown):
                shown = fresh
                continue
            delay = None if streamed else next_delay(error, method, tries)
            if delay is None or time.monotonic() + delay > deadline or self._closed.wait(delay):
                raise error

    def _await_turn(self, rate: TokenBucket, left: float) -> None:
        """Wait for the turn by the client's own rate limit. Raise Unreachable if it is not within
        ``left`` seconds.
        """
        due = rate.reserve(left)
        if due is None:
            raise Unreachable(f"not sent to {self.server}: with the limit of {rate.qps:g} requests a second "
                              f"(kube_api_qps), the request would wait for more than {max(left, 0.0):.1f} s")
        if due and self._closed.wait(due):
            raise Unreachable("the client is closed", permanent=True)

    def stream(self, path: str, silence: float) -> HttpConnection:
        """Return a separate connection with a body that is read as it is written.

        ``silence``: longest pause in seconds.
        """
        limits = Limits(self._limits.connect, min(self._limits.read, silence))
        connection = self.request("GET", path, limits=limits, streamed=True).stream
        if connection is None:
            raise ApiError(0, "NotAWatch", f"GET {path.partition('?')[0]}: the answer is no stream")
        connection.set_timeout(silence)
        return connection

    def warm(self, count: int) -> None:
        """Keep ``count`` idle connections that were used just now. Raise Unreachable."""
        try:
            self._http.warm(count, "/version", _headers(self._authorization(), None), self._limits)
        except NoResponse as lost:
            raise self._lost(lost) from None

    def close(self) -> None:
        """Close idle connections and end waits between tries. Requests in flight finish."""
        self._closed.set()
        self._http.close()

    @property
    def closed(self) -> bool:
        """Return whether ``close()`` was called."""
        return self._closed.is_set()

    def unreachable(self, problem: BaseException) -> Unreachable:
        """Return the error of an exchange that failed after it had begun.

        The message names the server and never a header.
        """
        return Unreachable(f"no answer from {self.server}: {_words(problem, sent=True)}", sent=True)

    def _lost(self, lost: NoResponse) -> ApiError:
        cause = lost.cause
        if isinstance(cause, BadHeader):
            return ApiError(0, "BadCredentials", "the credentials have characters that HTTP headers cannot have")
        if lost.by_proxy:
            return Unreachable(f"no answer from {self.server}: the proxy fails: {_words(cause, sent=False)}")
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = f"the certificate of {self.server} is not trusted: {cause.verify_message}"
            return Unreachable(f"{text} (check certificate-authority and the host name)", permanent=True)
        if is_refused_by_server(cause):
            text = f"{self.server} does not accept the client certificate, or requires one: {cause}"
            return Unreachable(f"{text} (check client-certificate and client-key)", permanent=True)
        return Unreachable(f"no answer from {self.server}: {_words(cause, sent=lost.sent)}", sent=lost.sent)

    def _refused(self, method: str, path: str, response: Response) -> ApiError:
        error = from_response(response.status, response.body, f"{method} {path.partition('?')[0]}")
        if isinstance(error, Unauthorized):
            error.reword(f"{self.server} refuses the credentials (401: absent, wrong or expired)")
        wanted = _seconds(response.headers.get("retry-after"))
        error.retry_after = error.retry_after if wanted is None else wanted
        return error


def _headers(authorization: str | None, content_type: str | None) -> Mapping[str, str]:
    shown = {"Authorization": authorization, "Content-Type": content_type}
    return {name: value for name, value in shown.items() if value}


def next_delay(error: ApiError, method: str, tries: int) -> float | None:
    """Return the seconds before the next try after ``tries`` failed ones, None if there must be
    none.

    As in client-go, a request to a throttled or unavailable server is repeated at the time that the
    server names. Any other request is repeated only if it certainly had no effect.
    """
    if isinstance(error, TooNew):  # it takes hours after a restore of etcd
        return None
    if error.retry_after is not None and (error.status == 429 or error.status >= 500):
        at_least = min(error.retry_after, _BACKOFF.longest)
        return _BACKOFF.delay(1, at_least) if tries < _THROTTLED_TRIES else None
    if isinstance(error, Unreachable):
        harmless = not error.permanent and (method == "GET" or not error.sent)
    else:
        harmless = isinstance(error, Unavailable) and method == "GET"
    return _BACKOFF.delay(tries) if harmless and tries < _TRIES else None


def _seconds(header: str | None) -> float | None:
    try:
        return max(float(header), 0.0) if header else None
    except ValueError:
        return None


def _words(problem: BaseException, sent: bool) -> str:
    if isinstance(problem, TimeoutError):
        return "no complete answer within the read timeout" if sent else "the connection could not be opened in time"
    if sent and isinstance(problem, ConnectionError):
        return f"Connection aborted: {problem}"
    return str(problem) or type(problem).__name__
