# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a failed test is told whatever is away: an error of the report would end the whole run."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.tests.e2e.support.support import Opened


@dataclass
class OnlyAFolder:
    """All that a process needs of a stage."""

    folder: Path


def begun(opened: Opened, stage: Stage, name: str) -> Process:
    return opened.add(Process(name, ["sleep", "1000"], stage))


def test_a_log_that_went_with_its_stage_is_no_error(tmp_path: Path) -> None:
    opened, stage = Opened(), t.cast("Stage", OnlyAFolder(tmp_path))
    first, second = begun(opened, stage, "first"), begun(opened, stage, "second")
    second.log_path.write_text("said before it left", encoding="utf-8")
    first.log_path.unlink()
    assert first.stop() == second.stop() == -15
    (name, gone), told = opened.logs()
    assert (name, gone.split(":")[0]) == ("first", "FileNotFoundError")
    assert told == ("second", "said before it left")


def test_a_stage_takes_its_own_processes_with_it(tmp_path: Path) -> None:
    opened, stages = Opened(), [t.cast("Stage", OnlyAFolder(tmp_path / name)) for name in ("one", "other")]
    for stage in stages:
        stage.folder.mkdir()
    own, others = (begun(opened, stage, "controller") for stage in stages)
    try:
        opened.stop_those_of(stages[0])
        assert own.process.poll() == -15
        assert others.process.poll() is None
        assert opened.processes == [others]
    finally:
        opened.stop_all()
