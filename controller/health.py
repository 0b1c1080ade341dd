# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What probes and people ask a running controller: alive, ready, and what each claim waits for."""

from __future__ import annotations

import json
import socket
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.engine import Engine


class _Server6(ThreadingHTTPServer):
    """The same for an IPv6 address."""

    address_family = socket.AF_INET6


# How long, in seconds, a stop may wait for the server to notice.
STOP_POLL = 0.05


class HealthServer:
    """Serves /healthz (the process runs), /readyz (lists read, fabric seen), /status (verdicts, troubles), /metrics."""

    def __init__(self, listen: str, engine: Engine) -> None:
        host, _unused, port = listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise BadConfig(f"--listen: {listen!r} is not usable: must be HOST:PORT with a port from 0 to 65535")
        try:
            server = _Server6 if ":" in host else ThreadingHTTPServer
            self._server = server((host.strip("[]"), int(port)), _handler(engine))
        except OSError as error:
            raise BadConfig(f"--listen: {listen!r} is not usable: {error.strerror}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(STOP_POLL,), name="health",
                                        daemon=True)

    @property
    def address(self) -> str:
        """Host and port as bound."""
        host, port = self._server.server_address[:2]
        return f"{host if isinstance(host, str) else host.decode()}:{port}"

    def start(self) -> None:
        """Serve on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def status(engine: Engine) -> dict[str, t.Any]:
    """Verdicts per claim and what stands in the way."""
    verdicts = [*(v for vs in list(engine.passes.verdicts.values()) for v in vs), *engine.gating.verdicts]
    return {"ready": engine.ready(), "troubles": engine.problems(),
            "claims": {v.claim: {"waits_for": v.waits_for, "evidence": dict(v.evidence)} for v in verdicts}}


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET only."""

        def do_GET(self) -> None:
            """Answer one request."""
            path = self.path.partition("?")[0]
            if path == "/healthz":
                self._answer(200, {"ok": True})
            elif path == "/readyz":
                ready = engine.ready()
                self._answer(200 if ready else 503, {"ready": ready, "troubles": engine.problems()})
            elif path == "/status":
                self._answer(200, status(engine))
            elif path == "/metrics":
                self._send(200, "text/plain; version=0.0.4", engine.metrics().encode())
            else:
                self._answer(404, {"error": f"{self.path} is not served; try /healthz, /readyz, /metrics or /status"})

        def _answer(self, code: int, body: dict[str, t.Any]) -> None:
            self._send(code, "application/json", json.dumps(body, indent=1).encode())

        def _send(self, code: int, kind: str, data: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: t.Any) -> None:
            """Probes are not worth a log line."""

    return Handler
