# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The annotation that says what was done on a node: its form, what it proves, and what it does not."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, Link, Step, Trouble

T0 = 1795377600.123456
FULL = Evidence("Ready", "cdi-1", "ssh", "GPU-a", "0000:10:00.0", 1, Link(8, 16, "32.0 GT/s PCIe", "32.0 GT/s PCIe"),
                (Step("OnBus", "2026-11-22T20:00:00.000001Z"), Step("Bound", "2026-11-22T20:00:01.000000Z")),
                Trouble("LinkDegraded", "8 lanes of 16", "2026-11-22T20:00:00.000000Z"))


def document(**fields: t.Any) -> str:
    return json.dumps({"version": 1, "phase": "Ready", "device": "cdi-1", **fields})


def test_form_of_the_annotation() -> None:
    assert json.loads(FULL.to_json()) == {
        "version": 1, "phase": "Ready", "device": "cdi-1", "by": "ssh", "uuid": "GPU-a", "address": "0000:10:00.0",
        "numaNode": 1, "link": {"width": 8, "maxWidth": 16, "speed": "32.0 GT/s PCIe", "maxSpeed": "32.0 GT/s PCIe"},
        "steps": [{"step": "OnBus", "at": "2026-11-22T20:00:00.000001Z"},
                  {"step": "Bound", "at": "2026-11-22T20:00:01.000000Z"}],
        "trouble": {"reason": "LinkDegraded", "message": "8 lanes of 16", "since": "2026-11-22T20:00:00.000000Z"}}


@pytest.mark.parametrize("given", [FULL, Evidence("Preparing", "cdi-1"), Evidence("Removed", "cdi-1", numa_node=0)],
                         ids=lambda e: e.phase)
def test_what_is_written_is_read_back(given: Evidence) -> None:
    assert Evidence.parse(given.to_json()) == given


def test_what_is_not_known_is_left_out() -> None:
    assert set(json.loads(Evidence("Preparing", "x").to_json())) == {"version", "phase", "device", "by", "uuid",
                                                                     "address", "steps"}


def test_keys_that_are_not_known_are_passed_over() -> None:
    found = Evidence.parse(document(later={"a": 1}, link={"width": 4, "maxWidth": 8, "lanes": "x"},
                                    steps=[{"step": "OnBus", "at": "x", "how": "event"}]))
    assert found == Evidence("Ready", "cdi-1", by="", link=Link(4, 8), steps=(Step("OnBus", "x"),))


@pytest.mark.parametrize("text", [
    "", "no json", "[]", "null", "1", document(version=2), document(phase="Done"), document(device=7),
    document(steps=[{"step": "OnBus"}]), document(steps=["OnBus"]), document(steps=1), document(link={"width": 1}),
    document(trouble={"reason": "x"}), document(trouble="x"), document(numaNode="no"), json.dumps({"version": 1})])
def test_what_cannot_be_read_proves_nothing(text: str) -> None:
    assert Evidence.parse(text) is None


@pytest.mark.parametrize(("phase", "ready"), [
    ("Preparing", False), ("Ready", True), ("Releasing", False), ("Removed", False)])
def test_evidence_is_about_one_device_and_its_phase(phase: str, ready: bool) -> None:
    found = replace(FULL, phase=phase)
    assert found.is_ready("cdi-1") is ready
    assert not found.is_ready("cdi-2")


def test_a_step_keeps_its_first_moment() -> None:
    once = Evidence("Preparing", "x").with_step("OnBus", T0)
    assert once.steps == (Step("OnBus", "2026-11-22T20:00:00.123456Z"),)
    assert once.with_step("OnBus", T0 + 5) == once
    assert [s.step for s in once.with_step("Bound", T0).steps] == ["OnBus", "Bound"]


def test_plugin_is_restarted_on_both_ways() -> None:
    up = Evidence("Ready", "x")
    for step in evidence.STEPS_UP:
        up = up.with_step(step, T0)
    down = up.with_phase("Releasing")
    assert not down.has("PluginRestarted")
    for step in evidence.STEPS_DOWN * 2:
        down = down.with_step(step, T0 + 1)
    assert [s.step for s in down.steps] == [*evidence.STEPS_UP, *evidence.STEPS_DOWN]


def test_release_that_is_taken_back_leaves_the_way_up() -> None:
    released = FULL.with_phase("Releasing").with_step("Idle", T0).with_step("Drained", T0)
    assert released.with_phase("Ready") == FULL


def test_trouble_keeps_the_moment_it_began_and_ends() -> None:
    first = Evidence("Releasing", "x").with_trouble("OpenOnNode", "pid 1", T0)
    again = first.with_trouble("OpenOnNode", "pid 2", T0 + 9)
    assert again.trouble == Trouble("OpenOnNode", "pid 2", "2026-11-22T20:00:00.123456Z")
    other = again.with_trouble("RemovalHung", "hangs", T0 + 9)
    assert other.trouble == Trouble("RemovalHung", "hangs", "2026-11-22T20:00:09.123456Z")
    assert other.without_trouble().trouble is None


@pytest.mark.parametrize(("at", "text"), [
    (0.0, "1970-01-01T00:00:00.000000Z"), (1.9999999, "1970-01-01T00:00:02.000000Z"),
    (T0, "2026-11-22T20:00:00.123456Z")])
def test_moments_have_microseconds(at: float, text: str) -> None:
    assert evidence.moment(at) == text
