# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What probes and people ask a running controller: alive, ready, and what each claim waits for.

Anybody may ask whether it is alive and ready. What claims wait for, and the metrics, are for whom ``Access`` lets in.
Where the page is served it answers below /ui itself, and takes over the connections to which it sends what changes.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ansible_collections.composable.infra.controller.access import FORBIDDEN, OK, UNAUTHORIZED, UNAVAILABLE, Access
from ansible_collections.composable.infra.controller.metrics import CONTENT_TYPE
from ansible_collections.composable.infra.controller.serving_tls import ServingCertificate
from ansible_collections.composable.infra.controller.ui.endpoint import Ui
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.controller_manager import (
    ControllerManager,
)

REFUSALS = {UNAUTHORIZED: "a token is needed, in the header Authorization: Bearer",
            FORBIDDEN: "the token's user may not get this path",
            UNAVAILABLE: "the API server could not be asked about the token now"}


class Process(t.Protocol):
    """What is served: an engine or a node agent."""

    def ready(self) -> bool:
        """Whether it works."""

    def problems(self) -> list[str]:
        """What stands in its way, in sentences."""

    def stuck(self) -> str:
        """Why it will do nothing any more, empty while it goes on."""


class Measurements(t.Protocol):
    """What it measures."""

    def text(self) -> bytes:
        """Everything as Prometheus reads it."""


# How long, in seconds, a stop may wait for the server to notice.
STOP_POLL = 0.05
# Seconds that a client may be silent, and that a request may take in all; connections at the same time.
SILENT_SECONDS, REQUEST_SECONDS, CONNECTIONS = 5.0, 10.0, 32
# Seconds more that an answer of the page may take us: for 5,000 nodes it is one, and many on a busy machine.
PAGE_SECONDS = 60.0


class _Server(ThreadingHTTPServer):
    """Ends connections that take too long, and the oldest one when there are too many: a probe is done in a moment."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *args: t.Any, certificate: ServingCertificate | None = None) -> None:
        self._begun: dict[socket.socket, float] = {}
        self._given: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._certificate = certificate
        super().__init__(*args)

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        """Answer one client in a thread of its own."""
        with self._lock:
            oldest = min(self._begun, key=self._begun.__getitem__) if len(self._begun) >= CONNECTIONS else None
            if oldest is not None:
                self._end(oldest)
            self._begun[request] = time.monotonic()
        super().process_request(request, client_address)

    def finish_request(self, request: t.Any, client_address: t.Any) -> None:
        """Serve one connection, with TLS where there is a certificate; on the connection's own thread."""
        if self._certificate is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(SILENT_SECONDS)
        secured = self._certificate.context().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._lock:  # the plain socket is of no use from now on, also for ending it
            self._begun[secured] = self._begun.pop(request, time.monotonic())
        try:
            secured.do_handshake()
            super().finish_request(secured, client_address)
        finally:
            self.shutdown_request(secured)

    def service_actions(self) -> None:
        """End what has taken too long."""
        late = time.monotonic() - REQUEST_SECONDS
        with self._lock:
            for request in [each for each, begun in self._begun.items() if begun < late]:
                self._end(request)

    @contextlib.contextmanager
    def answering(self, request: socket.socket) -> Iterator[None]:
        """What the answer takes us, up to PAGE_SECONDS, is not the client's time."""
        began = time.monotonic()
        self._allow(request, PAGE_SECONDS)
        yield
        self._allow(request, time.monotonic() - began - PAGE_SECONDS)

    def _allow(self, request: socket.socket, seconds: float) -> None:
        with self._lock:
            if request in self._begun:
                self._begun[request] += seconds

    def give(self, request: socket.socket) -> None:
        """Somebody else has this connection from now on, and ends it."""
        with self._lock:
            self._begun.pop(request, None)
            self._given.add(request)

    def shutdown_request(self, request: t.Any) -> None:
        """It is answered."""
        with self._lock:
            self._begun.pop(request, None)
            if request in self._given:
                self._given.discard(request)
                return
        super().shutdown_request(request)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that went away, or was ended, is nobody's trouble."""

    def _end(self, request: socket.socket) -> None:
        self._begun.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Server6(_Server):
    """The same for an IPv6 address."""

    address_family = socket.AF_INET6


class HealthServer:
    """Serves /healthz (it goes on), /readyz (lists read, fabric seen), /status (verdicts, troubles) and /metrics."""

    def __init__(self, listen: str, process: Process, metrics: Measurements, details: Callable[[], dict[str, t.Any]],
                 access: Access | None = None, certificate: ServingCertificate | None = None,
                 ui: Ui | None = None) -> None:
        """``listen``: HOST:PORT, port 0 takes a free one. ``details``: what /status answers. ``access``: who may read
        more than whether it is alive and ready; only loopback by default. ``certificate``: for TLS, None for plain
        HTTP. ``ui``: the page, None where it is not served. Raises BadConfig."""
        host, _unused, port = listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise BadConfig(f"--listen: {listen!r} is not usable: must be HOST:PORT with a port from 0 to 65535")
        try:
            server = _Server6 if ":" in host else _Server
            endpoints = _Endpoints(process, metrics, details, access or Access(), ui)
            handler = type("Handler", (_Handler,), {"endpoints": endpoints})
            self._server = server((host.strip("[]"), int(port)), handler, certificate=certificate)
            self._ui, self._scheme = ui, "https" if certificate else "http"
        except OSError as error:
            raise BadConfig(f"--listen: {listen!r} is not usable: {error.strerror}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(STOP_POLL,), name="health",
                                        daemon=True)

    @property
    def address(self) -> str:
        """Host and port as bound."""
        host, port = self._server.server_address[:2]
        return f"{host if isinstance(host, str) else host.decode()}:{port}"

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"{self._scheme}://{self.address}"

    def start(self) -> None:
        """Serve on a thread of its own."""
        self._thread.start()
        if self._ui:
            self._ui.start()

    def stop(self) -> None:
        """Stop serving."""
        if self._ui:
            self._ui.stop()
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def status(engine: ControllerManager) -> dict[str, t.Any]:
    """What each claim waits for, and what stands in the way."""
    age = round(engine.fabric_looks.age(), 1) if engine.looks else None
    return {"ready": engine.ready(), "troubles": engine.problems(), "fabric_poll_age_seconds": age,
            "claims": {reason.claim: {"waits_for": reason.waits_for, "evidence": dict(reason.evidence)}
                       for reason in engine.wait_reasons()}}


@dataclass(frozen=True, slots=True)
class _Endpoints:
    """What is answered, and to whom."""

    process: Process
    metrics: Measurements
    details: Callable[[], dict[str, t.Any]]
    access: Access
    ui: Ui | None = None


class _Handler(BaseHTTPRequestHandler):
    """Answers GET only."""

    timeout = SILENT_SECONDS
    endpoints: t.ClassVar[_Endpoints]

    def do_GET(self) -> None:
        """Answer one request."""
        path = self.path.partition("?")[0]
        if path == "/healthz":
            stuck = self.endpoints.process.stuck()
            self._answer(500 if stuck else 200, {"ok": not stuck})
        elif path == "/readyz":
            self._answer_ready(path)
        elif path in ("/status", "/metrics"):
            self._answer_whom_we_know(path)
        elif self.endpoints.ui and self.endpoints.ui.has(path):
            self._answer_page(self.endpoints.ui)
        else:
            self._answer(404, {"error": "not served; try /healthz, /readyz, /metrics or /status"})

    def _answer_ready(self, path: str) -> None:
        process = self.endpoints.process
        ready = process.ready()
        told = {"troubles": process.problems()} if self._judged(path) == OK else {}
        self._answer(200 if ready else 503, {"ready": ready, **told})

    def _answer_whom_we_know(self, path: str) -> None:
        if (code := self._judged(path)) != OK:
            self._answer(code, {"error": REFUSALS[code]})
        elif path == "/status":
            self._answer(200, self.endpoints.details())
        else:
            self._send(200, CONTENT_TYPE, self.endpoints.metrics.text())

    def _answer_page(self, ui: Ui) -> None:
        with t.cast(_Server, self.server).answering(self.connection):
            answer = ui.answer(self)
        self.send_response(answer.code)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.data)
        if answer.stream is not None:
            self._give(answer.stream)

    def _give(self, stream: Callable[[socket.socket], bool]) -> None:
        """Before it is taken, so that nobody ends it in between."""
        server = t.cast(_Server, self.server)
        server.give(self.connection)
        if not stream(self.connection):
            self.connection.close()

    def _judged(self, path: str) -> int:
        return self.endpoints.access.judge_request(self, self.headers.get("Authorization") or "", path)

    def _answer(self, code: int, body: dict[str, t.Any]) -> None:
        self._send(code, "application/json", json.dumps(body, indent=1).encode())

    def _send(self, code: int, kind: str, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if code == UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: t.Any) -> None:
        """Probes are not worth a log line."""
