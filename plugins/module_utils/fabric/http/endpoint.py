# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One address of a manager, with a request rate, renewed certificates and no secrets in texts."""

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
    """A limit of requests per second over all threads, evenly spaced. None means no limit."""

    def __init__(self, per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 1.0 / per_second if per_second else 0.0
        self._clock = clock
        self._next = 0.0
        self._lock = threading.Lock()

    def turn(self) -> float:
        """Reserve the next time slot. Return the seconds until then."""
        if not self._gap:
            return 0.0
        with self._lock:
            now = self._clock()
            mine = max(self._next, now)
            self._next = mine + self._gap
        return mine - now


class _Connected(t.NamedTuple):
    """A client, and the certificates with which it was made."""

    http: HttpClient
    certificates: tuple[bytes, ...]


class Endpoint:
    """Sends requests to ``address``, by default the configuration's endpoint. Thread-safe."""

    def __init__(self, config: FabricConfig, address: str | None = None) -> None:
        self.config = config
        self.address = address or config.endpoint
        self.redact = Redactor()
        self.learn(config)
        self._pace = Pace(config.requests_per_second)
        self._connected = _connect(config, self.address)
        self._renewal = threading.Lock()

    def send(self, request: Request, headers: Mapping[str, str], body: bytes | None = None) -> Response:
        """Send a request and return the response with any status.

        ``headers`` are added to those of the HTTP client. ``body`` is sent unchanged. Repeat the
        request only if a certificate was renewed. Raise Uncertain if a change may have taken
        effect, otherwise Unavailable. Also raise the errors of the request's proof.
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
        """Return the configuration with a renewed Secret, or unchanged if it is unreadable."""
        try:
            config = self.config.refreshed()
        except BadConfiguration:
            return self.config
        self.learn(config)
        return config

    def learn(self, config: FabricConfig) -> None:
        """Remove the secrets of the configuration from all later texts."""
        for secret in (config.password, config.client_secret):
            self.redact.learn(secret)
        if config.password:
            self.redact.learn(basic(config))

    def foreign(self, response: Response) -> str:
        """Describe a body that does not have the manager's format."""
        kind = response.headers.get("content-type", "no content type")
        start = self.redact(response.body[:200].decode("utf-8", "replace"))
        return f"{kind}, not the expected format: {start!r}" if start else f"an empty body ({kind})"

    def close(self) -> None:
        """Close idle connections."""
        self._connected.http.close()

    def _trust_renewed(self, used: _Connected) -> bool:
        """Return whether a certificate was replaced since it was read. Then use a new client."""
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
    # Reading the system's trust store takes longer than a request. Wrong files are still reported.
    context = tls.context(config) if secure or config.ca_path or config.client_cert_path else None
    http = HttpClient(address, context=context if secure else None, proxy=_proxy(address), kept=KEPT_CONNECTIONS)
    return _Connected(http, certificates)


def _certificates(config: FabricConfig) -> tuple[bytes, ...]:
    """Return the certificates of the CA and of the client, to notice renewed files."""
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
        # Hide the URL, as it may contain a password.
        shown = url.partition("://")[0] if url and "://" in url else "…"
        raise BadConfiguration(variable(address), f"{shown}://…", "it must be an http or https URL") from None


def basic(config: FabricConfig) -> str:
    """Return user and password in the form of HTTP basic authentication (RFC 7617)."""
    return base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
