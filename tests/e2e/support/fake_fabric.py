# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric that only shows devices: tests of the nodes' hardware need no CDI manager."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.names import machine_uuid


class FakeFabric:
    """The part of the emulator that the node simulator reads: GET /admin/state with long polls."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        pair = authority.issue_server("fabric")
        self.ca = authority.certificate
        self.changed = threading.Condition()
        self.state: dict[str, Any] = {"generation": 1, "models": {}, "devices": [], "machines": []}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._context = context
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def start(self) -> None:
        fabric = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = fabric.look(parse_qs(urlsplit(self.path).query))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def look(self, query: dict[str, list[str]]) -> bytes:
        with self.changed:
            if "after" in query:
                after = int(query["after"][0])
                self.changed.wait_for(lambda: self.state["generation"] > after, float(query["timeout"][0]))
            return json.dumps(self.state).encode()

    def show(self, *devices: tuple[str, str | None]) -> None:
        """Devices by name, and the node that each is attached to."""
        entries = [
            {"uid": f"uid-{name}", "serial": f"GPU-{name}", "model": "H100", "state": "attached" if node else "free",
             "machine": machine_uuid(node) if node else None}
            for name, node in devices
        ]  # fmt: skip
        with self.changed:
            self.state = {**self.state, "devices": entries, "generation": self.state["generation"] + 1}
            self.changed.notify_all()
