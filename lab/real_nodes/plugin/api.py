# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's few calls of the API server, with the token of its pod."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Refused(Exception):
    """The API server answered with an error. `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PodApi:
    """Opens a connection for each call, because a plugin makes few.

    It reads the token each time, because the kubelet renews the token.
    """

    def __init__(self, server: str, account: Path = ACCOUNT) -> None:
        self._server, self._account = server, account
        self._tls = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the decoded reply. Raise Refused for an error of the API server, and OSError
        without an answer."""
        with self._open(method, path, body, 10.0) as reply:
            return json.load(reply)

    def watch(self, path: str, seconds: int) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch that ends after `seconds`."""
        with self._open("GET", f"{path}&watch=true&timeoutSeconds={seconds}", None, seconds + 10.0) as reply:
            for line in reply:
                yield json.loads(line)

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float) -> Any:
        token = (self._account / "token").read_text("ascii").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=timeout, context=self._tls)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, f"{method} {path}: {error.read().decode(errors='replace')[:500]}") from error


def query(**selectors: str) -> str:
    """Return a field selector for the end of a path."""
    return "?fieldSelector=" + urllib.parse.quote(",".join(f"{name}={value}" for name, value in selectors.items()))
