# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One claim's story, from the gate to the running pod and back: each log line has its uid, each step its time."""

from __future__ import annotations

import logging
import typing as t

import pytest

from ansible_collections.composable.infra.controller.logs import TextFormatter
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import CLAIM, read_claim
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import ask, bind, pod, serve
from ansible_collections.composable.infra.tests.unit.reconcile.recorded_spans import RecordedSpans

UID = "uid-train"
STEPS = ["plan", "request", "attach", "slice", "gate", "bind"]


@pytest.fixture
def spans(held: Bench) -> RecordedSpans:
    """The bench is traced."""
    made = RecordedSpans()
    held.claim_steps.tracer = made
    return made


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[], list[str]]:
    """What was logged, as text."""
    monkeypatch.setattr(logging.getLogger("composable.infra"), "disabled", False)
    caplog.set_level(logging.INFO, "composable.infra")
    return lambda: [TextFormatter().format(record) for record in caplog.records]


def test_every_line_from_gate_to_running_has_the_claims_uid(held: Bench, lines: t.Callable[[], list[str]]) -> None:
    ask(held)
    serve(held)
    bind(held, "train")
    story = [line for line in lines() if f"claim=default/train uid={UID}" in line]
    told = [line.split()[2] for line in story]
    assert [reason for reason in told if reason != "SizeSet"] == [
        "PodHeld", "NodeChosen", "Attaching", "Attached", "GateOpened", "PodBound"]
    others = {line.split()[2] for line in lines() if line not in story}
    assert others <= {"PoolPublished", "Recovered"}


def test_every_hop_is_measured_and_traced(held: Bench, spans: RecordedSpans) -> None:
    ask(held)
    serve(held)
    bind(held, "train")
    assert spans.names(UID) == [*STEPS, "claim"]
    assert all(len(held.metrics.observed("step_duration_seconds", step=step, handover="gated")) == 1 for step in STEPS)
    assert [span.began <= span.ended for span in spans.spans] == [True] * 7
    assert len(held.metrics.observed("gate_pass_duration_seconds")) > 0
    assert not held.claim_steps.began("request", UID)


def test_the_second_pass_tells_nothing_anew(held: Bench, lines: t.Callable[[], list[str]]) -> None:
    ask(held, count=9)
    held.reconcile(GatesKey())
    held.reconcile(GatesKey())
    assert [line.split()[2] for line in lines()].count("PodHeld") == 1


def test_a_pod_without_its_claims_is_told_when_they_exist(held: Bench, lines: t.Callable[[], list[str]]) -> None:
    held.put(pod("train"))
    held.reconcile(GatesKey())
    assert "PodHeld" not in [line.split()[2] for line in lines()]
    ask(held)
    held.reconcile(GatesKey())
    assert "PodHeld" in [line.split()[2] for line in lines()]


def test_each_device_is_asked_for_its_own_claim(held: Bench) -> None:
    ask(held, "one")
    ask(held, "two")
    serve(held)
    found = [read_claim(raw) for raw in held.api.of(COMPOSABLE_RESOURCES)]
    assert sorted(claim.key for claim in found if claim) == ["default/one", "default/two"]


def test_a_pod_that_is_let_go_is_told_with_its_claim(held: Bench, spans: RecordedSpans,
                                                     lines: t.Callable[[], list[str]]) -> None:
    ask(held, count=9)
    held.reconcile(GatesKey())
    (line,) = [line for line in lines() if "GateReleased" in line]
    assert f"uid={UID}" in line
    assert [(span.name, span.root, bool(span.error)) for span in spans.spans] == [("unserved", False, True)]


def test_an_attach_that_fails_is_counted_by_its_reason(held: Bench, spans: RecordedSpans) -> None:
    ask(held)
    held.fabric.answers = [Refused("the slot is broken")]
    held.reconcile(GatesKey())
    held.run(1)
    labels = {"manager": "fm", "model": A100, "outcome": "failed", "reason": "refused"}
    assert held.metrics.get("attaches_total", **labels) == 1
    assert ("attach", "the slot is broken") in [(span.name, span.error) for span in spans.spans]


def test_who_used_a_device_last_is_known_when_it_leaves(held: Bench, lines: t.Callable[[], list[str]]) -> None:
    ask(held)
    serve(held)
    held.put(objects.claim("other", objects.local_result("gpu-0")))
    held.run(1)
    (raw,) = held.api.of(COMPOSABLE_RESOURCES)
    assert raw["metadata"]["annotations"][CLAIM] == "default/other uid-other"
    held.reporter.about_device(raw["metadata"]["name"], "Releasing", "nobody wants it")
    assert lines()[-1].endswith("claim=default/other uid=uid-other")


@pytest.mark.parametrize("text", ["", "default/train", "a b c", "default/train uid\nINFO forged uid-2", "../x y",
                                  "default/train " + "x" * 65, "Default/train uid-1", 7, None])
def test_an_annotation_puts_nothing_else_into_a_line(text: object) -> None:
    assert read_claim({"metadata": {"annotations": {CLAIM: text}}}) is None
