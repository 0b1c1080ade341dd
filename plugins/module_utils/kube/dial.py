# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens sockets to the API server: TCP and its options, a way through a proxy, TLS and its names.

Every failure here is one before the request: nothing was sent.
"""

from __future__ import annotations

import socket
import ssl
from typing import cast
from urllib.parse import urlsplit

from .connection import Connection
from .errors import BadKubeconfig, Unreachable
from .http1 import BadAnswer, HttpConnection, Wire
from .proxies import Proxy, proxy_for

try:
    from urllib3.util.ssltransport import SSLTransport
except ImportError:
    HAS_URLLIB3 = False
else:
    HAS_URLLIB3 = True

# A load balancer that forgets idle connections must not cost the next write a read timeout.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Dialer:
    """Thread-safe; one TLS context for all connections of a client. Raises BadKubeconfig for unusable settings."""

    def __init__(self, connection: Connection) -> None:
        parts = urlsplit(connection.server)
        self.server = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.hostname or ""
        self._context = connection.ssl_context()
        self._port = parts.port or (443 if self._context else 80)
        self._name = connection.tls_server_name or self._host
        self._proxy = proxy_for(connection)
        if self._proxy and self._proxy.scheme == "https" and self._context and not HAS_URLLIB3:
            raise BadKubeconfig(connection.source, "proxy-url", "TLS inside TLS needs the Python library urllib3")
        # A proxy is told the whole URL of a plain-text request; for TLS it opens a tunnel.
        plain = self._proxy if self._context is None else None
        self.target = self.server if plain else ""
        self.headers = plain.header if plain else ""

    def dial(self, timeout: float) -> HttpConnection:
        """A new connection, each step of it within ``timeout`` seconds. Raises Unreachable, never ``sent``."""
        wire = self._proxied(self._proxy, timeout) if self._proxy else self._tcp(self._host, self._port, timeout)
        if self._context is None:
            return HttpConnection(wire)
        try:
            return HttpConnection(self._secured(wire, self._context))
        except (OSError, ValueError) as problem:
            wire.close()
            raise self._refused(problem) from None

    def _tcp(self, host: str, port: int, timeout: float, who: str = "") -> socket.socket:
        try:
            sock = socket.create_connection((host, port), timeout)
        except (OSError, UnicodeError) as problem:
            raise Unreachable(f"no answer from {self.server}: {who}{reason(problem)}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return sock

    def _secured(self, wire: socket.socket, context: ssl.SSLContext) -> Wire:
        if isinstance(wire, ssl.SSLSocket):
            return cast(Wire, SSLTransport(wire, context, server_hostname=self._name))
        return context.wrap_socket(wire, server_hostname=self._name)

    def _refused(self, problem: OSError | ValueError) -> Unreachable:
        if isinstance(problem, ssl.SSLCertVerificationError):
            text = f"the certificate of {self.server} is not trusted: {problem.verify_message}"
            return Unreachable(f"{text} (check certificate-authority and the host name)", permanent=True)
        return Unreachable(f"no answer from {self.server}: {reason(problem)}")

    def _proxied(self, proxy: Proxy, timeout: float) -> socket.socket:
        sock = self._tcp(proxy.host, proxy.port, timeout, "the proxy fails: ")
        try:
            if proxy.scheme == "https":
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=proxy.host)
            if self._context is not None:
                self._tunnel(sock, proxy, timeout)
        except (OSError, ValueError, BadAnswer) as problem:
            sock.close()
            raise Unreachable(f"no answer from {self.server}: the proxy fails: {reason(problem)}") from None
        return sock

    def _tunnel(self, sock: socket.socket, proxy: Proxy, timeout: float) -> None:
        where = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        request = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{proxy.header}\r\n"
        status, _unused = HttpConnection(sock).ask(request.encode(), timeout)
        if not 200 <= status < 300:
            raise BadAnswer(f"it answers {status} when asked for a way to {where}")


def reason(problem: BaseException) -> str:
    """A failure to connect in words."""
    if isinstance(problem, TimeoutError):
        return "the connection could not be opened in time"
    return str(problem) or type(problem).__name__
