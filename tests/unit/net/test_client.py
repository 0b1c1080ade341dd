# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes out as a request, what comes back as a response, and what is known when none comes."""

from __future__ import annotations

import gzip
import socket
import ssl
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net import client as clients
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.errors import BadHeader, BadResponse, NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import HttpConnection
from ansible_collections.composable.infra.plugins.module_utils.net.proxy import Proxy
from ansible_collections.composable.infra.tests.unit.net.test_http1 import Wire

OK = b"HTTP/1.1 200 OK\r\nX-Odd: a\r\nContent-Length: 2\r\n\r\n{}"
SECONDS = Timeouts(1.0, 2.0)


class Failing(Wire):
    """The server closes it while a request is sent; what it said before is found where a response would begin."""

    def __init__(self, problem: OSError, broken: type[OSError]) -> None:
        super().__init__([])
        self.problem, self.broken = problem, broken

    def recv(self, size: int, /) -> bytes:
        raise self.problem

    def sendall(self, data: bytes, /) -> None:
        raise self.broken


Connect = Callable[..., HttpClient]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """A client whose connections are the given wires."""

    def make(*wires: Wire, url: str = "https://api.test/base/", proxy: Proxy | None = None) -> HttpClient:
        left = list(wires)

        class Dialer:
            def __init__(self, *_given: object) -> None:
                """Wires are ready."""

            def dial(self, _timeout: float) -> HttpConnection:
                return HttpConnection(left.pop(0))

        monkeypatch.setattr(clients, "Dialer", Dialer)
        context = ssl.create_default_context() if url.startswith("https:") else None
        return HttpClient(url, context=context, proxy=proxy)

    return make


def test_a_request_goes_out_in_one_piece_and_a_response_has_status_headers_and_body(connect: Connect) -> None:
    wire = Wire([OK])
    response = connect(wire).request("PATCH", "/a b?c=%20", {"If-Match": '"7"'}, b"{}", SECONDS)
    assert (response.status, response.headers["x-odd"], response.body, response.stream) == (200, "a", b"{}", None)
    assert wire.sent == [
        b"PATCH /base/a%20b?c=%20 HTTP/1.1\r\nHost: api.test\r\nUser-Agent: composable.infra\r\n"
        b"Accept: application/json\r\nAccept-Encoding: identity\r\nIf-Match: \"7\"\r\nContent-Length: 2\r\n\r\n{}"
    ]
    assert wire.timeouts == [2.0]


def test_a_proxy_is_told_the_whole_url_of_a_plain_request(connect: Connect) -> None:
    wire = Wire([OK])
    proxy = Proxy.parse("http://ann:pw@p:3128")
    connect(wire, url="http://nec.test:8080/cdim", proxy=proxy).request("GET", "/nodes", {}, None, SECONDS)
    head = wire.sent[0].decode()
    assert head.startswith("GET http://nec.test:8080/cdim/nodes HTTP/1.1\r\nHost: nec.test:8080\r\n")
    assert proxy.header in head


@pytest.mark.parametrize("value", ["two\nlines", "a\r\nX-More: b", "\u20ac", "nul\0"])
def test_a_header_that_no_request_can_carry_is_named_and_nothing_is_sent(connect: Connect, value: str) -> None:
    wire = Wire([OK])
    with pytest.raises(NoResponse, match="If-Match has characters") as lost:
        connect(wire).request("GET", "/", {"If-Match": value}, None, SECONDS)
    assert isinstance(lost.value.cause, BadHeader)
    assert value not in str(lost.value)
    assert not lost.value.sent
    assert wire.sent == []


@pytest.mark.parametrize("coding", ["gzip", "X-GZIP"])
def test_a_compression_that_was_not_asked_for_is_undone(connect: Connect, coding: str) -> None:
    body = gzip.compress(b'{"a": 1}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert connect(Wire([head + body])).request("GET", "/", {}, None, SECONDS).body == b'{"a": 1}'


def test_a_compression_that_is_none_is_no_response(connect: Connect) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
    with pytest.raises(NoResponse, match="not gzip") as lost:
        connect(Wire([raw])).request("GET", "/", {}, None, SECONDS)
    assert isinstance(lost.value.cause, BadResponse)
    assert lost.value.sent


class Quiet(Wire):
    """Has the number of something that never becomes readable: it has not been closed by the server."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(pieces)
        self.ends = socket.socketpair()

    def fileno(self) -> int:
        return self.ends[0].fileno()

    def close(self) -> None:
        super().close()
        for end in self.ends:
            end.close()


def test_a_connection_serves_the_next_request(connect: Connect) -> None:
    wire = Quiet([OK, OK])
    client = connect(wire)
    assert [client.request("GET", "/", {}, None, SECONDS).status for _unused in range(2)] == [200, 200]
    assert len(wire.sent) == 2
    assert not wire.closed
    client.close()
    assert wire.closed


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL] alert")
    error.reason = reason
    return error


@pytest.mark.parametrize("broken", [BrokenPipeError, ConnectionResetError, ssl.SSLEOFError])
@pytest.mark.parametrize(
    ("problem", "sent"),
    [
        (ConnectionResetError("gone"), True), (TimeoutError(), True), (alert("SSLV3_ALERT_HANDSHAKE_FAILURE"), True),
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), False), (alert("TLSV1_ALERT_UNKNOWN_CA"), False),
    ],
)
def test_a_lost_request_had_been_sent_unless_the_server_refused_us(
    connect: Connect, problem: OSError, sent: bool, broken: type[OSError]
) -> None:
    wire = Failing(problem, broken)
    with pytest.raises(NoResponse) as lost:
        connect(wire).request("POST", "/", {}, b"{}", SECONDS)
    assert (lost.value.cause, lost.value.sent) == (problem, sent)
    assert wire.closed


def test_a_stream_is_left_to_the_caller_and_anything_but_200_is_not(connect: Connect) -> None:
    open_ended = Wire([b"HTTP/1.1 200 OK\r\n\r\nsome"])
    refused = Wire([b"HTTP/1.1 410 Gone\r\nContent-Length: 1\r\n\r\nx"])
    client = connect(open_ended, refused)
    response = client.request("GET", "/", {}, None, SECONDS, streamed=True)
    assert response.stream is not None
    assert b"".join(response.stream.pieces()) == b"some"
    response = client.request("GET", "/", {}, None, SECONDS, streamed=True)
    assert (response.status, response.body, response.stream) == (410, b"x", None)
    assert not open_ended.closed
