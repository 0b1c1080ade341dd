# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One address of a manager: requests paced, trust renewed when a mounted certificate was, no secret in a text."""

from __future__ import annotations

import base64
import threading
import time
import typing as t
from collections.abc import Callable, Mapping
from pathlib import Path

from ...net.client import HttpClient, Response, Timeouts
from ...net.errors import NoResponse
from ...net.proxy import Proxy, proxy_of_environment, variable
from ..config import FabricConfig
from ..errors import BadConfiguration
from . import tls
from .no_response import error_for_no_response, is_about_certificates
from .redaction import Redactor
from .request import Request

KEPT_CONNECTIONS: t.Final = 256


class Pace:
    """At most so many requests a second, evenly, over all threads; None: no limit."""

    def __init__(self, per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 1.0 / per_second if per_second else 0.0
        self._clock = clock
        self._next = 0.0
        self._lock = threading.Lock()

    def turn(self) -> float:
        """Seconds to wait for one's turn, which is taken."""
        if not self._gap:
            return 0.0
        with self._lock:
            now = self._clock()
            mine = max(self._next, now)
            self._next = mine + self._gap
        return mine - now


class _Connected(t.NamedTuple):
    """A client, and the certificates that it was made with."""

    http: HttpClient
    certificates: tuple[bytes, ...]


class Endpoint:
    """Sends; thread-safe. ``address``: another URL than the configuration's endpoint."""

    def __init__(self, config: FabricConfig, address: str | None = None) -> None:
        self.config = config
        self.address = address or config.endpoint
        self.redact = Redactor()
        self.learn(config)
        self._pace = Pace(config.requests_per_second)
        self._connected = _connect(config, self.address)
        self._renewal = threading.Lock()

    def send(self, request: Request, headers: Mapping[str, str], body: bytes | None = None) -> Response:
        """The response to one request, whatever its status.

        It is repeated only when a renewed certificate lets it through. ``headers`` besides those of the HTTP client,
        ``body`` as it is sent. Raises Uncertain when a change may have had its effect, else Unavailable;
        and what the request's proof raises.
        """
        if wait := self._pace.turn():
            time.sleep(wait)
        timeouts = Timeouts(self.config.connect_timeout, request.timeout or self.config.read_timeout)
        while True:
            used = self._connected
            if request.proof:
                request.proof()
            try:
                return used.http.request(request.method, request.path, headers, body, timeouts)
            except NoResponse as lost:
                if not (is_about_certificates(lost) and self._trust_renewed(used)):
                    raise error_for_no_response(lost, request, self.config, self.address) from None

    def current(self) -> FabricConfig:
        """The configuration with a renewed Secret; as it was when that cannot be read."""
        try:
            config = self.config.refreshed()
        except BadConfiguration:
            return self.config
        self.learn(config)
        return config

    def learn(self, config: FabricConfig) -> None:
        """Blank the configuration's secrets in every text from now on."""
        for secret in (config.password, config.client_secret):
            self.redact.learn(secret)
        if config.password:
            self.redact.learn(basic(config))

    def foreign(self, response: Response) -> str:
        """What came in place of the manager's own form."""
        kind = response.headers.get("content-type", "no content type")
        start = self.redact(response.body[:200].decode("utf-8", "replace"))
        return f"{kind}, not the form that is expected: {start!r}" if start else f"an empty body ({kind})"

    def close(self) -> None:
        """Close kept connections."""
        self._connected.http.close()

    def _trust_renewed(self, used: _Connected) -> bool:
        """Whether a certificate's file was replaced since it was read; if so, a new client is in place."""
        with self._renewal:
            if self._connected is not used:
                return True
            config = self.current()
            if _certificates(config) == used.certificates:
                return False
            try:
                self._connected = _connect(config, self.address)
            except BadConfiguration:
                return False
            used.http.close()
            return True


def _connect(config: FabricConfig, address: str) -> _Connected:
    certificates = _certificates(config)
    secure = address.startswith("https:")
    # To read the system's trust store takes longer than a request; a wrong file is named all the same.
    context = tls.context(config) if secure or config.ca_path or config.client_cert_path else None
    http = HttpClient(address, context=context if secure else None, proxy=_proxy(address), kept=KEPT_CONNECTIONS)
    return _Connected(http, certificates)


def _certificates(config: FabricConfig) -> tuple[bytes, ...]:
    """The CA's and our own, to notice that mounted ones were renewed."""
    paths = (config.ca_path, config.client_cert_path, config.client_key_path)
    found = [(config.ca_pem or "").encode()]
    for path in filter(None, paths):
        try:
            found.append(Path(path).read_bytes())
        except OSError:
            found.append(b"")
    return tuple(found)


def _proxy(address: str) -> Proxy | None:
    url = proxy_of_environment(address)
    try:
        return Proxy.parse(url) if url else None
    except ValueError:
        # The URL may hold a password.
        shown = url.partition("://")[0] if url and "://" in url else "…"
        raise BadConfiguration(variable(address), f"{shown}://…", "it must be an http or https URL") from None


def basic(config: FabricConfig) -> str:
    """User and password as HTTP's basic authentication writes them (RFC 7617)."""
    return base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
