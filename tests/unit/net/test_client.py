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
from ansible_collections.composable.infra.plugins.module_utils.net import http1
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.errors import BadHeader, BadResponse, NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import HttpConnection
from ansible_collections.composable.infra.plugins.module_utils.net.proxy import Proxy
from ansible_collections.composable.infra.tests.unit.net.http1_support import (
    Wire,
)

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
    assert wire.timeouts[0] == 2.0
    assert all(0 < seconds <= 2.0 for seconds in wire.timeouts)


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


def compressed(size: int) -> bytes:
    """A whole response whose body is gzip and unpacks to ``size`` blanks."""
    body = gzip.compress(b" " * size)
    return (f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def test_an_unpacked_body_is_as_long_as_a_body_may_be(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LONGEST_BODY", 1000)
    body = connect(Wire([compressed(1000)])).request("GET", "/", {}, None, SECONDS).body
    assert body == b" " * 1000
    with pytest.raises(NoResponse, match="longer than 1000 bytes") as lost:
        connect(Wire([compressed(1001)])).request("GET", "/", {}, None, SECONDS)
    assert lost.value.sent


def test_gzip_that_ends_in_the_middle_is_no_body(connect: Connect) -> None:
    body = gzip.compress(b'{"a": 1}')[:-9]
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with pytest.raises(NoResponse, match="not gzip"):
        connect(Wire([head + body])).request("GET", "/", {}, None, SECONDS)


@pytest.mark.parametrize("head", [b"Content-Length: 1001\r\n\r\n", b"\r\n",
                                  b"Transfer-Encoding: chunked\r\n\r\nfff\r\n"])
def test_a_body_that_is_too_long_is_not_read_to_its_end(connect: Connect, monkeypatch: pytest.MonkeyPatch,
                                                        head: bytes) -> None:
    monkeypatch.setattr(clients, "LONGEST_BODY", 1000)
    wire = Wire([b"HTTP/1.1 200 OK\r\n" + head, *[b" " * 500] * 9])
    with pytest.raises(NoResponse, match="longer than 1000 bytes") as lost:
        connect(wire).request("PATCH", "/", {}, b"{}", SECONDS)
    assert lost.value.sent
    assert wire.closed
    assert wire.left


class Dripping(Wire):
    """Sends one byte a second, each in time, without end."""

    def __init__(self, clock: list[float], head: bytes) -> None:
        super().__init__([head])
        self.clock = clock

    def recv(self, size: int, /) -> bytes:
        self.clock[0] += 1.0
        assert self.clock[0] < 100.0, "the reply is read for ever"
        return super().recv(size) or b" "


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
                                  b"HTTP/1.1 200 OK\r\nX: "])
def test_a_reply_that_drips_ends_when_the_request_has_had_its_time(connect: Connect, monkeypatch: pytest.MonkeyPatch,
                                                                   head: bytes) -> None:
    clock = [0.0]
    monkeypatch.setattr(f"{http1.__name__}.time.monotonic", lambda: clock[0])
    wire = Dripping(clock, head)
    with pytest.raises(NoResponse) as lost:
        connect(wire).request("PATCH", "/", {}, b"{}", Timeouts(1.0, 9.5))
    assert isinstance(lost.value.cause, TimeoutError)
    assert lost.value.sent
    assert wire.closed
    assert clock[0] == 10.0
    assert wire.timeouts[-1] == 0.5


def test_a_stream_has_no_end_of_its_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(f"{http1.__name__}.time.monotonic", lambda: clock[0])
    wire = Dripping(clock, b"HTTP/1.1 200 OK\r\n\r\n")
    stream = connect(wire).request("GET", "/", {}, None, Timeouts(1.0, 9.5), streamed=True).stream
    assert stream is not None
    stream.set_timeout(30.0)
    pieces = stream.pieces()
    assert b"".join(next(pieces) for _number in range(50)) == b" " * 49
    assert wire.timeouts[-1] == 30.0
