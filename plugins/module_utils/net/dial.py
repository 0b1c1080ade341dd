# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open connections to one server with TCP options, a proxy, TLS and the name of its certificate."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from .errors import BadResponse, NoResponse
from .http1 import HttpConnection, Wire
from .proxy import Proxy
from .tls import TlsInTls, client_context

# Keepalive, so that a load balancer that drops idle connections costs no read timeout.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Dialer:
    """Opens connections. Thread-safe. Only scheme, host and port of ``url`` are used.

    ``context`` is for a server with TLS. ``server_name`` replaces the URL's name in the check of
    the certificate.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext | None, proxy: Proxy | None = None, server_name: str | None = None
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._context = context
        self._port = parts.port or (80 if context is None else 443)
        self._name = server_name or self._host
        self._proxy = proxy
        self._proxy_context = client_context() if proxy and proxy.scheme == "https" else None

    def dial(self, timeout: float) -> HttpConnection:
        """Return a new connection, with ``timeout`` seconds for each step.

        Raise NoResponse, never with ``sent``.
        """
        try:
            wire = self._through(self._proxy, timeout) if self._proxy else self._tcp(self._host, self._port, timeout)
        except (OSError, ValueError, BadResponse) as problem:
            raise NoResponse(problem, sent=False, by_proxy=self._proxy is not None) from None
        try:
            return HttpConnection(self._secured(wire, self._context) if self._context else wire)
        except (OSError, ValueError) as problem:
            wire.close()
            raise NoResponse(problem, sent=False) from None

    def _tcp(self, host: str, port: int, timeout: float) -> socket.socket:
        sock = socket.create_connection((host, port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return sock

    def _secured(self, wire: socket.socket, context: ssl.SSLContext) -> Wire:
        if isinstance(wire, ssl.SSLSocket):
            return TlsInTls(wire, context, self._name)
        return context.wrap_socket(wire, server_hostname=self._name)

    def _through(self, proxy: Proxy, timeout: float) -> socket.socket:
        sock = self._tcp(proxy.host, proxy.port, timeout)
        try:
            if self._proxy_context:
                sock = self._proxy_context.wrap_socket(sock, server_hostname=proxy.host)
            if self._context:
                self._tunnel(sock, proxy, timeout)
        except (OSError, ValueError, BadResponse):
            sock.close()
            raise
        return sock

    def _tunnel(self, sock: socket.socket, proxy: Proxy, timeout: float) -> None:
        where = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        request = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{proxy.header}\r\n"
        status, _unused = HttpConnection(sock).ask(request.encode(), timeout)
        if not 200 <= status < 300:
            raise BadResponse(f"it answered {status} to the request for a connection to {where}")
