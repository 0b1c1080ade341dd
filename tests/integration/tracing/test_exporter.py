# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a collector gets of a claim, by the SDK of OpenTelemetry, and that nobody waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.composable.infra.controller.tracing import exporter
from ansible_collections.composable.infra.controller.tracing.exporter import OtlpTracer
from ansible_collections.composable.infra.controller.tracing.ids import root_id, trace_id
from ansible_collections.composable.infra.controller.tracing.settings import trace_settings
from ansible_collections.composable.infra.tests.integration.tracing.collector import Collector

UID = "7c1f9a52-3b1e-4c55-9d6f-0a1b2c3d4e5f"
TRACE = trace_id(UID)
PATIENCE = 60.0
Start = Callable[..., OtlpTracer]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches do not take their time."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")


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


def test_a_collector_that_is_busy_is_asked_again(collector: Collector, start: Start) -> None:
    collector.answers = [(503, {"Retry-After": "0"}, b"")]
    tracer = start()
    send(tracer)
    until(lambda: collector.spans, "the span")
    assert (len(collector.headers), tracer.dropped) == (2, 0)


def test_what_the_collector_refuses_is_dropped_and_counted(collector: Collector, start: Start) -> None:
    collector.answers = [(401, {}, b"")]
    tracer = start()
    send(tracer, 3)
    until(lambda: tracer.dropped == 3, "the drop")
    send(tracer)
    until(lambda: len(collector.spans) == 1, "the next batch")
    assert len(collector.headers) == 2


def test_fields_have_the_types_of_otlp(collector: Collector, start: Start) -> None:
    tracer = start()
    tracer.span(UID, "attach", 1767323045.678901, 1767323046.0, {"node": "n", "tries": 3, "share": 0.5}, "no")
    tracer.span(UID, "plan", 10.0, 5.0, {})
    until(lambda: len(collector.spans) == 2, "both spans")
    made = {each["name"]: each for each in collector.spans}
    assert made["attach"]["startTimeUnixNano"] == "1767323045678901000"
    assert (made["attach"]["kind"], made["attach"]["status"]) == (3, {"code": 2, "message": "no"})
    assert made["attach"]["attributes"] == [{"key": "node", "value": {"stringValue": "n"}},
                                            {"key": "tries", "value": {"intValue": "3"}},
                                            {"key": "share", "value": {"doubleValue": 0.5}}]
    assert made["plan"]["kind"] == 1
    assert made["plan"]["startTimeUnixNano"] == made["plan"]["endTimeUnixNano"], "an end is never before its beginning"
    assert made["plan"]["spanId"] != made["attach"]["spanId"]


def test_long_texts_of_others_are_cut(collector: Collector, start: Start) -> None:
    start().span(UID, "attach", 1.0, 2.0, {"said": "x" * 10_000}, "y" * 10_000)
    until(lambda: collector.spans, "the span")
    (made,) = collector.spans
    assert len(made["attributes"][0]["value"]["stringValue"]) == len(made["status"]["message"]) == 1024


def test_without_a_collector_spans_are_dropped_and_nobody_waits(monkeypatch: pytest.MonkeyPatch,
                                                                caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(exporter, "STOP_SECONDS", 0.2)
    gone = Collector()
    settings, _problem = trace_settings(gone.url, {}, "test", "1.0")
    gone.close()
    assert settings is not None
    tracer = OtlpTracer(settings, "1.0")
    send(tracer, exporter.QUEUE + 700)
    until(lambda: tracer.dropped >= 188, "the drop")
    tracer.stop()
    assert tracer.dropped == exporter.QUEUE + 700
    assert [record for record in caplog.records if "encountered while exporting spans batch" in record.getMessage()]


def test_the_last_spans_are_sent_at_the_end(monkeypatch: pytest.MonkeyPatch, collector: Collector,
                                            start: Start) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
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
