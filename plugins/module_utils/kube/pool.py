# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How connections to the API server are opened: TLS names, socket options and proxies."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from .connection import Connection

try:
    import urllib3
except ImportError:
    HAS_URLLIB3 = False
else:
    HAS_URLLIB3 = True

_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


def open_pool(connection: Connection, context: ssl.SSLContext | None, size: int) -> urllib3.HTTPConnectionPool:
    """A pool that keeps up to ``size`` connections and opens more when all are in use."""
    parts = urlsplit(connection.server)
    options: dict[str, Any] = {"maxsize": size, "block": False, "socket_options": _socket_options()}
    if context is not None:
        options["ssl_context"] = context
        if not hasattr(urllib3, "BaseHTTPResponse"):
            # urllib3 1.26 gives TLS no address to check, and compares the names itself instead.
            context.check_hostname = False
        if connection.tls_server_name:
            options["server_hostname"] = connection.tls_server_name
        if not connection.verify:
            options["cert_reqs"] = ssl.CERT_NONE
    proxy = connection.proxy_url or proxy_of_environment(parts.scheme, parts.hostname or "")
    if proxy:
        manager = urllib3.ProxyManager(proxy, num_pools=1, **options)
        return manager.connection_from_host(parts.hostname, parts.port, parts.scheme)
    kind = urllib3.HTTPSConnectionPool if context is not None else urllib3.HTTPConnectionPool
    return kind(parts.hostname or "", parts.port, **options)


def _socket_options() -> list[tuple[int, int, int]]:
    # A load balancer that forgets idle connections must not cost the next write a read timeout.
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    options += [(socket.IPPROTO_TCP, getattr(socket, n), v) for n, v in _KEEPALIVE if hasattr(socket, n)]
    return options


def proxy_of_environment(scheme: str, host: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY choose for a host, if any."""
    # Loopback never goes through a proxy, as in Go's net/http.
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
