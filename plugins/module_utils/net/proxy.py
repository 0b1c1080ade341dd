# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the proxy for a server in HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as curl and Go do.

The standard library does not support address ranges in NO_PROXY, which clusters always use.
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
    """A proxy. ``header`` is a whole header line for each request to it, or empty.

    ``header`` may contain a password.
    """

    scheme: str
    host: str
    port: int
    header: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """Read ``http://[user:password@]host[:port]``, or https. The default scheme is http.

        Raise ValueError.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            port = None
        if port is None or parts.scheme not in _PORTS or not parts.hostname:
            # The URL may hold a password, so do not show it.
            raise ValueError("must be http://host[:port] or https://host[:port]")
        user, at, _unused = parts.netloc.rpartition("@")
        login = base64.b64encode(unquote(user).encode()).decode()
        header = f"Proxy-Authorization: Basic {login}\r\n" if at else ""
        return cls(parts.scheme, parts.hostname, port, header)


def variable(url: str) -> str:
    """Return the environment variable that names the proxy for ``url``."""
    return f"{urlsplit(url).scheme.upper()}_PROXY"


def proxy_of_environment(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the proxy URL that the environment names for ``url``, or None without a proxy."""
    env = os.environ if environ is None else environ
    name = variable(url)
    proxy = env.get(name.lower()) or env.get(name)
    if not proxy or bypassed(url, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    return proxy


def bypassed(url: str, no_proxy: str) -> bool:
    """Return whether the server of ``url`` needs no proxy: loopback, or named by ``no_proxy``.

    Entries of ``no_proxy`` are separated by commas or blanks. An entry is ``*``, a host, a domain
    with all its subdomains, an address or a range of addresses. A host, domain or address may end
    with a port.
    """
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme, 0)
    address = _address(host)
    # As in Go's net/http. The loopback of the proxy is another machine.
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
