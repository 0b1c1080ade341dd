# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hops are measured from where they began, and only what is traced costs what a trace costs."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
    Withdrawn,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime import claim_steps as module
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.claim_steps import ClaimSteps
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.recorded_metrics import RecordedMetrics
from ansible_collections.composable.infra.tests.unit.reconcile.recorded_spans import RecordedSpans

CLAIM = ClaimRef("default/train", "uid-train")


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """At 100 s."""
    return Clock()


@pytest.fixture
def spans() -> RecordedSpans:
    """None yet."""
    return RecordedSpans()


@pytest.fixture
def metrics() -> RecordedMetrics:
    """Nothing measured."""
    return RecordedMetrics()


@pytest.fixture
def steps(metrics: RecordedMetrics, spans: RecordedSpans, clock: Clock) -> ClaimSteps:
    """Measured and traced."""
    return ClaimSteps(metrics, spans, "fm", clock)


def test_a_hop_takes_from_its_beginning_to_its_end(steps: ClaimSteps, metrics: RecordedMetrics, spans: RecordedSpans,
                                                   clock: Clock) -> None:
    steps.begin("slice", "gpu-a")
    clock.now = 102.5
    steps.end("slice", "gpu-a", [CLAIM], "direct", node="node-0")
    assert metrics.observed("step_duration_seconds", step="slice", handover="direct") == [2.5]
    (span,) = spans.spans
    assert (span.claim, span.name, span.began, span.ended, span.root) == ("uid-train", "slice", 100.0, 102.5, False)
    assert dict(span.attributes) == {"node": "node-0", "k8s.namespace.name": "default",
                                     "composable.claim.name": "train", "composable.claim.uid": "uid-train"}


def test_step_without_begin_is_not_measured(steps: ClaimSteps, metrics: RecordedMetrics, spans: RecordedSpans) -> None:
    steps.end("slice", "gpu-a", [CLAIM])
    assert (metrics.observed("step_duration_seconds", step="slice", handover="none"), spans.spans) == ([], [])


def test_it_ends_once_and_begins_once(steps: ClaimSteps, metrics: RecordedMetrics, clock: Clock) -> None:
    steps.begin("gate", "pod")
    clock.now = 101.0
    steps.begin("gate", "pod")
    clock.now = 103.0
    steps.end("gate", "pod", [])
    steps.end("gate", "pod", [])
    assert metrics.observed("step_duration_seconds", step="gate", handover="none") == [3.0]


def test_whoever_ends_it_first_begins_what_follows(steps: ClaimSteps, metrics: RecordedMetrics, clock: Clock) -> None:
    steps.end("gate", "pod", [], then="bind")
    assert steps.began("bind", "pod") == 0.0, "this process did not see the step begin"
    steps.begin("gate", "pod")
    clock.now = 101.0
    steps.end("gate", "pod", [], then="bind")
    clock.now = 103.0
    steps.end("gate", "pod", [], then="bind")
    steps.end("bind", "pod", [])
    steps.end("gate", "pod", [], then="bind")
    observed = [metrics.observed("step_duration_seconds", step=step, handover="none") for step in ("gate", "bind")]
    assert (observed, steps.began("bind", "pod")) == ([[1.0], [2.0]], 0.0)


def test_clock_that_was_set_back_gives_no_time(steps: ClaimSteps, metrics: RecordedMetrics, clock: Clock) -> None:
    steps.begin("gate", "pod")
    clock.now = 50.0
    steps.end("gate", "pod", [])
    assert metrics.observed("step_duration_seconds", step="gate", handover="none") == [0.0]


def test_failed_step_is_a_span_without_time(steps: ClaimSteps, metrics: RecordedMetrics, spans: RecordedSpans) -> None:
    steps.took("attach", [CLAIM], 90.0, error="the pool is empty", model="A100")
    assert metrics.observed("step_duration_seconds", step="attach", handover="none") == []
    assert [(span.name, span.error) for span in spans.spans] == [("attach", "the pool is empty")]


def test_the_whole_way_begins_with_the_claim(steps: ClaimSteps, spans: RecordedSpans) -> None:
    raw = objects.claim("train")
    raw["metadata"]["creationTimestamp"] = "1970-01-01T00:01:30Z"
    steps.over([read_claim(raw)], node="node-0")
    (span,) = spans.spans
    assert (span.root, span.name, span.began, span.ended) == (True, "claim", 90.0, 100.0)


def test_nothing_is_traced_for_nobody(metrics: RecordedMetrics) -> None:
    steps = ClaimSteps(metrics)
    steps.took("attach", [CLAIM], 0.0)
    assert len(metrics.observed("step_duration_seconds", step="attach", handover="none")) == 1
    assert not steps.tracer.enabled


def test_hops_of_a_served_claim_are_its_timeline(clock: Clock) -> None:
    steps = ClaimSteps(clock=clock)
    steps.took("attach", [CLAIM], 90.0, 95.0)
    steps.took("attach", [CLAIM], 90.0, 96.0, error="refused")
    steps.over([read_claim(objects.claim("train"))], node="node-0")
    found = steps.timelines.of("uid-train")
    assert found is not None
    assert (found.node, [(span.step, span.began, span.ended) for span in found.spans]) == (
        "node-0", [("attach", 90.0, 95.0)])


def test_timeline_has_the_hop_whose_follower_ends_on_another_thread(clock: Clock) -> None:
    """As the watch tells of a pod's binding while its gate's opener is still busy with the end of the gate."""
    claim = objects.claim("train")

    class Interrupted(RecordedMetrics):
        def observe(self, name: str, seconds: float, **labels: str) -> None:
            super().observe(name, seconds, **labels)
            if labels.get("step") == "gate":
                measured.end("bind", "pod", [ClaimRef.of(claim)])
                measured.over([read_claim(claim)], node="node-0")

    measured = ClaimSteps(Interrupted(), clock=clock)
    measured.begin("gate", "pod")
    measured.end("gate", "pod", [ClaimRef.of(claim)], then="bind")
    known = measured.timelines.of("uid-train")
    assert known is not None
    assert ([span.step for span in known.spans], known.node) == (["gate", "bind"], "node-0")


def test_claim_that_is_not_served_has_no_timeline(clock: Clock) -> None:
    steps = ClaimSteps(clock=clock)
    steps.took("attach", [CLAIM], 90.0, 95.0)
    steps.over([read_claim(objects.claim("train"))], "the CDI Manager refused")
    assert steps.timelines.of("uid-train") is None


def test_hops_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch, steps: ClaimSteps) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    for number in range(5):
        steps.begin("request", f"claim-{number}")
    assert [bool(steps.began("request", f"claim-{number}")) for number in range(5)] == [False, False, True, True, True]


@pytest.mark.parametrize(("error", "reason"), [
    (Refused("no"), "refused"), (Refused("no", exhausted=True), "exhausted"), (Missing("x"), "missing"),
    (Busy("x"), "busy"), (Unavailable("x"), "unavailable"), (Unauthorized("x"), "unauthorized"),
    (Uncertain("x"), "uncertain"), (Withdrawn("x"), "withdrawn"), (FabricError("x"), "unexpected")])
def test_failures_have_reasons(steps: ClaimSteps, metrics: RecordedMetrics, error: FabricError, reason: str) -> None:
    steps.asked("attach", "A100", error)
    labels = {"manager": "fm", "model": "A100", "outcome": "failed"}
    assert metrics.get("attaches_total", **labels, reason=reason) == 1
