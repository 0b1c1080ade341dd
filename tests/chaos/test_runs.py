# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A seed gives one run. A failing run is shown small, with all that is needed to repeat it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.tests.chaos import __main__ as program
from ansible_collections.composable.infra.tests.chaos.mutants import MUTANTS
from ansible_collections.composable.infra.tests.chaos.runs import queue_scenario, run, scenario
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario, Step
from ansible_collections.composable.infra.tests.chaos.shrinking import shrink


def test_same_seed_same_run() -> None:
    first, second = (run(scenario(5)) for _unused in range(2))
    assert first.log
    assert (first.log, first.lasted, first.requests) == (second.log, second.lasted, second.requests)


@pytest.mark.parametrize("seed", range(12))
def test_jobs_of_a_queue_end_and_no_device_is_lost(seed: int) -> None:
    """``python -m ansible_collections.composable.infra.tests.chaos --queue`` makes more of them."""
    assert run(queue_scenario(seed)).violations == ()


def test_other_seed_other_run() -> None:
    assert len({scenario(seed) .to_json() for seed in range(20)}) == 20


def test_scenario_survives_its_text() -> None:
    for seed in range(20):
        assert Scenario.from_json(scenario(seed).to_json()) == scenario(seed)


@pytest.mark.parametrize("needed", [set(), {0}, {7}, {3, 11}, {0, 5, 9, 12}])
def test_only_the_steps_that_are_needed_stay(needed: set[int]) -> None:
    found = Scenario(1, steps=tuple(Step(float(number), "kill", {}) for number in range(13)))

    def fails(smaller: Scenario) -> bool:
        return {float(number) for number in needed} <= {step.at for step in smaller.steps}

    assert {int(step.at) for step in shrink(found, fails, tries=1000).steps} == needed


def test_shrinking_ends_also_when_it_is_not_done() -> None:
    found = Scenario(1, steps=tuple(Step(float(number), "kill", {}) for number in range(100)))
    tried: list[int] = []

    def fails(smaller: Scenario) -> bool:
        tried.append(len(smaller.steps))
        return False

    assert shrink(found, fails, tries=7) == found
    assert len(tried) <= 7


def test_report_shows_violations_and_the_smallest_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = next(m for m in MUTANTS if m.name == "no idle device is given back")
    seed = 0
    with mutant.alive():
        assert program.main(["--runs", "1", "--seed", str(seed), "--parallel", "1"]) == 1
    said = capsys.readouterr().out
    assert f"again with SEED={seed} RUNS=1" in said
    assert "leak: device" in said
    assert "as JSON: {" in said
    assert "0 passed, 1 failed" in said


def test_shown_scenario_can_be_repeated(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/scenario.json"
    small = replace(scenario(0), steps=scenario(0).steps[:2])
    with open(path, "w", encoding="utf-8") as file:
        file.write(small.to_json())
    assert program.main(["--scenario", path, "--log"]) == 0
    assert "PoolPublished" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--runs", "-1"], ["--runs", "many"], ["--seed", "1e3"]])
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(arguments)
    assert caught.value.code == 2
    assert "must be a whole number from 0 up" in capsys.readouterr().err
