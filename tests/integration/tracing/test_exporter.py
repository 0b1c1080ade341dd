# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spans on their way to a collector: all that OTLP asks of a sender, and nobody waits for it."""

from __future__ import annotations

import json
import threading
import time
import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.composable.infra.controller.tracing import exporter
from ansible_collections.composable.infra.controller.tracing.exporter import OtlpTracer
from ansible_collections.composable.infra.controller.tracing.settings import trace_settings
from ansible_collections.composable.infra.controller.tracing.spans import root_id, span, trace_id
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.tests.integration.tracing.collector import Collector

UID = "7c1f9a52-3b1e-4c55-9d6f-0a1b2c3d4e5f"
TRACE = trace_id(UID)
PATIENCE = 60.0
Start = Callable[..., OtlpTracer]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and retries do not take their time."""
    monkeypatch.setattr(exporter, "DELAY_SECONDS", 0.02)
    monkeypatch.setattr(exporter, "RETRY", Backoff(0.01))


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A listener that takes everything that is right."""
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def start(collector: Collector) -> Iterator[Start]:
    """``start(EXPORTER_OTLP_COMPRESSION="gzip")``: a tracer that sends to the collector."""
    made: list[OtlpTracer] = []

    def tracer(**variables: str) -> OtlpTracer:
        named = {f"OTEL_{name}": value for name, value in variables.items()}
        named["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
        settings, problem = trace_settings(None, named, "test", "1.0")
        assert settings is not None, problem
        made.append(OtlpTracer(settings, "1.0"))
        return made[-1]

    yield tracer
    for each in made:
        each.stop()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about"
        threading.Event().wait(0.005)


def send(tracer: OtlpTracer, count: int = 1, uid: str = UID) -> None:
    for number in range(count):
        tracer.span(uid, "attach", time.time() - 1, time.time(), {"number": number, "node": "node-0"})


def test_a_claim_is_one_trace(collector: Collector, start: Start) -> None:
    tracer = start()
    tracer.span(UID, "plan", 1.0, 2.0, {"node": "node-0"})
    tracer.span(UID, "attach", 2.0, 3.0, {"model": "A100"}, "the pool is empty")
    tracer.root(UID, "claim", 0.5, 4.0, {})
    until(lambda: len(collector.trace(TRACE)) == 3, "the trace")
    assert collector.refused == []
    spans = {each["name"]: each for each in collector.trace(TRACE)}
    assert spans["claim"]["spanId"] == root_id(TRACE)
    assert {spans[name]["parentSpanId"] for name in ("plan", "attach")} == {root_id(TRACE)}
    assert spans["attach"]["status"] == {"code": 2, "message": "the pool is empty"}
    assert collector.resources[0]["service.name"] == "test"


def test_two_processes_join_one_trace(collector: Collector, start: Start) -> None:
    start(SERVICE_NAME="controllers").root(UID, "claim", 1.0, 9.0, {})
    start(SERVICE_NAME="agent").span(UID, "node Bound", 2.0, 3.0, {})
    until(lambda: len(collector.trace(TRACE)) == 2, "both spans")
    by_name = {each["name"]: each for each in collector.trace(TRACE)}
    assert by_name["node Bound"]["parentSpanId"] == by_name["claim"]["spanId"]
    assert {resource["service.name"] for resource in collector.resources} == {"controllers", "agent"}


def test_gzip_and_headers(collector: Collector, start: Start) -> None:
    send(start(EXPORTER_OTLP_COMPRESSION="gzip", EXPORTER_OTLP_HEADERS="authorization=Bearer%20t"))
    until(lambda: collector.spans, "a span")
    assert collector.headers[0]["content-encoding"] == "gzip"
    assert collector.headers[0]["authorization"] == "Bearer t"


def test_many_spans_are_few_requests(collector: Collector, start: Start) -> None:
    send(start(), 1000)
    until(lambda: len(collector.spans) == 1000, "all spans")
    assert len(collector.headers) < 20


@pytest.mark.parametrize("answer", [(429, {}, b""), (502, {}, b"<html>"), (503, {"Retry-After": "0"}, b""),
                                    (504, {}, b""), (0, {}, b"")], ids=["429", "502", "503", "504", "lost"])
def test_what_passes_is_repeated(collector: Collector, start: Start, answer: tuple[int, dict[str, str], bytes]) -> None:
    collector.answers = [answer, answer]
    tracer = start()
    send(tracer)
    until(lambda: collector.spans, "the span")
    assert (len(collector.headers), tracer.dropped) == (3, 0)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500])
def test_what_does_not_pass_is_not_repeated(collector: Collector, start: Start, status: int) -> None:
    """The client MUST NOT repeat any other 4xx or 5xx."""
    collector.answers = [(status, {}, b"{}")]
    tracer = start()
    send(tracer, 3)
    until(lambda: tracer.dropped == 3, "the drop")
    send(tracer)
    until(lambda: len(collector.spans) == 1, "the next batch")
    assert len(collector.headers) == 2


def test_a_wait_that_is_asked_for_is_kept(collector: Collector, start: Start) -> None:
    collector.answers = [(503, {"Retry-After": "1"}, b"")]
    tracer = start()
    began = time.monotonic()
    send(tracer)
    until(lambda: collector.spans, "the span")
    assert time.monotonic() - began >= 1.0


def test_a_part_that_is_rejected_is_counted_and_not_sent_again(collector: Collector, start: Start) -> None:
    said = {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}
    collector.answers = [(200, {}, json.dumps(said).encode())]
    tracer = start()
    send(tracer, 5)
    until(lambda: tracer.dropped == 2, "the count")
    assert len(collector.headers) == 1


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b'{"partialSuccess": 7}',
                                  b'{"partialSuccess": {"rejectedSpans": []}}'])
def test_an_answer_of_any_shape_is_no_harm(collector: Collector, start: Start, body: bytes) -> None:
    collector.answers = [(200, {}, body)]
    tracer = start()
    send(tracer)
    until(lambda: len(collector.headers) == 1, "the request")
    send(tracer)
    until(lambda: len(collector.spans) == 1, "the next one")
    assert tracer.dropped == 0


def test_without_a_collector_spans_are_dropped_and_nobody_waits(monkeypatch: pytest.MonkeyPatch,
                                                                caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(exporter, "TRY_SECONDS", 0.2)
    monkeypatch.setattr(exporter, "STOP_SECONDS", 0.2)
    gone = Collector()
    settings, _problem = trace_settings(gone.url, {}, "test", "1.0")
    gone.close()
    assert settings is not None
    tracer = OtlpTracer(settings, "1.0")
    send(tracer, exporter.QUEUE + 700)
    until(lambda: tracer.dropped >= 188, "the drop")
    tracer.stop()
    assert tracer.dropped > 0
    assert len([record for record in caplog.records if "traces are not sent" in record.message]) == 1


def test_the_last_spans_are_sent_at_the_end(monkeypatch: pytest.MonkeyPatch, collector: Collector,
                                            start: Start) -> None:
    monkeypatch.setattr(exporter, "DELAY_SECONDS", 60.0)
    tracer = start()
    send(tracer, 3)
    tracer.stop()
    assert len(collector.spans) == 3


def test_only_a_part_is_sent_where_only_a_part_is_wanted(collector: Collector, start: Start) -> None:
    tracer = start(TRACES_SAMPLER="traceidratio", TRACES_SAMPLER_ARG="0.5")
    low, high = (f"7c1f9a52-3b1e-4c55-9d{byte}-0a1b2c3d4e5f" for byte in ("10", "f0"))
    send(tracer, uid=high)
    send(tracer, uid=low)
    until(lambda: collector.spans, "a span")
    tracer.stop()
    assert {each["traceId"] for each in collector.spans} == {trace_id(low)}


@pytest.mark.parametrize("spoilt", [
    {"traceId": "00" * 16}, {"spanId": "xyz"}, {"kind": "SPAN_KIND_CLIENT"}, {"startTimeUnixNano": 7},
    {"trace_id": "a"}, {"attributes": [{"key": "n", "value": {"intValue": 3}}]},
    {"status": {"code": "STATUS_CODE_ERROR"}}])
def test_the_stand_in_refuses_what_a_collector_may(collector: Collector, start: Start, spoilt: dict[str, t.Any],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "span", lambda *args: {**span(*args), **spoilt})
    send(start())
    until(lambda: collector.refused, "the refusal")
    assert collector.spans == []
