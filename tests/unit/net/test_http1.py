# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer is read to its exact end however the network cuts it, and what is no HTTP/1.1 is never taken for one."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net import http1
from ansible_collections.composable.infra.plugins.module_utils.net.client import LONGEST_BODY
from ansible_collections.composable.infra.plugins.module_utils.net.errors import BadResponse
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import HttpConnection
from ansible_collections.composable.infra.tests.unit.net.http1_support import (
    Wire,
)

OK = b"HTTP/1.1 200 OK\r\n"


def answer(*pieces: bytes) -> tuple[int, dict[str, str], bytes, HttpConnection]:
    connection = HttpConnection(Wire(pieces))
    status, headers = connection.ask(b"request", 1)
    return status, headers, connection.read(LONGEST_BODY), connection


def chunked(body: bytes, rng: random.Random, trailer: bytes = b"") -> bytes:
    made = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    while body:
        size = rng.randrange(1, 2 * len(body))
        piece, body = body[:size], body[size:]
        made += rng.choice((b"%x", b"%X", b"000%x", b"%x;name=value")) % len(piece) + b"\r\n" + piece + b"\r\n"
    return made + b"0\r\n" + trailer + b"\r\n"


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    places = sorted(rng.randrange(len(data) + 1) for _unused in range(rng.randrange(12)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def test_a_counted_body() -> None:
    status, headers, body, connection = answer(OK + b"Content-Length: 5\r\nX-Odd:  a b \r\n\r\nhello")
    assert (status, body) == (200, b"hello")
    assert headers == {"content-length": "5", "x-odd": "a b"}
    assert connection.reusable


def test_the_request_goes_out_in_one_piece_and_timeouts_are_set_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{http1.__name__}.time.monotonic", lambda: 0.0)
    wire = Wire([OK + b"Content-Length: 0\r\n\r\n"] * 3)
    connection = HttpConnection(wire)
    for seconds in (5.0, 5.0, 7.0):
        connection.ask(b"head and body", seconds)
        assert connection.read(LONGEST_BODY) == b""
    assert wire.sent == [b"head and body"] * 3
    assert wire.timeouts == [5.0, 7.0]


def test_any_cutting_of_any_body_reads_the_same(rng: random.Random) -> None:
    for _unused in range(300):
        wanted = rng.randbytes(rng.randrange(60))
        counted = OK + b"content-length: %d\r\n\r\n%s" % (len(wanted), wanted)
        trailer = rng.choice((b"", b"", b"X-Sum: 1\r\n", b"A: 1\r\nB: 2\r\n"))
        for raw in (counted, chunked(wanted, rng, trailer)):
            status, _headers, body, connection = answer(*cut(raw, rng))
            assert (status, body, connection.reusable) == (200, wanted, True)


def test_whatever_is_missing_at_the_end_is_an_error(rng: random.Random) -> None:
    for raw in (OK + b"Content-Length: 9\r\n\r\nsome text", chunked(b"some text", rng)):
        for length in range(len(raw)):
            with pytest.raises(ConnectionError):
                answer(raw[:length])


def test_a_connection_serves_one_answer_after_the_other(rng: random.Random) -> None:
    bodies = [rng.randbytes(n) for n in range(20)]
    connection = HttpConnection(Wire([chunked(body, rng) for body in bodies]))
    for body in bodies:
        connection.ask(b"", 1)
        assert not connection.reusable
        assert connection.read(LONGEST_BODY) == body
        assert connection.reusable


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    _status, _headers, body, connection = answer(OK + b"\r\n", b"some ", b"text")
    assert body == b"some text"
    assert not connection.reusable
    assert answer(OK + b"\r\n")[2] == b""


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body(status: int) -> None:
    head = b"HTTP/1.1 %d None\r\nContent-Length: 7\r\n\r\n" % status
    _status, _headers, body, connection = answer(head)
    assert body == b""
    assert connection.reusable


def test_answers_on_the_way_are_skipped() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    status, headers, body, _unused = answer(early + OK + b"Content-Length: 1\r\n\r\nx")
    assert (status, headers, body) == (200, {"content-length": "1"}, b"x")


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: foo, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
    ],
)
def test_the_server_says_whether_it_keeps_the_connection(head: bytes, kept: bool) -> None:
    assert answer(head + b"Content-Length: 0\r\n\r\n")[3].reusable is kept


def test_bytes_after_the_answer_make_the_connection_useless() -> None:
    assert not answer(OK + b"Content-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n")[3].reusable


def test_a_body_that_is_not_read_to_its_end_makes_the_connection_useless() -> None:
    connection = HttpConnection(Wire([OK + b"Content-Length: 4\r\n\r\nab", b"cd"]))
    connection.ask(b"", 1)
    assert next(connection.pieces()) == b"ab"
    assert not connection.reusable


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 999 x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b": no name\r\n\r\n",
        OK + b"Folded: a\r\n b: c\r\n\r\n",
        OK + b"Blank : a\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1_0\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"t" * 2000,
        b"x" * 100_000,
    ],
)
def test_what_is_no_http_is_refused(raw: bytes) -> None:
    with pytest.raises(BadResponse):
        answer(raw)


def test_a_wrong_byte_gives_an_answer_or_a_known_error(rng: random.Random) -> None:
    for _unused in range(200):
        raw = bytearray(chunked(b"some text", rng))
        raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            answer(*cut(bytes(raw), rng))
        except (BadResponse, ConnectionError):
            continue


@pytest.fixture
def ends() -> Iterator[tuple[HttpConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    connection = HttpConnection(ours)
    yield connection, theirs
    connection.close()
    theirs.close()


def test_a_connection_that_was_closed_or_spoken_on_is_not_quiet(ends: tuple[HttpConnection, socket.socket]) -> None:
    connection, server = ends
    assert connection.quiet()
    server.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert not connection.quiet()


def test_a_closed_connection_is_noticed(ends: tuple[HttpConnection, socket.socket]) -> None:
    connection, server = ends
    server.close()
    assert not connection.quiet()


def test_cut_wakes_a_reader(ends: tuple[HttpConnection, socket.socket]) -> None:
    connection, server = ends
    server.sendall(OK + b"Content-Length: 9\r\n\r\nsome")
    connection.ask(b"", 60)
    failures: list[BaseException] = []

    def read() -> None:
        try:
            connection.read(LONGEST_BODY)
        except ConnectionError as problem:
            failures.append(problem)

    thread = threading.Thread(target=read)
    thread.start()
    connection.cut()
    thread.join(20)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_an_early_answer_is_read_though_the_request_could_not_be_sent(
    ends: tuple[HttpConnection, socket.socket],
) -> None:
    connection, server = ends
    server.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
    server.shutdown(socket.SHUT_RDWR)
    assert connection.ask(b"x" * 10_000_000, 20)[0] == 413
    assert connection.read(LONGEST_BODY) == b"big"
