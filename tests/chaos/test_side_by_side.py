# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several labs share the seeds. An early end is reported, and no lab outlives its reader. Labs are
stand-ins.
"""

from __future__ import annotations

import contextlib
import os
import signal
import typing as t
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.composable.infra.tests.chaos import __main__ as chaos
from ansible_collections.composable.infra.tests.chaos.on_lab import run as module
from ansible_collections.composable.infra.tests.chaos.on_lab.run import LabOutcome
from ansible_collections.composable.infra.tests.chaos.on_lab.side_by_side import LabEnded, side_by_side


def told(seeds: Sequence[int], keep: Path | None) -> Iterator[LabOutcome]:
    """Yield good outcomes. ``attaches`` is the process."""
    for seed in seeds:
        yield LabOutcome(seed, (), os.getpid(), 0.0)


def killed(seeds: Sequence[int], keep: Path | None) -> Iterator[LabOutcome]:
    """Kill itself after one run, as the kernel does when it has no memory left."""
    yield LabOutcome(seeds[0], (), 0, 0.0)
    os.kill(os.getpid(), signal.SIGKILL)


def endless(seeds: Sequence[int], keep: Path | None) -> Iterator[LabOutcome]:
    """Yield one run, then never end. The stopped lab leaves a file."""
    try:
        yield LabOutcome(seeds[0], (), 0, 0.0)
        signal.pause()
    finally:
        (t.cast(Path, keep) / f"stopped-{seeds[0]}").touch()


def test_each_seed_runs_once_and_each_lab_has_its_process() -> None:
    found = list(side_by_side(range(10, 17), 3, None, told))
    assert sorted(outcome.seed for outcome in found) == list(range(10, 17))
    assert len({outcome.attaches for outcome in found}) == 3


def test_no_more_labs_than_seeds() -> None:
    assert [outcome.seed for outcome in side_by_side(range(1, 2), 4, None, told)] == [1]


def test_a_lab_that_ends_early_is_told_after_what_it_did() -> None:
    outcomes = side_by_side(range(5, 9), 1, None, killed)
    assert next(outcomes).seed == 5
    with pytest.raises(LabEnded, match="exit status -9"):
        next(outcomes)


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["", "job in the background"])
def test_labs_are_stopped_when_nobody_reads_on(tmp_path: Path, handler: t.Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        _read_two(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert {path.name for path in tmp_path.iterdir()} == {"stopped-1", "stopped-2"}


def test_ctrl_c_says_what_came_of_the_runs_until_then(monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_unused: t.Any) -> Iterator[LabOutcome]:
        yield LabOutcome(5, (), 3, 1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(chaos, "side_by_side", interrupted)
    assert chaos.main(["--lab", "--runs", "4", "--seed", "5"]) == 130
    told = capsys.readouterr().out
    assert "lab: run 5, 3 devices, 1.0 s: passed" in told
    assert "interrupted, 3 runs are missing" in told
    assert "1 passed" in told


def _read_two(tmp_path: Path) -> None:
    with contextlib.closing(side_by_side(range(1, 5), 2, tmp_path, endless)) as outcomes:
        assert {next(outcomes).seed, next(outcomes).seed} == {1, 2}


class FakeStage:
    """A lab that counts."""

    opened: t.ClassVar[list[FakeStage]] = []

    def __init__(self, _options: object) -> None:
        self.opened.append(self)
        self.open = True

    def close(self) -> None:
        self.open = False


def lived(run: module.LabRun) -> LabOutcome:
    """Return a run in which the second seed mistook a device, and the third found a violation."""
    seed = t.cast(int, run.scenario)
    run.workload = t.cast(t.Any, SimpleNamespace(did=SimpleNamespace(ambiguous={"dev-1"} if seed == 2 else set())))
    run.violations += ["leak: dev-1"] if seed == 3 else []
    return LabOutcome(seed, tuple(run.violations), 0, 0.0)


def test_a_run_that_may_have_left_something_is_followed_by_one_on_a_new_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Stage", FakeStage)
    monkeypatch.setattr(module.LabRun, "run", lived)
    monkeypatch.setattr(FakeStage, "opened", [])
    seeds = t.cast(t.Any, iter(range(5)))
    used = [FakeStage.opened.index(t.cast(t.Any, stage)) for _outcome, stage in module.on_lab(seeds)]
    assert used == [0, 0, 0, 1, 2]
    assert not any(stage.open for stage in FakeStage.opened)
