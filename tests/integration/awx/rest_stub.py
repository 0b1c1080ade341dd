# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP of the stand-ins for AWX and the EDA controller: a bearer token, JSON in and out."""

from __future__ import annotations

import json
import threading
import typing as t
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

Json = dict[str, t.Any]
TOKEN: t.Final = "a-token-for-tests"
NO_CONTENT = 204


class Refused(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(body)
        self.status, self.body = status, body


class State(t.Protocol):
    """What a stand-in stores, and how it answers."""

    lock: threading.Lock

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, t.Any]:
        """Status and body. Raises Refused."""


def serve(state: State, headers: Mapping[str, str] | None = None) -> ThreadingHTTPServer:
    """A server on a free port of the loopback; start and stop it. ``headers`` come with every answer."""

    class Handler(BaseHTTPRequestHandler):
        """Speaks HTTP for the state."""

        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise Refused(401, {"detail": "Authentication credentials were not provided."})
                with state.lock:
                    status, body = state.answer(self.command, parts.path, dict(parse_qsl(parts.query)),
                                                json.loads(data or b"{}"))
            except Refused as refused:
                status, body = refused.status, refused.body
            self._send(status, b"" if body is None else json.dumps(body).encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status != NO_CONTENT:
                self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: t.Any) -> None:
            """The state keeps what was asked."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
