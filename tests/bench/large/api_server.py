# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the API server of a large cluster: lists in pages, and watches that begin with the
list or stay silent.

It has no admission, no storage and no events of its own. Writes are answered with 403 and counted.
Like the API server, it sends ``managedFields``, leaves apiVersion and kind out of the items of a
list, and ends the first events of a streaming list (KEP-3157) with a bookmark with the annotation
``k8s.io/initial-events-end``.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import threading
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection as Pipe
from urllib.parse import parse_qs, urlsplit

from ansible_collections.composable.infra.tests.bench.large import objects

VERSION = "1000"
KINDS = {"nodes": ("v1", "Node"), "pods": ("v1", "Pod"), "namespaces": ("v1", "Namespace"),
         "leases": ("coordination.k8s.io/v1", "Lease"), "resourceclaims": ("resource.k8s.io/v1", "ResourceClaim"),
         "resourceslices": ("resource.k8s.io/v1", "ResourceSlice"),
         "deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
         "composabilityrequests": ("cro.hpsys.ibm.ie.com/v1alpha1", "ComposabilityRequest"),
         "composableresources": ("cro.hpsys.ibm.ie.com/v1alpha1", "ComposableResource")}
_dumps = json.JSONEncoder(separators=(",", ":")).encode


class _Handler(BaseHTTPRequestHandler):
    """One connection. The class has the objects of the cluster, and the writes that came."""

    protocol_version = "HTTP/1.1"
    cluster: t.ClassVar[dict[str, tuple[int, t.Callable[[int], objects.Json]]]] = {}
    writes: t.ClassVar[list[str]] = []
    ended = threading.Event()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Do nothing, since the log is not used."""

    def do_GET(self) -> None:
        """Answer with a page of a list, or a watch."""
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        plural = url.path.rpartition("/")[2]
        if plural not in self.cluster:
            self._reply(404, b"{}")
        elif query.get("watch"):
            self._watch(plural, bool(query.get("sendInitialEvents")))
        else:
            self._reply(200, self._page(plural, int(query.get("limit", 10**9)), int(query.get("continue", 0))))

    def _page(self, plural: str, limit: int, first: int) -> bytes:
        count, made = self.cluster[plural]
        end = min(count, first + limit)
        meta = {"resourceVersion": VERSION, **({"continue": str(end)} if end < count else {})}
        return _dumps({"metadata": meta, "items": [made(i) for i in range(first, end)]}).encode()

    def _watch(self, plural: str, whole: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            for line in self._events(plural) if whole else ():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
            self.ended.wait()

    def _events(self, plural: str) -> Iterator[bytes]:
        count, made = self.cluster[plural]
        group, kind = KINDS[plural]
        said = {"apiVersion": group, "kind": kind}
        for i in range(count):
            yield _dumps({"type": "ADDED", "object": {**said, **made(i)}}).encode() + b"\n"
        meta = {"resourceVersion": VERSION, "annotations": {"k8s.io/initial-events-end": "true"}}
        yield _dumps({"type": "BOOKMARK", "object": {**said, "metadata": meta}}).encode() + b"\n"

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.writes.append(f"{self.command} {self.path}")
        self._reply(403, b'{"kind":"Status","status":"Failure","reason":"Forbidden","message":"a stand-in","code":403}')

    do_POST = do_PATCH = do_PUT = do_DELETE = _refuse

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _serve(pipe: Pipe, nodes: int) -> None:
    """Run the server's process until it gets the message to end, then send the list of writes."""
    _Handler.cluster = objects.kinds(nodes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_port)
    pipe.recv()
    pipe.send(list(_Handler.writes))
    _Handler.ended.set()
    server.shutdown()


@contextlib.contextmanager
def running(nodes: int, writes: list[str]) -> Iterator[str]:
    """Yield the URL of a stand-in with ``nodes`` nodes in a separate process. At the end ``writes``
    gets its writes.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, nodes), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
        ours.send("end")
        writes += ours.recv()
    finally:
        process.terminate()
        process.join(10)
