# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A manager that says whatever a test wants, over real TLS: what no well-behaved emulator would answer."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import socket
import ssl
import threading
import time
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

TENANT: t.Final = "7e63fd31-0a5c-4d1b-9a52-c0de00000001"
PASSWORD: t.Final = "p4ss/w rd+0f&mine"
CLIENT_SECRET: t.Final = "cl1ent-s3cret-of-mine"


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


TOKEN: t.Final = f"{_part({'alg': 'HS256'})}.{_part({'exp': 4102444800})}.c2lnbmF0dXJl"


@dataclass(frozen=True)
class Answer:
    """``body``: bytes as they are, anything else as JSON. ``cut``: bytes of the body left out before closing.

    ``drop``: close without a word. ``hold``: wait for the test's end first.
    """

    status: int = 200
    body: t.Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    drop: bool = False
    hold: bool = False


@dataclass(frozen=True)
class Asked:
    """A request as it came. ``number`` counts all but logins, from 1."""

    method: str
    path: str
    body: bytes
    authorization: str | None
    number: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_login(self) -> bool:
        return "/id_manager/" in self.path


Script = Callable[[Asked], Answer]


def login(_asked: Asked) -> Answer:
    """A login that succeeds."""
    return Answer(body={"access_token": TOKEN, "expires_in": 300})


class ScriptedManager:
    """``script`` answers every request; logins succeed unless ``script`` is told to handle them (``logins``).

    ``client_ca``: clients must show a certificate that this PEM file vouches for.
    """

    def __init__(self, files: Path, script: Script, host: str = "127.0.0.1", client_ca: Path | None = None) -> None:
        self.asked: list[Asked] = []
        self.script = script
        self.released = threading.Event()
        self.ca_path = str(files / "ca.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files / "server.pem", files / "server.key")
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        self._server = _Server((host, 0), _handler(self))
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def calls(self) -> list[Asked]:
        """Requests other than logins."""
        return [asked for asked in self.asked if not asked.is_login]

    def options(self, **more: t.Any) -> dict[str, t.Any]:
        """For FabricConfig."""
        return {
            "endpoint": "https://{}:{}".format(*self._server.server_address), "tenant": TENANT, "username": "user",
            "password": PASSWORD, "realm": "composable", "client_id": "client", "client_secret": CLIENT_SECRET,
            "ca_path": self.ca_path, **more,
        }

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that goes away is no news."""


def _handler(manager: ScriptedManager) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            number = len(manager.calls) + 1
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, body, self.headers.get("Authorization"), number, headers)
            manager.asked.append(asked)
            self.say(manager.script(asked))

        def say(self, answer: Answer) -> None:
            if answer.hold:
                manager.released.wait(30)
            if answer.drop or answer.hold:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) - answer.cut])
            self.close_connection = self.close_connection or bool(answer.cut)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: t.Any) -> None:
            """Say nothing."""

    return Handler


class Proxy:
    """A server on a free port of loopback and its thread, until ``close``."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class ForwardProxy(Proxy):
    """An HTTP proxy for plain addresses: takes whole URLs, and keeps them. Every host is loopback to it."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def forward(self) -> None:
                outer.urls.append(self.path)
                parts = urlsplit(self.path)
                far = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=10)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                where = f"{parts.path}?{parts.query}" if parts.query else parts.path
                far.request(self.command, where, body, {"Content-Type": "application/json"})
                reply = far.getresponse()
                data = reply.read()
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.headers["Content-Type"])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                far.close()

            do_GET = do_POST = forward

            def log_message(self, format: str, *args: t.Any) -> None:
                """Say nothing."""

        super().__init__(Handler)


class ConnectProxy(Proxy):
    """An HTTP proxy that knows CONNECT only; keeps the requests for tunnels. Every host is loopback to it."""

    def __init__(self) -> None:
        self.tunnels: list[tuple[str, str | None]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                outer.tunnels.append((self.path, self.headers.get("Proxy-Authorization")))
                with socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2]))) as far:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=_pump, args=(far, self.connection))
                    back.start()
                    _pump(self.connection, far)
                    back.join()

            def log_message(self, format: str, *args: t.Any) -> None:
                """Say nothing."""

        super().__init__(Handler)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def deadline(seconds: float = 15.0) -> Callable[[], bool]:
    """Tells whether time is left."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end
