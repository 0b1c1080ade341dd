# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A floor that is learned from the same hour of the last weeks, and what it costs."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm import Floor, costs
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm_learned import (
    HOUR,
    MOST_LEARNED,
    WEEK_HOURS,
    Learn,
)
from ansible_collections.composable.infra.tests.bench.floors import MEASURED_WEEKS, ROWS, Outcome, simulate, table
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, settings

NOW_HOUR = 490_000
NOW = NOW_HOUR * HOUR + 60.0


def weeks(*peaks: int | None, hour: int = NOW_HOUR) -> dict[int, int]:
    """Peaks of an hour one week ago, two weeks ago and so on; None: nobody watched."""
    return {hour - number * WEEK_HOURS: n for number, n in enumerate(peaks, 1) if n is not None}


@pytest.mark.parametrize(("quantile", "peaks", "expected"), [
    (0.95, (1, 2, 3, 4), 4), (0.75, (1, 2, 3, 4), 3), (0.5, (4, 3, 2, 1), 2), (0.01, (1, 2, 3, 4), 1),
    (1.0, (0, 0, 0, 5), 5), (0.5, (3, None, None, None), 3), (0.95, (0, 0, 0, 0), 0), (0.95, (30, 1, 1, 1), 8),
    (0.95, (1, 1, 1, 1, 7), 1),
], ids=["highest", "third", "second", "lowest", "all", "one week known", "nothing came", "capped", "too long ago"])
def test_floor_is_the_quantile_of_the_same_hour(quantile: float, peaks: tuple[int | None, ...], expected: int) -> None:
    assert Learn(quantile=quantile).idle_at(NOW, weeks(*peaks)) == expected


def test_hour_under_way_and_other_hours_do_not_count() -> None:
    assert Learn().idle_at(NOW, {NOW_HOUR: 9, NOW_HOUR - 1: 9, NOW_HOUR - 24: 9}) is None


def test_floor_rises_one_lead_time_ahead() -> None:
    peaks = weeks(1) | weeks(5, hour=NOW_HOUR + 1)
    end = (NOW_HOUR + 1) * HOUR
    assert [Learn(lead=300).idle_at(moment, peaks) for moment in (end - 301, end - 299, end)] == [1, 5, 5]


def test_floor_of_an_unknown_hour_is_what_is_set() -> None:
    (found,) = settings(prewarm=[{"model": A100, "idle": 3, "learn": {}}]).floors
    assert (found.idle_at(NOW), found.idle_at(NOW, weeks(1))) == (3, 1)


def test_cost_is_the_sum_of_the_hours_of_a_week() -> None:
    (found,) = settings(prewarm=[{"model": A100, "idle": 2, "learn": {}}]).floors
    assert found.device_hours(NOW) == 2 * WEEK_HOURS
    assert found.device_hours(NOW, weeks(5) | weeks(0, hour=NOW_HOUR + 7)) == 2 * (WEEK_HOURS - 2) + 5
    assert costs([found], NOW, lambda key: weeks(5)) == [
        "prewarm keeps 2 to 5 x A100 40G idle on any node: at most 339 idle device-hours a week, as learned from 1 "
        "hours of claims; never more than 8 at once, 1344 a week"]


def test_what_is_too_old_is_let_go() -> None:
    old = NOW_HOUR - 4 * WEEK_HOURS
    assert Learn().kept(NOW, {old - 1: 1, old: 2, NOW_HOUR: 3, NOW_HOUR + 1: 4}) == {old: 2, NOW_HOUR: 3}


def test_setting_is_read() -> None:
    row = {"model": A100, "idle": 2, "node_selector": {"b": "2", "a": "1"},
           "learn": {"weeks": 2, "quantile": 0.5, "most": 4, "lead": 60}}
    (found,) = settings(prewarm=[row]).floors
    assert found.learn == Learn(2, 0.5, 4, 60.0)
    assert found.key == f"{A100}|a=1|b=2"
    assert settings(prewarm=[{"model": A100, "idle": 2, "learn": {}}]).floors == (Floor(A100, 2, {}, (), Learn()),)


KEYS = "weeks, quantile, most, lead"


@pytest.mark.parametrize(("learn", "said"), [
    (True, f": True is not usable: must be a mapping with some of {KEYS}"),
    ({"days": 3}, f".days: 3 is not usable: unknown key, known are {KEYS}"),
    ({"weeks": 0}, ".weeks: 0 is not usable: must be a whole number from 1 to 12"),
    ({"weeks": 13}, ".weeks: 13 is not usable: must be a whole number from 1 to 12"),
    ({"most": 1.5}, ".most: 1.5 is not usable: must be a whole number from 1 to 1000"),
    ({"quantile": 0}, ".quantile: 0 is not usable: must be a number above 0, at most 1"),
    ({"quantile": True}, ".quantile: True is not usable: must be a number above 0, at most 1"),
    ({"lead": 3601}, ".lead: 3601 is not usable: must be a number of seconds from 1 to 3600"),
])
def test_setting_is_refused(learn: t.Any, said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        settings(prewarm=[{"model": A100, "idle": 1, "learn": learn}])
    assert str(refused.value) == f"prewarm[0].learn{said}"


def test_two_floors_that_learn_the_same_are_refused() -> None:
    row = {"model": A100, "idle": 1, "learn": {}}
    with pytest.raises(BadSetting, match="two rows with this model and these labels learn"):
        settings(prewarm=[row, row])
    rows = [{**row, "node_selector": {"n": str(number)}} for number in range(MOST_LEARNED + 1)]
    with pytest.raises(BadSetting, match=f"at most {MOST_LEARNED} can be learned"):
        settings(prewarm=rows)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Weeks of claims on a virtual clock."""
    names = ("constant 2", "constant 4", "learned, quantile 0.95")
    return {name: simulate(ROWS[name]) for name in names}


def test_learned_floor_serves_more_for_the_same_cost(outcomes: dict[str, Outcome]) -> None:
    two, four, learned = outcomes.values()
    assert learned.idle_hours < 1.05 * two.idle_hours
    assert learned.share > two.share + 0.08
    assert learned.idle_hours < 0.5 * four.idle_hours
    assert learned.share > four.share - 0.05


def test_page_has_what_the_command_prints(outcomes: dict[str, Outcome]) -> None:
    page = (ROOT / "docs" / "handover.md").read_text(encoding="utf-8")
    for line in table(outcomes):
        assert line in page
    assert set(re.findall(r"^\| ((?:none|constant|schedule,|learned,).*?) \|", page, re.MULTILINE)) == set(ROWS)
    assert f"Simulated, {MEASURED_WEEKS} weeks" in " ".join(page.split())
