# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a proxy stands between us and a server, and how it is asked for a way through.

HTTPS_PROXY, HTTP_PROXY and NO_PROXY are read as curl and Go read them. The standard library does not know address
ranges in NO_PROXY, which clusters always use.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}
_Address: t.TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"


@dataclass(frozen=True, slots=True)
class Proxy:
    """``header`` is a whole header line for every request to the proxy, or empty; it may hold a password."""

    scheme: str
    host: str
    port: int
    header: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """From ``http://[user:password@]host[:port]``, or https; http without a scheme. Raises ValueError."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            port = None
        if port is None or parts.scheme not in _PORTS or not parts.hostname:
            # The URL may hold a password: it is not shown.
            raise ValueError("must be http://host[:port] or https://host[:port]")
        user, at, _unused = parts.netloc.rpartition("@")
        login = base64.b64encode(unquote(user).encode()).decode()
        header = f"Proxy-Authorization: Basic {login}\r\n" if at else ""
        return cls(parts.scheme, parts.hostname, port, header)


def variable(url: str) -> str:
    """The environment variable that names the proxy for ``url``."""
    return f"{urlsplit(url).scheme.upper()}_PROXY"


def proxy_of_environment(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """URL of the proxy that the environment names for ``url``, None when it is reached directly."""
    env = os.environ if environ is None else environ
    name = variable(url)
    proxy = env.get(name.lower()) or env.get(name)
    if not proxy or bypassed(url, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    return proxy


def bypassed(url: str, no_proxy: str) -> bool:
    """Whether the server of ``url`` is reached directly: loopback, or named by ``no_proxy``.

    Entries of ``no_proxy`` are separated by commas or blanks: ``*``, a host, a domain (with all below it), an address,
    a range of addresses; each but ``*`` and a range may end with a port.
    """
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme, 0)
    address = _address(host)
    # As in Go's net/http: a proxy's own loopback is another one.
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = re.split(r"[,\s]+", no_proxy.lower())
    return any(_matches(host, address, port, entry) for entry in entries if entry)


def _matches(host: str, address: _Address | None, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _in_range(address, entry)
    bracketed = re.fullmatch(r"\[(.*)\](?::(\d+))?", entry)
    if bracketed:
        name, wanted = bracketed[1], bracketed[2]
    else:
        name, _colon, wanted = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
    if wanted and wanted != str(port):
        return False
    if address is not None:
        return address == _address(name)
    name = name.removeprefix("*").removeprefix(".").rstrip(".")
    return host == name or host.endswith(f".{name}")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _in_range(address: _Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
