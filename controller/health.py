# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP endpoints of a running program for probes and people.

Every client may read whether the program is alive and ready. Only clients that ``Access`` allows
may read the metrics, and what each claim waits for. If the page is served, it answers below /ui
itself, and takes over the connections on which it sends changes.
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
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)

REFUSALS = {UNAUTHORIZED: "this path needs a token in the header Authorization: Bearer",
            FORBIDDEN: "the user of the token may not read this path",
            UNAVAILABLE: "the API server cannot check the token now. Try again later"}


class Process(t.Protocol):
    """The program that is served. It is an engine or a node agent."""

    def ready(self) -> bool:
        """Return whether it works."""

    def problems(self) -> list[str]:
        """Return what prevents its work, in sentences."""

    def stuck(self) -> str:
        """Return why it is stuck for good, in a sentence. Empty while it works."""


class Measurements(t.Protocol):
    """The metrics of the program."""

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""


# Seconds that a stop may wait until the server notices.
STOP_POLL = 0.05
# Limits: seconds of silence of a client, seconds of a whole request, connections at the same time.
SILENT_SECONDS, REQUEST_SECONDS, CONNECTIONS = 5.0, 10.0, 32
# Extra seconds for an answer of the page. For 5,000 nodes it takes 1 s, and more on a busy machine.
PAGE_SECONDS = 60.0


class _Server(ThreadingHTTPServer):
    """End connections that take too long, and the oldest connection when there are too many.

    A probe takes a moment only.
    """

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
        """Serve one connection on its own thread, with TLS if there is a certificate."""
        if self._certificate is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(SILENT_SECONDS)
        secured = self._certificate.context().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._lock:  # From now on only the TLS socket can be used, also to end the connection.
            self._begun[secured] = self._begun.pop(request, time.monotonic())
        try:
            secured.do_handshake()
            super().finish_request(secured, client_address)
        finally:
            self.shutdown_request(secured)

    def service_actions(self) -> None:
        """End the connections that take too long."""
        late = time.monotonic() - REQUEST_SECONDS
        with self._lock:
            for request in [each for each, begun in self._begun.items() if begun < late]:
                self._end(request)

    @contextlib.contextmanager
    def answering(self, request: socket.socket) -> Iterator[None]:
        """Do not count the time of our answer, up to PAGE_SECONDS, as the client's time."""
        began = time.monotonic()
        self._allow(request, PAGE_SECONDS)
        yield
        self._allow(request, time.monotonic() - began - PAGE_SECONDS)

    def _allow(self, request: socket.socket, seconds: float) -> None:
        with self._lock:
            if request in self._begun:
                self._begun[request] += seconds

    def give(self, request: socket.socket) -> None:
        """Give this connection to other code, which ends it."""
        with self._lock:
            self._begun.pop(request, None)
            self._given.add(request)

    def shutdown_request(self, request: t.Any) -> None:
        """Close an answered connection, unless other code has it."""
        with self._lock:
            self._begun.pop(request, None)
            if request in self._given:
                self._given.discard(request)
                return
        super().shutdown_request(request)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Ignore an error of a client that disconnected or was ended."""

    def _end(self, request: socket.socket) -> None:
        self._begun.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Server6(_Server):
    """The same server for an IPv6 address."""

    address_family = socket.AF_INET6


class HealthServer:
    """Serve /healthz (alive), /readyz (lists and inventory read), /status (verdicts, problems) and
    /metrics.
    """

    def __init__(self, listen: str, process: Process, metrics: Measurements, details: Callable[[], dict[str, t.Any]],
                 access: Access | None = None, certificate: ServingCertificate | None = None,
                 ui: Ui | None = None) -> None:
        """Bind the address.

        ``listen``: HOST:PORT, port 0 takes a free port. ``details``: returns the answer of /status.
        ``access``: decides who may read more than /healthz and /readyz, by default only loopback.
        ``certificate``: for TLS, None for plain HTTP. ``ui``: the page, None if it is not served.

        Raises BadConfig if ``listen`` cannot be used.
        """
        host, _unused, port = listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise BadConfig(f"--listen: {listen!r} is not allowed. It must be HOST:PORT with a port from 0 to 65535")
        try:
            server = _Server6 if ":" in host else _Server
            endpoints = _Endpoints(process, metrics, details, access or Access(), ui)
            handler = type("Handler", (_Handler,), {"endpoints": endpoints})
            self._server = server((host.strip("[]"), int(port)), handler, certificate=certificate)
            self._ui, self._scheme = ui, "https" if certificate else "http"
        except OSError as error:
            raise BadConfig(f"--listen: cannot listen on {listen!r}: {error.strerror}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(STOP_POLL,), name="health",
                                        daemon=True)

    @property
    def address(self) -> str:
        """The bound host and port."""
        host, port = self._server.server_address[:2]
        return f"{host if isinstance(host, str) else host.decode()}:{port}"

    @property
    def url(self) -> str:
        """The URL of the server."""
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
    """Return what each claim waits for, and the problems of the engine."""
    age = round(engine.inventory_polls.age(), 1) if engine.looks else None
    return {"ready": engine.ready(), "troubles": engine.problems(), "fabric_poll_age_seconds": age,
            "claims": {reason.claim: {"waits_for": reason.waits_for, "evidence": dict(reason.evidence)}
                       for reason in engine.wait_reasons()}}


@dataclass(frozen=True, slots=True)
class _Endpoints:
    """The sources of the answers, and ``access``, which decides about the client."""

    process: Process
    metrics: Measurements
    details: Callable[[], dict[str, t.Any]]
    access: Access
    ui: Ui | None = None


class _Handler(BaseHTTPRequestHandler):
    """Answer GET requests."""

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
            self._answer(404, {"error": "this path is not served. Try /healthz, /readyz, /metrics or /status"})

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
        """Hand the connection to ``stream``.

        First remove it from the server, so that the server does not end it meanwhile.
        """
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
        """Log nothing. Probes are not worth a log line."""
