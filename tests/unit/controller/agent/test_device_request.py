# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked about a device, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.agent.device_request import Work, read, work_of
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    IDLE,
    ON_BUS,
    PREPARING,
    READY,
    RELEASING,
    REMOVED,
    TOUCHED,
    Evidence,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import resource

EVIDENCE = Evidence(PREPARING, "dev-1", uuid="GPU-1")
UP = EVIDENCE.with_step(ON_BUS, 1.0).with_step(TOUCHED, 2.0)
DOWN = UP.with_phase(RELEASING).with_step(IDLE, 3.0)
ASKED = "2026-01-01T00:00:00.000000Z"
GONE = replace(DOWN.with_phase(REMOVED), release=ASKED)


def test_a_device_that_the_manager_is_asked_for_is_coming() -> None:
    ask = read(resource("gpu-1"))
    assert ask.coming
    assert work_of(ask, checked=False) == Work.NOTHING
    assert not read(resource("gpu-1", deleted=True)).coming
    assert not read(resource("gpu-1", "dev-1")).coming


def test_evidence_about_another_device_is_none() -> None:
    assert read(resource("gpu-1", "dev-1", node=EVIDENCE.to_json())).evidence == EVIDENCE
    assert read(resource("gpu-1", "dev-2", node=EVIDENCE.to_json())).evidence is None
    assert read(resource("gpu-1", "dev-1", node="no JSON")).evidence is None


def test_what_this_process_noted_is_newer_than_what_is_stored() -> None:
    assert read(resource("gpu-1", "dev-1", node=EVIDENCE.to_json()), UP).evidence == UP
    assert read(resource("gpu-1", "dev-2"), UP).evidence is None


@pytest.mark.parametrize(("evidence", "checked", "work"), [
    (None, False, Work.BRING_UP),
    (EVIDENCE, True, Work.BRING_UP),
    (UP, False, Work.BRING_UP),
    (UP, True, Work.NOTHING),
    (UP.with_phase(READY), False, Work.LOOK),
    (UP.with_phase(READY), True, Work.NOTHING),
    (DOWN, True, Work.TAKE_BACK),
    (DOWN.with_phase(REMOVED), True, Work.BRING_UP)])
def test_a_device_that_is_wanted(evidence: Evidence | None, checked: bool, work: Work) -> None:
    node = evidence.to_json() if evidence else ""
    assert work_of(read(resource("gpu-1", "dev-1", node=node)), checked) == work


@pytest.mark.parametrize(("evidence", "checked", "work"), [
    (None, False, Work.RELEASE),
    (UP.with_phase(READY), True, Work.RELEASE),
    (DOWN, False, Work.RELEASE),
    (GONE, False, Work.RELEASE),
    (GONE, True, Work.NOTHING),
    (replace(GONE, release="2025-12-31T00:00:00.000000Z"), True, Work.RELEASE)])
def test_a_device_that_shall_leave(evidence: Evidence | None, checked: bool, work: Work) -> None:
    node = evidence.to_json() if evidence else ""
    ask = read(resource("gpu-1", "dev-1", node=node, release=ASKED, deleted=True))
    assert work_of(ask, checked) == work


@pytest.mark.parametrize(("evidence", "shown", "work"), [
    (UP, True, Work.NOTHING), (UP.with_phase(READY), True, Work.NOTHING), (DOWN, True, Work.TAKE_BACK),
    (GONE, False, Work.BRING_UP), (EVIDENCE, False, Work.NOTHING), (EVIDENCE, True, Work.BRING_UP),
    (None, False, Work.NOTHING), (None, True, Work.BRING_UP)])
def test_a_device_that_is_deleted_and_not_asked_for_now(evidence: Evidence | None, shown: bool, work: Work) -> None:
    """A claim may have one that a slice shows, and no container gets it before its first use."""
    ask = read(resource("gpu-1", "dev-1", node=evidence.to_json() if evidence else "", deleted=True))
    assert work_of(ask, checked=False, shown=shown) == work
