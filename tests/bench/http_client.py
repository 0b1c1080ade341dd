# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP client of this project beside urllib3: the same requests to one server over TLS on
loopback, in turn, in one thread.

The server is a separate process, so that only the client's CPU is counted. It answers with prepared
bytes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import ssl
import statistics
import tempfile
import threading
import time
import typing as t
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import urllib3

from ansible_collections.composable.infra.plugins.module_utils.net.client import USER_AGENT, HttpClient, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.tls import client_context
from ansible_collections.composable.infra.tests.integration.kube.bench_client import compact, pod
from ansible_collections.composable.infra.tests.integration.kube.certificates import (
    Certificates,
    make_certificates,
)

CALLS = 2000
PATH = "/api/v1/namespaces/default/pods/worker-0"
HEADERS = {"Authorization": f"Bearer {'x' * 900}", "Content-Type": "application/json"}
URLLIB3_HEADERS = {**HEADERS, "User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity"}
REQUESTS: dict[str, tuple[str, bytes | None]] = {
    "GET, 3 kB back": ("GET", None), "PATCH, 2 kB there, 3 kB back": ("PATCH", b"x" * 2000),
}

Call = Callable[[], bytes]


def compare(runs: int) -> list[dict[str, t.Any]]:
    """Return a row for each kind of request: medians over the runs, and the factors between the
    two.
    """
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        server = multiprocessing.Process(target=_serve, args=(theirs, certificates))
        server.start()
        try:
            url = f"https://127.0.0.1:{ours.recv()}"
            return [_row(name, url, certificates.ca, runs) for name in REQUESTS]
        finally:
            ours.send("end")
            server.join(20)


def _row(name: str, url: str, ca: Path, runs: int) -> dict[str, t.Any]:
    method, body = REQUESTS[name]
    seconds = Timeouts(5.0, 30.0)
    lean = HttpClient(url, context=client_context(ca_path=str(ca)))
    pool = urllib3.HTTPSConnectionPool(
        "127.0.0.1", int(url.rpartition(":")[2]), maxsize=64, ssl_context=client_context(ca_path=str(ca)))
    calls: dict[str, Call] = {
        "ours": lambda: lean.request(method, PATH, HEADERS, body, seconds).body,
        "urllib3": lambda: pool.request(
            method, PATH, body=body, headers=URLLIB3_HEADERS, retries=False, redirect=False).data,
    }
    if len({call() for call in calls.values()}) != 1:
        raise RuntimeError("the two clients read different bodies")
    found: dict[str, list[tuple[float, float]]] = {which: [] for which in calls}
    for _unused in range(runs):
        for which, call in calls.items():
            found[which].append(_measured(call))
    lean.close()
    pool.close()
    rows = {which: {"calls_per_second": statistics.median(f[0] for f in figures),
                    "cpu_microseconds": statistics.median(f[1] for f in figures)} for which, figures in found.items()}
    return {"name": name, "runs": runs, "calls": CALLS, **rows}


def _measured(call: Call) -> tuple[float, float]:
    """Return calls per second, and microseconds of this process's CPU per call."""
    began, cpu = time.perf_counter(), time.process_time()
    for _unused in range(CALLS):
        call()
    return CALLS / (time.perf_counter() - began), (time.process_time() - cpu) / CALLS * 1e6


def _serve(pipe: Pipe, certificates: Certificates) -> None:
    """Run the server's process until it gets the message to end."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    body = compact(pod(0))
    head = (b"HTTP/1.1 200 OK\r\nAudit-Id: 7e63fd31-0a5c-4d1b-9a52-c0de00000001\r\nCache-Control: no-cache, private\r\n"
            b"Content-Type: application/json\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n")
    response = head % len(body) + body
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            connection = listener.accept()[0]
            threading.Thread(target=_answer, args=(connection, context, response), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    pipe.send(listener.getsockname()[1])
    pipe.recv()


def _answer(connection: socket.socket, context: ssl.SSLContext, response: bytes) -> None:
    with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as tls:
        tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        while data := tls.recv(65536):
            received += data
            head, ended, rest = received.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if ended and len(rest) >= int(length or 0):
                received = rest[int(length or 0):]
                tls.sendall(response)
