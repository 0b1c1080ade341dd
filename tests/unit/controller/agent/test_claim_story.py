# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node agent says and traces of the claim that a device is for."""

from __future__ import annotations

import logging

import pytest

from ansible_collections.composable.infra.controller.agent.device_request import read
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    DRIVER_FAILED,
    STEPS_UP,
    NodeTrouble,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import (
    Node,
    resource,
    running,
    until,
)
from ansible_collections.composable.infra.tests.unit.reconcile.recorded_spans import RecordedSpans

CLAIM = ClaimRef("default/train", "uid-train")


def attach(node: Node, spans: RecordedSpans, **more: str) -> None:
    """A device comes and is announced."""
    node.tracer = spans
    node.boot()
    node.operations.bus["dev-1"] = "GPU-1"
    node.api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1", **more))
    until("the device is announced", lambda: ANNOUNCED in node.steps("gpu-1"))


def said(caplog: pytest.LogCaptureFixture, word: str) -> list[tuple[ClaimRef, ...]]:
    """The claims of each line with a word."""
    return [getattr(record, "claims", ()) for record in caplog.records if word in record.getMessage()]


def test_each_step_up_is_a_span_of_the_claim(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with running() as node:
        attach(node, spans := RecordedSpans(), claim=CLAIM.note)
    assert spans.names(CLAIM.uid) == [f"node {step}" for step in STEPS_UP]
    assert all(span.began <= span.ended and span.attributes["resource"] == "gpu-1" for span in spans.spans)
    assert said(caplog, "DeviceReady") == [(CLAIM,)]


@pytest.mark.parametrize("note", ["", "not a claim", "default/train uid\nforged"])
def test_a_device_for_nobody_has_no_trace(caplog: pytest.LogCaptureFixture, note: str) -> None:
    caplog.set_level(logging.INFO)
    with running() as node:
        attach(node, spans := RecordedSpans(), claim=note)
    assert spans.spans == []
    assert said(caplog, "DeviceReady") == [()]


def test_trouble_is_told_with_the_claim(caplog: pytest.LogCaptureFixture) -> None:
    with running() as node:
        node.operations.troubles["dev-1"] = [NodeTrouble(DRIVER_FAILED, "no driver")]
        attach(node, RecordedSpans(), claim=CLAIM.note)
    assert (CLAIM,) in said(caplog, DRIVER_FAILED)


def test_the_claim_is_read_from_the_annotation() -> None:
    assert read(resource("gpu-1", claim=CLAIM.note)).claim == CLAIM
    assert read(resource("gpu-1")).logged == {"claims": ()}
