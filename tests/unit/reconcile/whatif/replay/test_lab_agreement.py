# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a lab and its replay are compared: what is read from an audit log, what is asked, and when both agree."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    Span,
    Timeline,
    dump,
)
from ansible_collections.composable.infra.tests.bench.agreement import compare
from ansible_collections.composable.infra.tests.bench.agreement.compare import (
    compared,
    leaving,
    load,
    observed_figures,
)
from ansible_collections.composable.infra.tests.bench.agreement.observed import NEVER, Recording, Stay, recording
from ansible_collections.composable.infra.tests.bench.render import whatif_table
from ansible_collections.composable.infra.tests.bench.whatif import MODEL, made_up

Json = dict[str, t.Any]
BEGAN = 1_800_000_000.0


def entry(at: float, verb: str, resource: str, name: str, body: Json | None = None, sub: str = "") -> str:
    """A line of an audit log, ``at`` seconds since the capture."""
    moment = datetime.fromtimestamp(BEGAN + at, UTC).isoformat()
    return json.dumps({"stage": "ResponseComplete", "responseStatus": {"code": 200}, "verb": verb,
                       "user": {"username": "somebody"}, "stageTimestamp": moment, "requestObject": body,
                       "objectRef": {"resource": resource, "name": name, "subresource": sub}}) + "\n"


def claim(count: int) -> Json:
    return {"spec": {"devices": {"requests": [{"exactly": {"count": count}}]}}}


RUNS: Json = {"status": {"phase": "Running"}}
FREED: Json = {"metadata": {"finalizers": None}}
LOG = [
    entry(-9.0, "delete", "composableresources", "gpu-0"), entry(-8.0, "patch", "composableresources", "gpu-0", {
        "status": {"state": "Deleting"}}, "status"), entry(-7.5, "patch", "composableresources", "gpu-0", FREED),
    entry(-5.0, "create", "resourceclaims", "early", claim(2)), entry(-5.0, "create", "pods", "early"),
    entry(-4.0, "create", "pods", "early", {}, "binding"), entry(-3.0, "patch", "pods", "early", RUNS, "status"),
    entry(1.0, "create", "resourceclaims", "one", claim(1)), entry(1.0, "create", "pods", "one"),
    entry(2.0, "create", "composableresources", "gpu-1"), entry(4.0, "create", "pods", "one", {}, "binding"),
    entry(5.0, "patch", "pods", "one", RUNS, "status"), entry(6.0, "patch", "pods", "one", RUNS, "status"),
    entry(10.0, "delete", "pods", "early"), entry(25.0, "delete", "pods", "one"),
    entry(26.0, "delete", "composableresources", "gpu-1"), entry(29.0, "patch", "composableresources", "gpu-1", FREED),
    entry(40.0, "create", "resourceclaims", "late", claim(1)), entry(40.0, "create", "pods", "late"),
    entry(90.0, "create", "composableresources", "gpu-2"), entry(91.0, "create", "pods", "elsewhere")]


@pytest.fixture
def found(tmp_path: Path) -> Recording:
    """A minute of a small log."""
    log = tmp_path / "audit.log"
    log.write_text("".join(LOG), encoding="utf-8")
    return recording(log, BEGAN, BEGAN + 60.0, {"early": 99.0, "one": 99.0, "late": 77.0, "never": 1.0})


def test_what_became_of_each_pod(found: Recording) -> None:
    early, one, late = (replace(stay, **{name: round(getattr(stay, name), 3) for name in (
        "came", "bound", "ran", "ended", "lifetime")}) for stay in found.stays)
    assert early == Stay("early", 2, -5.0, -4.0, -3.0, 10.0, 13.0)
    assert one == Stay("one", 1, 1.0, 4.0, 5.0, 25.0, 20.0)
    assert late == Stay("late", 1, 40.0, NEVER, NEVER, NEVER, 77.0)
    assert [stay.name for stay in found.came] == ["one", "late"], "who came before the capture is not asked for"


def test_attaches_are_those_of_the_minutes_and_returns_those_before(found: Recording) -> None:
    assert (found.attaches, [round(each, 3) for each in found.returns]) == (1, [1.5])
    assert [round(each, 3) for each in found.later_returns] == [3.0]


def test_steps_are_those_that_were_written_down_after_the_capture(tmp_path: Path) -> None:
    """A timeline is written again with the next one of its device, and counts once; few samples are none."""
    served = [Timeline(f"default/{n}", f"uid-{n}", "node-0", BEGAN, (Span("attach", BEGAN + n, BEGAN + n + 1.5),))
              for n in range(-1, 6)]
    notes = [{"metadata": {"annotations": {ANNOTATION: dump(served[:count])}}} for count in (4, 7)]
    log = tmp_path / "audit.log"
    log.write_text("".join(entry(9.0, "patch", "composableresources", "gpu-0", each) for each in notes))
    steps = recording(log, BEGAN, BEGAN + 60.0, {}).steps
    assert {step: [round(each, 3) for each in found] for step, found in steps.items()} == {"attach": [1.5] * 6}
    log.write_text(entry(9.0, "patch", "composableresources", "gpu-0", notes[0]))
    assert recording(log, BEGAN, BEGAN + 60.0, {}).steps == {}


def test_figures_of_the_lab(found: Recording) -> None:
    figures = observed_figures(found, devices=3)
    assert figures["wait_p50"] == pytest.approx(4.0)
    assert figures["wait_p90"] == pytest.approx(20.0), "who does not run yet has waited so far"
    assert figures["utilisation"] == pytest.approx(100 * (2 * 10 + 1 * 21) / (3 * 60))


def test_a_file_gives_the_recording_back(found: Recording) -> None:
    assert Recording.of_document(json.loads(json.dumps(found.as_document()))) == found


def test_the_replay_is_asked_for_the_very_arrivals(found: Recording) -> None:
    (asked,) = load(found)
    assert [[round(number, 3) for number in pair] for pair in asked["arrivals"]] == [[1.0, 20.0], [40.0, 77.0]]
    assert leaving((1.5, 0.2), detach=0.5) == (1.0, 0.0)


@pytest.mark.parametrize(("delay", "within"), [(0.0, True), (12.0, False)], ids=["as it was", "later than it was"])
def test_a_lab_that_is_slower_than_its_replay_is_told_apart(delay: float, within: bool,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay has the steps that are assumed; a lab in which each takes its mean agrees with it."""
    monkeypatch.setattr(compare, "A100", MODEL)
    monkeypatch.setattr(compare, "SEEDS", 2)
    wait = 0.05 + 10.0 + 3.0 + 0.05 + 0.55 + 2.0 + delay
    stays = tuple(Stay(f"pod-{n}", 1, 90.0 * n + 1, 90.0 * n + wait - 1, 90.0 * n + 1 + wait,
                       90.0 * n + 61 + wait, 60.0) for n in range(20))
    lab = Recording(1800.0, stays, 20, (4.5,), {}, (4.5,))
    capture = made_up(2, 4)
    row = compared(replace(capture, settings={**capture.settings, "device_no_removal_duration": 1.0}), lab, 4, 1.0)
    figures = {name: figure["minutes"] for name, figure in row["figures"].items()}
    assert [figures[name]["within"] for name in ("wait_p50", "wait_mean")] == [within, within]
    assert figures["attaches"]["within"]
    assert ("**no**" in whatif_table([row])) is not within
