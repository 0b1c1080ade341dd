# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for an OpenTelemetry collector: takes traces as OTLP/HTTP with protobuf, and refuses what it may refuse.

It says what is wrong in ``refused``. Source: github.com/open-telemetry/opentelemetry-proto, docs/specification.md
(OTLP/HTTP Request and Response), opentelemetry/proto/trace/v1/trace.proto and common.proto. Spans are shown as the
specification's JSON Protobuf Encoding has them: ids in hexadecimal digits, 64-bit numbers as text, enums as numbers.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import ssl
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Json = dict[str, t.Any]
MOST_BYTES = 20 * 1024 * 1024
IDS = ("traceId", "spanId", "parentSpanId")
VALUES = {"stringValue": str, "intValue": str, "doubleValue": float, "boolValue": bool}


class Collector:
    """Listens on a free port of loopback. ``answers``: (status, headers, body) to give in turn before it takes
    anything; ``spans``: what it took, in order; ``headers``: those of each request."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.spans: list[Json] = []
        self.resources: list[Json] = []
        self.refused: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if context else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def trace(self, trace_id: str) -> list[Json]:
        """The spans of one trace."""
        with self.lock:
            return [span for span in self.spans if span["traceId"] == trace_id]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """The answer to one request."""
        with self.lock:
            self.headers.append(headers)
            if self.answers:
                return self.answers.pop(0)
            try:
                found = _checked(path, headers, body)
            except (AssertionError, ValueError, KeyError, TypeError, DecodeError) as problem:
                self.refused.append(f"{type(problem).__name__}: {problem}")
                return 400, {}, json.dumps({"message": str(problem)}).encode()
            for resource, spans in found:
                self.resources.append(resource)
                self.spans += spans
            return 200, {}, b""


def _checked(path: str, headers: dict[str, str], body: bytes) -> list[tuple[Json, list[Json]]]:
    assert path == "/v1/traces", path
    assert headers["content-type"] == "application/x-protobuf", headers
    encoding = headers.get("content-encoding", "identity")
    assert encoding in ("identity", "gzip"), encoding
    data = ExportTraceServiceRequest.FromString(gzip.decompress(body) if encoding == "gzip" else body)
    assert len(body) <= MOST_BYTES
    found = MessageToDict(data, use_integers_for_enums=True)
    return [_checked_resource(each) for each in found["resourceSpans"]]


def _checked_resource(data: Json) -> tuple[Json, list[Json]]:
    resource = _attributes(data["resource"]["attributes"])
    assert resource["service.name"]
    spans = [span for scope in data["scopeSpans"] for span in scope["spans"]]
    assert spans, "an empty envelope"
    for scope in data["scopeSpans"]:
        assert set(scope["scope"]) == {"name", "version"}
    for span in spans:
        span.update({name: base64.b64decode(span[name]).hex() for name in IDS if name in span})
        _check_span(span)
    return resource, spans


def _check_span(span: Json) -> None:
    _check_id(span["traceId"], 32)
    _check_id(span["spanId"], 16)
    _check_id(str(span.get("parentSpanId", span["spanId"])), 16)
    assert span["name"]
    assert isinstance(span["name"], str)
    assert span["kind"] in range(1, 6)
    begin, end = (int(span[name]) for name in ("startTimeUnixNano", "endTimeUnixNano") if isinstance(span[name], str))
    assert 0 < begin <= end
    _attributes(span.get("attributes", []))
    assert span.get("status", {}).get("code", 0) in range(3)


def _check_id(text: str, digits: int) -> None:
    """All zero is no id."""
    assert re.fullmatch(f"[0-9a-f]{{{digits}}}", text), text
    assert int(text, 16), text


def _attributes(items: list[Json]) -> Json:
    found = {}
    for item in items:
        assert set(item) == {"key", "value"}, item
        assert item["key"], item
        ((kind, value),) = item["value"].items()
        assert isinstance(value, VALUES[kind]), item
        assert kind != "intValue" or re.fullmatch("-?[0-9]+", str(value))
        assert item["key"] not in found, f"{item['key']} is there twice"
        found[item["key"]] = value
    return found


class _Handler(BaseHTTPRequestHandler):
    """Answers POST only, and keeps connections."""

    protocol_version = "HTTP/1.1"
    timeout = 10.0
    collector: t.ClassVar[Collector]

    def do_POST(self) -> None:
        """Take one batch."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, more, answer = self.collector.take(self.path, headers, body)
        if status == 0:  # it ends without an answer
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(status)
        said = {"Content-Type": "application/x-protobuf", "Content-Length": str(len(answer)), **more}
        for name, value in said.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: t.Any) -> None:
        """Nothing."""
