# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scripted Kubernetes API server over real TLS: each route answers what the test laid out for it, in order."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from ansible_collections.composable.infra.tests.integration.kube.certificates import Certificates

Object = dict[str, Any]
WAIT = 20.0


@dataclass(frozen=True, slots=True)
class Request:
    """What arrived; ``user`` is the common name of the client's certificate, ``port`` the client's."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any
    user: str | None
    port: int
    header_lines: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer; ``body`` bytes are sent as they are, ``length`` overrides Content-Length."""

    body: Object | bytes = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Hangup:
    """The connection is closed without an answer."""


class Stream:
    """A chunked answer that the test writes while it is open; ``gate`` holds back even its headers."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.gate = gate
        self.opened = threading.Event()
        self.closed = threading.Event()
        self._commands: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._cut = False

    def send(self, *events: Object | bytes) -> Stream:
        for event in events:
            raw = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            self._commands.put(raw)
        return self

    def end(self) -> Stream:
        """End it in order, as the server does at its timeout."""
        self._commands.put(None)
        return self

    def cut(self) -> Stream:
        """Close the connection in the middle."""
        self._cut = True
        self._commands.put(None)
        return self

    def serve(self, write: Callable[[bytes], object]) -> bool:
        """Write until the end; True when it ended in order."""
        self.opened.set()
        try:
            while (raw := self._commands.get()) is not None:
                write(b"%x\r\n%s\r\n" % (len(raw), raw))
            if not self._cut:
                write(b"0\r\n\r\n")
            return not self._cut
        finally:
            self.closed.set()


Answer = Reply | Hangup | Stream


def status(code: int, reason: str = "", **more: Any) -> Reply:
    """An error as the API server words it."""
    base = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return Reply(base | {"message": f"{reason or code} says the server"} | more, code)


class FakeApi:
    """Serves until ``stop``. Routes are ``"GET /path"``; a watch is ``"WATCH /path"``.

    The last Reply of a route repeats; a watch without a script stays open and silent; anything else is 404. A list that
    must not be older than a version is ``"CHECK /path"``, and empty without a script. ``newest``: the server's version,
    None for one that is newer than all. As the real API server it answers a watch from a later
    version with silence, and refuses a list that must not be older than a later version.
    """

    def __init__(self, certificates: Certificates | None, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.newest: int | None = None
        self._routes: dict[str, deque[Answer]] = {}
        self._arrived = threading.Condition()
        self._streams: list[Stream] = []
        self._server = _Server(port, self, certificates)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._server.context else 'http'}://127.0.0.1:{self.port}"

    def on(self, route: str, *answers: Answer | Object) -> None:
        """Append answers to a route; a dict is the body of a 200."""
        with self._arrived:
            made = [Reply(answer) if isinstance(answer, dict) else answer for answer in answers]
            self._routes.setdefault(route, deque()).extend(made)

    def sent(self, route: str) -> list[Request]:
        """The requests of a route so far."""
        with self._arrived:
            return [request for request in self.requests if _route(request) == route]

    def wait_for(self, route: str, count: int = 1) -> list[Request]:
        """Wait until the route was asked ``count`` times."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.sent(route)) >= count, WAIT), f"{route} was not asked"
            return self.sent(route)

    def stop(self) -> None:
        with self._arrived:
            streams = list(self._streams)
        for stream in streams:
            stream.cut()
        self._server.shutdown()
        self._thread.join(WAIT)
        self._server.end()

    def answer(self, request: Request) -> Answer:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            chosen = self._of_the_future(request) or self._next(_route(request))
            if isinstance(chosen, Stream):
                self._streams.append(chosen)
            return chosen

    def _of_the_future(self, request: Request) -> Answer | None:
        asked = request.query.get("resourceVersion", "")
        if self.newest is None or not asked.isdigit() or int(asked) <= self.newest:
            return None
        if request.query.get("watch"):
            return Stream()
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        said = f"Timeout: Too large resource version: {asked}, current: {self.newest}"
        body = status(504, "Timeout", details={"causes": [cause], "retryAfterSeconds": 1}, message=said)
        return Reply(body.body, 504, {"Retry-After": "1"})

    def _next(self, route: str) -> Answer:
        script = self._routes.get(route)
        if script:
            return script[0] if len(script) == 1 and isinstance(script[0], Reply) else script.popleft()
        if route.startswith("CHECK "):
            return Reply({"items": [], "metadata": {"resourceVersion": "1"}})
        return Stream() if route.startswith("WATCH ") else Reply(b"404 page not found\n", 404)


def _route(request: Request) -> str:
    if request.query.get("watch"):
        return f"WATCH {request.path}"
    return f"{'CHECK' if 'resourceVersionMatch' in request.query else request.method} {request.path}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, api: FakeApi, certificates: Certificates | None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.api = api
        self.context = _context(certificates) if certificates else None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The handshake belongs to the connection's own thread: a client that refuses us must not stop the others.
        wrapped = self.context.wrap_socket(request, server_side=True) if self.context else request
        with self._lock:
            self._open.add(wrapped)
        try:
            _Handler(wrapped, client_address, self)
        finally:
            with self._lock:
                self._open.discard(wrapped)
            _close(wrapped)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests."""

    def end(self) -> None:
        self.server_close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            _close(connection)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca))
    context.load_cert_chain(certificates.server)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        answer = cast(_Server, self.server).api.answer(self._request())
        if isinstance(answer, Reply):
            self._reply(answer)
        elif isinstance(answer, Stream):
            self._stream(answer)
        else:
            self.close_connection = True

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Tests look at ``requests`` instead."""

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = dict(parse_qsl(parts.query))
        body = json.loads(raw) if raw else None
        port = int(self.client_address[1])
        return Request(self.command, parts.path, query, dict(self.headers), body, self._user(), port,
                       self.headers.items())

    def _user(self) -> str | None:
        peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        subject = cast(Any, peer or {}).get("subject", ())
        return next((value for ((name, value),) in subject if name == "commonName"), None)

    def _reply(self, answer: Reply) -> None:
        content = answer.content()
        self.send_response(answer.status)
        length = len(content) if answer.length is None else answer.length
        for name, value in {"Content-Length": str(length), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = length != len(content)

    def _stream(self, answer: Stream) -> None:
        if answer.gate is not None:
            answer.gate.wait(WAIT)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = not answer.serve(self._write)

    def _write(self, raw: bytes) -> None:
        self.wfile.write(raw)
        self.wfile.flush()
