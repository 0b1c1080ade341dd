# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes to a manager and back over kept connections; knows whether a lost request had been sent.

That fact decides between "safe to repeat" and "it may have happened", and no exception class of urllib3 tells
it (a handshake that times out and a reply that times out look the same), so the connection itself notes it.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from . import tls
from .config import FabricConfig
from .errors import BadConfiguration
from .proxies import proxy_for, variable

HAS_URLLIB3 = True
try:
    import urllib3
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.exceptions import HTTPError
except ImportError:
    HAS_URLLIB3 = False
    if not t.TYPE_CHECKING:
        HTTPConnection = HTTPSConnection = HTTPConnectionPool = HTTPSConnectionPool = object
        HTTPError = OSError

KEPT_CONNECTIONS: t.Final = 256
# Servers close idle connections (mostly after 60 s); a request sent into a closing one is lost, and an attach lost
# is uncertain. A connection that is closed already is noticed before it is used.
LONGEST_IDLE: t.Final = 50.0

_this_thread = threading.local()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(Exception):
    """No reply. ``sent``: the request had left. ``passing``: likely to work when repeated at once."""

    def __init__(self, reason: str, *, sent: bool, passing: bool, certificate: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent
        self.passing = passing
        self.certificate = certificate


class _PlainConnection(HTTPConnection):
    """A connection that notes when a request leaves, and does not outlive the server's patience."""

    answered_at = 0.0

    @property
    def is_connected(self) -> bool:
        fresh = time.monotonic() - self.answered_at < LONGEST_IDLE
        return fresh and super().is_connected

    def request(self, *args: t.Any, **kwargs: t.Any) -> None:
        """Send; from here on the request may have had its effect."""
        _this_thread.sent = True
        try:
            super().request(*args, **kwargs)
        except OSError:
            self._last_words()
            raise

    def _last_words(self) -> None:
        """Raise what a server said that closed while we were sending: in TLS 1.3 it refuses certificates so late."""
        try:
            if self.sock is not None:
                self.sock.recv(1)
        except ssl.SSLError as error:
            if tls.is_refused_by_server(error):
                raise
        except OSError:
            return

    def getresponse(self, *args: t.Any, **kwargs: t.Any) -> t.Any:
        """Receive, and count the idle time from now."""
        reply = super().getresponse(*args, **kwargs)
        self.answered_at = time.monotonic()
        return reply


class _Connection(_PlainConnection, HTTPSConnection):
    """The same over TLS."""


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _Pool(HTTPSConnectionPool):
    ConnectionCls = _Connection


def trusted(config: FabricConfig) -> tuple[bytes, ...]:
    """The certificates in force, the CA's and our own, to notice that mounted ones were renewed."""
    paths = (config.ca_path, config.client_cert_path, config.client_key_path)
    return ((config.ca_pem or "").encode(), *(_content(path) for path in paths if path))


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


class Transport:
    """A pool of connections to one endpoint, directly or through a proxy. Thread-safe."""

    def __init__(self, config: FabricConfig, endpoint: str) -> None:
        if not HAS_URLLIB3:
            raise BadConfiguration("urllib3", "not installed", "the Python library urllib3 must be installed")
        self.config = config
        self.endpoint = endpoint
        self.trusted = trusted(config)
        proxy = proxy_for(endpoint)
        # A proxy is asked for a plain address by its whole URL, and for a TLS one by a tunnel.
        self._base = endpoint if proxy and endpoint.startswith("http:") else urlsplit(endpoint).path
        self._manager = _manager(config, endpoint, proxy)
        self._pool = self._manager.connection_from_url(endpoint)

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, read_timeout: float
    ) -> Reply:
        """One request, never repeated. Raises Lost."""
        _this_thread.sent = False
        timeout = urllib3.Timeout(connect=self.config.connect_timeout, read=read_timeout)
        try:
            reply = self._pool.request(
                method, self._base + path, body=body, headers=headers, timeout=timeout, retries=False,
                redirect=False, assert_same_host=False,
            )
        except (HTTPError, OSError) as error:
            raise self._lost(error, read_timeout) from None
        return Reply(reply.status, reply.headers, reply.data)

    def close(self) -> None:
        """Close the connections that are idle; those in use close when they are done."""
        self._manager.clear()

    def _lost(self, error: BaseException, read_timeout: float) -> Lost:
        sent = bool(_this_thread.sent)
        causes = tuple(_causes(error))
        if ours := next((c for c in causes if tls.is_refused_by_server(c)), None):
            return Lost(tls.explain(ours, self.config), sent=False, passing=False, certificate=True)
        if refused := next((c for c in causes if isinstance(c, (ssl.SSLError, urllib3.exceptions.SSLError))), None):
            return self._refused(next((c for c in causes if isinstance(c, ssl.SSLError)), refused), sent)
        if isinstance(causes[-1], (TimeoutError, urllib3.exceptions.TimeoutError)):
            return Lost(self._too_late(sent, read_timeout), sent=sent, passing=False)
        return Lost(self._reason(causes, sent), sent=sent, passing=True)

    def _refused(self, error: BaseException, sent: bool) -> Lost:
        if sent:
            return Lost("the connection broke", sent=True, passing=True)
        certificate = isinstance(error, ssl.SSLCertVerificationError) or tls.is_name_mismatch(error)
        return Lost(tls.explain(error, self.config), sent=False, passing=not certificate, certificate=certificate)

    def _too_late(self, sent: bool, read_timeout: float) -> str:
        if sent:
            return f"no reply within {read_timeout:g} s"
        return f"no connection within {self.config.connect_timeout:g} s (connect_timeout)"

    def _reason(self, causes: tuple[BaseException, ...], sent: bool) -> str:
        host = urlsplit(self.endpoint).hostname
        if any(isinstance(c, urllib3.exceptions.ProxyError) for c in causes):
            return f"the proxy named by {variable(self.endpoint)} did not let the connection through"
        if any(isinstance(c, socket.gaierror) for c in causes):
            return f"the host name {host} cannot be resolved: check endpoint"
        if any(isinstance(c, ConnectionRefusedError) for c in causes):
            return "the connection was refused: nothing listens there"
        if sent:
            return "the connection broke before the whole reply was there"
        words = (c.strerror for c in causes if isinstance(c, OSError) and c.strerror)
        return f"no connection ({next(words, 'it was closed at once')})"


def _manager(config: FabricConfig, endpoint: str, proxy: str | None) -> t.Any:
    if not config.validate_certs:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    options: dict[str, t.Any] = {"maxsize": KEPT_CONNECTIONS, "block": False}
    # To read the system's trust store takes longer than a request.
    secure = "https" in (urlsplit(endpoint).scheme, urlsplit(proxy or "").scheme)
    if secure or config.ca_path or config.client_cert_path:
        options["ssl_context"] = _context(config)
    manager = _through(proxy, variable(endpoint), options) if proxy else urllib3.PoolManager(**options)
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _Pool}
    return manager


def _context(config: FabricConfig) -> ssl.SSLContext:
    context = tls.context(config)
    if not hasattr(urllib3, "BaseHTTPResponse"):
        # urllib3 1.26 gives TLS no address to check, and compares the names itself instead.
        context.check_hostname = False
    return context


def _through(proxy: str, named_by: str, options: dict[str, t.Any]) -> t.Any:
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfiguration(named_by, f"{parts.scheme}://…", "it must be an http or https URL")
    headers = None
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=login)
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
    return urllib3.ProxyManager(bare, proxy_headers=headers, **options)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
