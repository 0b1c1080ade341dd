# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stages end by themselves or by their deadline, and the table says what each did."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools import stage
from ansible_collections.composable.infra.tools.stage import Record


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder for a Makefile, and one for records."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "RECORDS", tmp_path / "records")
    return tmp_path


def make(folder: Path, recipes: str) -> None:
    (folder / "Makefile").write_text(recipes, encoding="utf-8")


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["stage", *arguments])
    return stage.main()


@pytest.mark.parametrize(("line", "counts"), [
    ("===== 3 passed in 0.12s =====", {"passed": 3}),
    ("1 failed, 48 passed, 2 skipped in 10.40s", {"failed": 1, "passed": 48, "skipped": 2}),
    ("=== 2 errors, 1 passed in 1.0s (0:00:01) ===", {"error": 2, "passed": 1}),
    ("=== 1 error in 1.0s ===", {"error": 1}),
    ("it passed 3 tests in 5s", {}), ("3 passed", {}), ("", {})])
def test_counts_of_a_line(line: str, counts: dict[str, int]) -> None:
    assert stage.counts_in(line) == counts


def test_a_stage_has_the_status_the_counts_and_the_last_lines_of_its_target(folder: Path) -> None:
    make(folder, "good:\n\t@echo 2 passed in 0.1s\nbad:\n\t@echo why; exit 3\n")
    assert (stage.run("good", 60).status, stage.run("good", 60).counts) == (0, {"passed": 2})
    bad = stage.run("bad", 60)
    assert bad.status == 2
    assert bad.tail[0] == "why"


def test_counts_of_two_runs_of_pytest_are_added(folder: Path) -> None:
    make(folder, "two:\n\t@echo 2 passed in 0.1s; echo 1 failed, 3 passed in 0.1s\n")
    assert stage.run("two", 60).counts == {"passed": 5, "failed": 1}


def test_a_stage_that_hangs_is_ended_with_all_that_it_started(folder: Path) -> None:
    make(folder, "hangs:\n\t@sleep 600 & echo $$! > child; wait\n")
    ended = stage.run("hangs", 0.5)
    assert ended.status == stage.TIMED_OUT
    assert ended.tail[-1] == "hangs did not end within 0.5 s and was stopped"
    child = (folder / "child").read_text(encoding="utf-8").strip()
    deadline = time.monotonic() + 10
    while runs(child):
        assert time.monotonic() < deadline, f"{child} still runs"


def runs(pid: str) -> bool:
    """Whether a process is there and has not ended. A signal takes a moment."""
    try:
        return Path("/proc", pid, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_processor_time_of_what_a_stage_started_is_its_own(folder: Path) -> None:
    make(folder, "busy:\n\t@n=0; while test $$n -lt 100000; do n=$$((n+1)); done; true\n")
    assert stage.run("busy", 60).processor > 0.05


def test_the_table_sums_what_pytest_counted(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert called(monkeypatch, "begin") == 0
    for record in (Record("lint", 0, 1.0, 0.5), Record("unit", 0, 2.0, 3.5, {"passed": 3, "skipped": 1}),
                   Record("e2e", 2, 3.0, 1.5, {"failed": 1, "passed": 4}, ["flaky: a, evidence in b"], ["the cause"])):
        path = stage.RECORDS / f"{record.stage}.json"
        path.write_text(json.dumps(asdict(record)), encoding="utf-8")
    assert called(monkeypatch, "table", "lint", "unit", "e2e", "importer") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("===== 7 passed, 1 skipped, 1 failed in ")
    assert [line.split() for line in lines if line.startswith(("e2e", "importer"))] == [
        ["e2e", "3.0", "1.5", "failed", "(2),", "1", "failed,", "4", "passed"], ["importer", "-", "-", "not", "run"]]
    assert lines.index("the cause") < lines.index("flaky: a, evidence in b") < len(lines) - 1
    assert any(line.startswith("together") and line.endswith("5.5") for line in lines)


def test_a_run_forgets_the_last_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(folder, "good:\n\t@true\n")
    assert called(monkeypatch, "run", "good") == 0
    assert stage.read("good") is not None
    assert called(monkeypatch, "begin") == 0
    assert stage.read("good") is None
