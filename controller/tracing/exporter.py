# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ``Tracer`` that gives spans to the batch processor and the OTLP exporter of OpenTelemetry's
SDK.

Only ``start`` imports this module, and only if traces are wanted, because only the image has the
SDK. The SDK's own ``Tracer`` measures spans and makes their ids. Our spans have already ended, and
their ids come from the claim.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from .ids import CALLS, LONGEST_TEXT, is_sampled, root_id, trace_id
from .settings import TraceSettings

Attributes = Mapping[str, "str | int | float"]
SCOPE = "composable.infra"
# The most spans that wait for the exporter.
QUEUE = 2048
# Seconds for the last batches when the process stops.
STOP_SECONDS = 5.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
# This logger's warnings contain the value of a header, which may be a token.
logging.getLogger("opentelemetry.util.re").setLevel(logging.ERROR)


class OtlpTracer:
    """A ``Tracer`` that exports. Thread-safe. Stop it once."""

    enabled = True

    def __init__(self, settings: TraceSettings, version: str) -> None:
        """Start the exporter.

        ``version``: of the collection. Raises ValueError for a variable of the SDK that it cannot
        use.
        """
        self._ratio = settings.ratio
        self._resource, self._scope = Resource.create(dict(settings.resource)), InstrumentationScope(SCOPE, version)
        sender = OTLPSpanExporter(settings.url, headers=dict(settings.headers), timeout=settings.timeout,
                                  compression=Compression.Gzip if settings.gzip else Compression.NoCompression)
        self._exporter = _CountingExporter(sender)
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=QUEUE)

    @property
    def dropped(self) -> int:
        """Number of spans that were not sent."""
        return self._exporter.dropped

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Attributes, error: str = "") -> None:
        """Export one step of a claim.

        ``claim``: UID of the claim. ``began``, ``ended``: seconds since the epoch. ``error``: empty
        for none.
        """
        self._add(claim, name, began, ended, attributes, error, root=False)

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Attributes, error: str = "") -> None:
        """Export the whole way of a claim. The arguments are those of ``span``."""
        self._add(claim, name, began, ended, attributes, error, root=True)

    def stop(self) -> None:
        """Send the spans that are left, for STOP_SECONDS at most.

        A request in flight ends by its own timeout.
        """
        late = threading.Timer(STOP_SECONDS, self._exporter.shutdown)
        late.daemon = True
        late.start()
        self._processor.shutdown()
        late.cancel()

    def _add(self, claim: str, name: str, began: float, ended: float, attributes: Attributes, error: str,
             root: bool) -> None:
        trace = trace_id(claim)
        if not is_sampled(trace, self._ratio) or not self._exporter.admit():
            return
        above = _context(trace, root_id(trace))
        self._processor.on_end(ReadableSpan(
            name, context=above if root else _context(trace, secrets.token_hex(8)), parent=None if root else above,
            resource=self._resource, instrumentation_scope=self._scope,
            attributes={key: _cut(value) for key, value in attributes.items()},
            kind=SpanKind.CLIENT if name in CALLS else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, error[:LONGEST_TEXT]) if error else Status(StatusCode.UNSET),
            start_time=_nanoseconds(began), end_time=_nanoseconds(max(began, ended))))


class _CountingExporter(SpanExporter):
    """Count the spans that the exporter did not send, and those that found the queue full."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter, self._lock, self._ended = exporter, threading.Lock(), False
        self._waiting = self.dropped = 0

    def admit(self) -> bool:
        """Return whether the queue has room for one more span. If not, count the span."""
        with self._lock:
            room = self._waiting < QUEUE
            self._waiting += room
            self.dropped += not room
        return room

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        with self._lock:
            self._waiting -= len(spans)
        result = SpanExportResult.FAILURE if self._ended else self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            with self._lock:
                self.dropped += len(spans)
        return result

    def shutdown(self) -> None:
        """Send nothing more, and end the wait for a retry."""
        with self._lock:
            first, self._ended = not self._ended, True
        if first:
            self._exporter.shutdown()


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=_SAMPLED)


def _cut(value: str | int | float) -> str | int | float:
    return value[:LONGEST_TEXT] if isinstance(value, str) else value


def _nanoseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6)) * 1000
