# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_auth.py` and others share."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.plugins.module_utils.fabric.http import session as sessions
from ansible_collections.composable.infra.plugins.module_utils.net.client import Response, Timeouts


def reply(status: int = 200, body: t.Any = None, **headers: str) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    return Response(status, {name.replace("_", "-").lower(): value for name, value in headers.items()}, data)


class FakeClient:
    """Answers by ``script``; keeps what was sent."""

    script: Callable[[str, str, Mapping[str, str], bytes | None], Response]
    sent: t.ClassVar[list[tuple[str, str, dict[str, str], bytes | None]]] = []

    def __init__(self, url: str, **_options: t.Any) -> None:
        self.url = url

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, _timeouts: Timeouts
    ) -> Response:
        FakeClient.sent.append((method, path, dict(headers), body))
        return FakeClient.script(method, path, headers, body)

    def close(self) -> None:
        """Nothing is kept."""


Connect = Callable[..., sessions.Session]


def paths() -> list[tuple[str, str]]:
    return [(method, path) for method, path, _headers, _body in FakeClient.sent]
