# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections are kept, opened within their time, and a failure to open one is never taken for a lost request."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.transport import Limits
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Invalid, Unreachable
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, Hangup
from ansible_collections.composable.infra.tests.integration.kube.certificates import Certificates
from ansible_collections.composable.infra.tests.integration.kube.conftest import ClientFactory

DONE = {"metadata": {"name": "n0"}}
Serve = Callable[[socket.socket], None]


class RawServer:
    """Accepts connections, one after the other, and does with each what the test says."""

    def __init__(self, serve: Serve) -> None:
        self.accepted = 0
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(20)

    def _run(self) -> None:
        while True:
            try:
                connection, _unused = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            with connection:
                self._serve(connection)


Start = Callable[[Serve], RawServer]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[RawServer] = []

    def begin(serve: Serve) -> RawServer:
        made.append(RawServer(serve))
        return made[-1]

    yield begin
    for server in made:
        server.stop()


def request_of(connection: socket.socket) -> bytes:
    """The head and body of one request; empty when the client closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    return data


def test_one_connection_serves_many_requests(connect: ClientFactory, start: Start) -> None:
    def serve(connection: socket.socket) -> None:
        while request_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = start(serve)
    client = connect(host=f"http://127.0.0.1:{server.port}")
    for _unused in range(20):
        assert client.get(NODES, "n0") == {}
    assert server.accepted == 1
    client.close()


def test_connections_that_are_kept_warm_serve_the_next_requests(api: FakeApi, client: Client) -> None:
    api.on("GET /version", {})
    api.on("GET /api/v1/nodes/n0", DONE)
    client.warm(3)
    client.warm(3)
    ports = [request.port for request in api.sent("GET /version")]
    assert (len(ports), len(set(ports))) == (6, 3), "each of three connections was used twice"
    client.get(NODES, "n0")
    assert api.sent("GET /api/v1/nodes/n0")[0].port in ports


def test_connections_that_cannot_be_kept_warm_are_told_and_harm_nobody(api: FakeApi, client: Client) -> None:
    api.on("GET /version", {}, Hangup())
    api.on("GET /api/v1/nodes/n0", DONE)
    client.warm(1)
    with pytest.raises(Unreachable):
        client.warm(2)
    assert client.get(NODES, "n0")["metadata"] == {"name": "n0"}


def test_a_closed_connection_is_replaced_before_a_write(connect: ClientFactory, start: Start) -> None:
    closed = threading.Event()

    def serve(connection: socket.socket) -> None:
        request_of(connection)
        # It says nothing of closing, and closes.
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    server = start(serve)
    client = connect(host=f"http://127.0.0.1:{server.port}")
    for number in range(1, 4):
        closed.clear()
        assert client.create(NODES, DONE) == {}
        assert closed.wait(20)
        assert server.accepted == number


def test_what_a_request_looks_like(connect: ClientFactory, start: Start) -> None:
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        seen.append(request_of(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")

    server = start(serve)
    client = connect(host=f"http://127.0.0.1:{server.port}/base", token="tok")
    client.create(NODES, {"a": "\u00e4"})
    client.raw("GET", "/x y/\u00e4?a=%20&b=(c)")
    client.raw("POST", "/empty")
    assert seen[0].decode() == (
        f"POST /base/api/v1/nodes HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUser-Agent: composable.infra\r\n"
        "Accept: application/json\r\nAccept-Encoding: identity\r\nAuthorization: Bearer tok\r\n"
        'Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{"a":"\\u00e4"}'
    )
    assert seen[1].startswith(b"GET /base/x%20y/%C3%A4?a=%20&b=(c) HTTP/1.1\r\n")
    assert b"Content-" not in seen[1]
    assert b"Content-Length: 0\r\n" in seen[2]


@pytest.mark.parametrize("token", ["two\nlines", "\u20ac"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(connect: ClientFactory, token: str) -> None:
    with pytest.raises(ApiError, match="credentials have characters") as raised:
        connect(token=token).get(NODES, "n0")
    assert token not in str(raised.value)


def test_a_handshake_that_is_cut_off_was_surely_not_sent(connect: ClientFactory, start: Start) -> None:
    server = start(lambda connection: None)
    with pytest.raises(Unreachable, match=r"no answer from https://127") as raised:
        connect(host=f"https://127.0.0.1:{server.port}").create(NODES, DONE)
    assert not raised.value.sent
    # What was not sent is tried again.
    assert server.accepted == 3


def test_a_handshake_that_takes_too_long_was_surely_not_sent(connect: ClientFactory, start: Start) -> None:
    def serve(connection: socket.socket) -> None:
        while connection.recv(65536):
            continue

    server = start(serve)
    client = connect({"limits": Limits(connect=0.1, patience=0)}, host=f"https://127.0.0.1:{server.port}")
    with pytest.raises(Unreachable, match="could not be opened in time") as raised:
        client.create(NODES, DONE)
    assert not raised.value.sent


def test_a_server_that_speaks_no_tls_is_no_lost_request(connect: ClientFactory, start: Start) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    server = start(serve)
    with pytest.raises(Unreachable, match="no answer from") as raised:
        connect(host=f"https://127.0.0.1:{server.port}").create(NODES, DONE)
    assert not raised.value.sent


def test_a_server_that_wants_our_certificate_has_not_looked_at_the_request(
    connect: ClientFactory, start: Start, certificates: Certificates
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca))
    context.load_cert_chain(certificates.server)
    context.verify_mode = ssl.CERT_REQUIRED

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            context.wrap_socket(connection, server_side=True)

    server = start(serve)
    with pytest.raises(Unreachable, match=r"requires one: .*check client-certificate and client-key") as raised:
        connect(host=f"https://127.0.0.1:{server.port}").create(NODES, DONE)
    assert (raised.value.sent, raised.value.permanent) == (False, True)
    assert server.accepted == 1


def test_plain_text_sent_to_a_tls_server_is_its_answer(connect: ClientFactory, start: Start) -> None:
    def serve(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")

    server = start(serve)
    with pytest.raises(Invalid, match="HTTP request to an HTTPS server"):
        connect(host=f"http://127.0.0.1:{server.port}").get(NODES, "n0")


def test_something_else_than_http_is_told_as_such(connect: ClientFactory, start: Start) -> None:
    def serve(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(b"220 mail.test ESMTP\r\n\r\n")

    server = start(serve)
    with pytest.raises(Unreachable, match="does not begin like HTTP") as raised:
        connect(host=f"http://127.0.0.1:{server.port}").create(NODES, DONE)
    assert raised.value.sent
    assert server.accepted == 1


def test_an_answer_before_the_whole_request_is_taken(
    connect: ClientFactory, start: Start, certificates: Certificates
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            size = len(request_of(tls))
            tls.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
            while size < 1_000_000:
                size += len(tls.recv(65536))

    server = start(serve)
    with pytest.raises(ApiError, match="HTTP 413: big"):
        connect(host=f"https://127.0.0.1:{server.port}").create(NODES, {"note": "x" * 1_000_000})


def test_watches_do_not_use_up_what_requests_keep(api: FakeApi, connect: ClientFactory) -> None:
    api.on("GET /api/v1/nodes/n0", DONE)
    client = connect({"pool": 1})
    watches = [client.watch(NODES, "1") for _unused in range(3)]
    for watch in watches:
        watch.open()
        assert client.get(NODES, "n0") == DONE
    for watch in watches:
        watch.close()
        assert list(watch) == []
    assert client.get(NODES, "n0") == DONE
