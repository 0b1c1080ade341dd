# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's picture shows the moments that were seen, in the terminal and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.picture import show, timeline
from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span

GATED = ClaimTimes("train", created=10.0, held=10.0, opened=14.0, asked=10.5, attached=12.5, visible=13.5,
                   reallocated=14.25, running=14.5, node="node-0")
POOLED = ClaimTimes("ungated", created=20.0, allocated=20.5, asked=20.5, attached=22.5, visible=23.0, condition=23.0,
                    deallocated=27.0, reallocated=27.0, running=27.0, node="node-1")


def test_hops_of_a_held_pod() -> None:
    assert timeline(GATED).spans == (
        Span("request", 10.0, 10.5), Span("attach", 10.5, 12.5), Span("slice", 12.5, 13.5), Span("gate", 13.5, 14.0),
        Span("bind", 14.0, 14.25), Span("start", 14.25, 14.5))


def test_hops_of_a_claim_that_was_rescheduled() -> None:
    assert [(span.step, span.seconds) for span in timeline(POOLED).spans] == [
        ("request", 0.0), ("attach", 2.0), ("slice", 0.5), ("gate", 0.0), ("handover", 4.0), ("start", 0.0)]


@pytest.mark.parametrize("visible", [31.0, None])
def test_way_of_a_direct_claim_ends_with_its_pod(visible: float | None) -> None:
    """The node's slice shows the device only once the claim is over, or never."""
    direct = ClaimTimes("train", created=10.0, allocated=10.1, asked=10.2, attached=12.2, visible=visible,
                        condition=12.6, ready=True, bound_at=15.0, running=15.2, node="node-0")
    drawn = timeline(direct)
    assert drawn.spans == (
        Span("request", 10.1, 10.2), Span("attach", 10.2, 12.2), Span("slice", 12.2, 12.6), Span("bind", 12.6, 15.0),
        Span("start", 15.0, 15.2))
    assert drawn.ended == 15.2


def test_moments_that_were_not_seen_are_left_out() -> None:
    assert timeline(ClaimTimes("lost", created=1.0)).spans == ()


def test_picture_is_plain_when_it_is_piped_and_is_written_to_a_file(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    target = tmp_path / "dist" / "demo.svg"
    show([GATED, POOLED], target)
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "train    |" in said
    assert max(map(len, said.splitlines()[:4])) <= 90
    assert str(target) in said
    assert target.read_text(encoding="utf-8").startswith("<svg")


def test_nothing_is_shown_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show([], tmp_path / "demo.svg")
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "demo.svg").exists()
