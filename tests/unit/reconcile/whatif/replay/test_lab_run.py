# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison with the lab when it is interrupted: what there is is compared, and no result is overwritten."""

from __future__ import annotations

import argparse
import json
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.tests.bench import __main__ as bench
from ansible_collections.composable.infra.tests.bench.agreement import lab_run
from ansible_collections.composable.infra.tests.bench.agreement.observed import Recording, Stay
from ansible_collections.composable.infra.tests.bench.whatif import made_up

Json = dict[str, t.Any]


def capture() -> Capture:
    """Of a lab with free devices of its model."""
    made = made_up(2, 4)
    (row,) = made.settings["device_info"]
    free = {(A100, fabric): count for (_model, fabric), count in made.fabric.free.items()}
    return replace(made, settings={**made.settings, "device_info": [{**row, "cdi-model-name": A100}]},
                   fabric=replace(made.fabric, free=free))


def recording(minutes: float, pods: int = 6) -> Recording:
    """Pods that came in these minutes, each for half a minute."""
    stays = tuple(Stay(f"pod-{n}", 1, 5.0 * n, 5.0 * n + 2.0, 5.0 * n + 3.0, 5.0 * n + 33.0, 30.0) for n in range(pods))
    return Recording(60 * minutes, stays, pods, (1.0,) * 5, {"attach": (1.0,) * 5}, (1.0,) * 5)


def test_ctrl_c_ends_the_minutes_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    def pressed() -> None:
        raise KeyboardInterrupt

    assert lab_run.until_interrupted(lambda: None)
    assert not lab_run.until_interrupted(pressed)
    assert "interrupted: what there is so far is compared" in capsys.readouterr().err


@pytest.mark.parametrize(("minutes", "interrupted"), [(2.0, False), (1.0, True)])
def test_what_was_recorded_is_compared_and_kept(
    minutes: float, interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = capture(), recording(minutes)
    monkeypatch.setattr(lab_run, "recorded", lambda _minutes: made)
    (found,) = lab_run.run(2.0, kept=tmp_path / "kept")
    assert (found["pods"], found["minutes"], found.get("interrupted", False)) == (6, minutes, interrupted)
    monkeypatch.setattr(lab_run, "recorded", lambda _minutes: pytest.fail("no lab is started"))
    (again,) = lab_run.run(2.0, again=True, kept=tmp_path / "kept")
    assert again["figures"] == found["figures"]


def test_nobody_is_compared_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_run, "recorded", lambda _minutes: (capture(), recording(1.0, pods=0)))
    with pytest.raises(RuntimeError, match="no pod came after the capture"):
        lab_run.run(2.0, kept=tmp_path)


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_interrupted_run_prints_its_table_and_writes_nothing(
    interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"lab": 3.0, "minutes": {"median": 3.0, "low": 2.0, "high": 4.0, "bound": 0.9, "within": True},
            "capture": {"median": 2.5, "low": 2.0, "high": 3.0}}
    names = ("wait_p50", "wait_p90", "wait_mean", "utilisation", "attaches")
    made = {"figures": dict.fromkeys(names, told), **({"interrupted": True} if interrupted else {})}
    asked: list[float] = []

    def ran(args: argparse.Namespace) -> list[Json]:
        asked.append(args.minutes)
        return [made]

    monkeypatch.setitem(bench.OTHERS, "whatif", ran)
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench, "update_pages", lambda _results: None)
    monkeypatch.setattr("sys.argv", ["bench", "--set", "whatif", "--minutes", "60"])
    assert bench.main() == (bench.INTERRUPTED if interrupted else 0)
    assert asked == [60.0]
    assert ("| 1 | wait, half of the pods (s) | 3 |" in capsys.readouterr().out) is interrupted
    assert [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == (
        [] if interrupted else [[made]])


def test_it_says_how_far_it_is() -> None:
    crowd = lab_run.Crowd(t.cast(t.Any, None), t.cast(t.Any, None), {"pod-0": 5.0, "pod-1": 7.0})
    assert lab_run.progress(12, 3780.0, crowd) == "minute 12 of 63: 2 pods came, 0 run"
