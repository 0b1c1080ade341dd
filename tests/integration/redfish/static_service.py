# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redfish service that is a folder of JSON files: DMTF's example services, or a test's own documents."""

from __future__ import annotations

import http.server
import json
import threading
import typing as t
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = "/redfish/v1"
NOT_FOUND = {"error": {"code": "Base.1.0.ResourceMissingAtURI", "message": "there is nothing here"}}


class StaticService:
    """Serves ``folder/<path below /redfish/v1>/index.json`` over plain HTTP; queries are ignored. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> StaticService:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it is."""
        return "http://{}:{}".format(*self._server.server_address[:2])

    def document(self, path: str) -> bytes | None:
        """The file of a path, None when there is none."""
        below = unquote(urlsplit(path).path).removeprefix(ROOT).strip("/")
        file = self.folder / below / "index.json"
        inside = file.resolve().is_relative_to(self.folder.resolve())
        return file.read_bytes() if inside and file.is_file() else None


def write(folder: Path, documents: Mapping[str, t.Any]) -> Path:
    """Make such a folder: documents by path below /redfish/v1."""
    for path, body in documents.items():
        target = folder / path.strip("/") / "index.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(body), encoding="utf-8")
    return folder


def _handler(service: StaticService) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            service.asked.append(self.path)
            body = service.document(self.path)
            self.send_response(200 if body is not None else 404)
            body = body if body is not None else json.dumps(NOT_FOUND).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Quiet."""

    return Handler
