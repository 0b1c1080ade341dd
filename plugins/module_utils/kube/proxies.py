# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a proxy stands between us and the API server, and how it is asked for a way through."""

from __future__ import annotations

import base64
import ipaddress
import os
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from .connection import Connection
from .errors import BadKubeconfig

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """``header`` is a whole header line for every request to the proxy, or empty; it may hold a password."""

    scheme: str
    host: str
    port: int
    header: str = field(default="", repr=False)


def proxy_for(connection: Connection) -> Proxy | None:
    """The proxy that the connection names or the environment chooses. Raises BadKubeconfig."""
    parts = urlsplit(connection.server)
    url = connection.proxy_url or proxy_of_environment(parts.scheme, parts.hostname or "")
    return _parsed(url, connection) if url else None


def proxy_of_environment(scheme: str, host: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY choose for a host, if any."""
    # Loopback never goes through a proxy, as in Go's net/http.
    if _is_loopback(host) or urllib.request.proxy_bypass(host) or _in_ranges(host):
        return None
    return os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")


def _parsed(url: str, connection: Connection) -> Proxy:
    source = connection.source if connection.proxy_url else "environment"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError
        return Proxy(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], _authorization(parts.netloc))
    except ValueError:
        # The URL may hold a password: it is not shown.
        problem = "must be http://host[:port] or https://host[:port]"
        raise BadKubeconfig(source, "proxy-url", problem) from None


def _authorization(netloc: str) -> str:
    user, at, _unused = netloc.rpartition("@")
    if not at:
        return ""
    return f"Proxy-Authorization: Basic {base64.b64encode(unquote(user).encode()).decode()}\r\n"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _in_ranges(host: str) -> bool:
    entries = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")
    return any("/" in entry and _is_in(host, entry.strip()) for entry in entries)


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
