# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a proxy stands between us and the manager: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as curl and Go read them.

Written out because the standard library does not know address ranges in NO_PROXY, which clusters always use.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(endpoint: str, environ: Mapping[str, str] | None = None) -> str | None:
    """URL of the proxy for ``endpoint``, by its scheme, or None."""
    env = os.environ if environ is None else environ
    name = variable(endpoint)
    proxy = env.get(name.lower()) or env.get(name)
    if not proxy or bypassed(endpoint, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def variable(endpoint: str) -> str:
    """The environment variable that names the proxy for ``endpoint``."""
    return f"{urlsplit(endpoint).scheme.upper()}_PROXY"


def bypassed(endpoint: str, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host of ``endpoint``: ``*``, a name, a domain, an address, a range, a port."""
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    return any(_matches(host, port, entry.strip().lower()) for entry in no_proxy.split(",") if entry.strip())


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _in_range(host, entry)
    name, _unused, wanted = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if wanted and wanted != str(port):
        return False
    name = (name or entry).strip("[]").removeprefix("*").removeprefix(".")
    return host == name or host.endswith(f".{name}")


def _in_range(host: str, entry: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
