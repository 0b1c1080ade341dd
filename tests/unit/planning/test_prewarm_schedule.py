# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Floors by the time of the week: over midnight, over the week's end, and when clocks are put forward and back."""

from __future__ import annotations

import random
import re
import typing as t
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm import IdleMinimum, costs
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm_schedule import (
    DAYS,
    device_hours,
    read_schedule,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, settings

BERLIN = "Europe/Berlin"
WORK = {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "08:00", "to": "18:00", "timezone": BERLIN, "idle": 8}
NIGHT = {"from": "22:00", "to": "06:00", "idle": 4}


def floor(*windows: dict[str, t.Any], idle: int = 2) -> IdleMinimum:
    """As a configuration has it."""
    (found,) = settings(prewarm=[{"model": A100, "idle": idle, "schedule": list(windows)}]).idle_minimums
    return found


def at(text: str, zone: str = "UTC") -> float:
    """Seconds since the epoch of a time of day in a time zone."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def idle(found: IdleMinimum, *moments: str, zone: str = "UTC") -> list[int]:
    return [found.idle_at(at(moment, zone)) for moment in moments]


def test_without_a_schedule_the_floor_is_constant() -> None:
    assert idle(floor(), "2026-01-05 00:00", "2026-01-10 12:00") == [2, 2]


def test_window_has_its_beginning_and_not_its_end() -> None:
    """2026-01-05 is a Monday."""
    assert idle(floor(WORK), "2026-01-05 07:59:59", "2026-01-05 08:00", "2026-01-05 17:59:59", "2026-01-05 18:00",
                zone=BERLIN) == [2, 8, 8, 2]


def test_time_of_day_is_that_of_the_time_zone() -> None:
    assert idle(floor(WORK), "2026-01-05 06:59", "2026-01-05 07:00", "2026-01-05 17:00") == [2, 8, 2]
    assert idle(floor(WORK), "2026-07-06 05:59", "2026-07-06 06:00", "2026-07-06 16:00") == [2, 8, 2]


def test_other_days_have_the_constant_floor() -> None:
    week = [f"2026-01-{5 + day:02} 12:00" for day in range(7)]
    assert idle(floor(WORK), *week, zone=BERLIN) == [8, 8, 8, 8, 8, 2, 2]


def test_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    friday = {**NIGHT, "days": ["fri"]}
    assert idle(floor(friday), "2026-01-09 05:59", "2026-01-09 21:59", "2026-01-09 22:00", "2026-01-10 00:00",
                "2026-01-10 05:59", "2026-01-10 06:00", "2026-01-10 22:00") == [2, 2, 4, 4, 4, 2, 2]


def test_window_over_the_weeks_end() -> None:
    sunday = {**NIGHT, "days": ["sun"]}
    assert idle(floor(sunday), "2026-01-04 23:00", "2026-01-05 05:59", "2026-01-05 06:00", "2026-01-05 23:00") == [
        4, 4, 2, 2]


def test_day_of_the_week_is_that_of_the_time_zone() -> None:
    """While it is Sunday evening in UTC, it is Monday in Tokyo."""
    monday = {"days": ["mon"], "from": "00:00", "to": "24:00", "timezone": "Asia/Tokyo", "idle": 5}
    assert idle(floor(monday), "2026-01-04 14:59", "2026-01-04 15:00", "2026-01-05 14:59", "2026-01-05 15:00") == [
        2, 5, 5, 2]


def test_first_window_that_holds_counts() -> None:
    lunch = {"from": "12:00", "to": "13:00", "timezone": BERLIN, "idle": 1}
    assert idle(floor(lunch, WORK), "2026-01-05 11:59", "2026-01-05 12:00", "2026-01-05 13:00", zone=BERLIN) == [
        8, 1, 8]
    assert idle(floor(WORK, lunch), "2026-01-05 12:00", "2026-01-10 12:00", zone=BERLIN) == [8, 1]


def minutes(found: IdleMinimum, day: str, zone: str = BERLIN) -> int:
    """How long the floor was another than the constant one, on a day of the time zone."""
    begin, end = at(day, zone), at((datetime.fromisoformat(day) + timedelta(days=1)).isoformat(), zone)
    return sum(found.idle_at(now) != found.idle for now in range(int(begin), int(end), 60))


@pytest.mark.parametrize(("day", "expected"), [
    ("2026-03-28", 180), ("2026-03-29", 120), ("2026-10-24", 180), ("2026-10-25", 240),
], ids=["before spring", "clock put forward", "before autumn", "clock put back"])
def test_hour_that_is_left_out_or_comes_twice(day: str, expected: int) -> None:
    assert minutes(floor({"from": "01:00", "to": "04:00", "timezone": BERLIN, "idle": 9}), day) == expected


def test_window_that_begins_in_the_hour_that_is_left_out() -> None:
    """On 2026-03-29 it is 03:00 after 01:59 in Berlin, which is 01:00 in UTC."""
    found = floor({"from": "02:30", "to": "03:30", "timezone": BERLIN, "idle": 9})
    assert idle(found, "2026-03-29 00:59", "2026-03-29 01:00", "2026-03-29 01:29", "2026-03-29 01:30") == [2, 9, 9, 2]


def test_window_over_midnight_on_the_day_of_the_change() -> None:
    found = floor({**NIGHT, "timezone": BERLIN})
    assert [minutes(found, day) for day in ("2026-03-28", "2026-03-29", "2026-10-25")] == [480, 420, 540]


def test_working_hours_are_as_long_in_summer_and_winter() -> None:
    assert [minutes(floor(WORK), day) for day in ("2026-01-05", "2026-07-06", "2026-03-30", "2026-10-26")] == [600] * 4


@pytest.mark.parametrize(("found", "hours"), [
    (floor(idle=0), 0), (floor(), 336), (floor(WORK), 2 * 168 + 6 * 50), (floor({**NIGHT, "idle": 0}), 2 * 16 * 7),
    (floor({"from": "00:00", "to": "24:00", "idle": 0}), 0), (floor({"from": "10:15", "to": "10:45", "idle": 4}), 343),
    (floor(WORK, {**NIGHT, "days": ["sun"]}, idle=0), 8 * 50 + 4 * 8),
])
def test_cost_in_idle_device_hours_a_week(found: IdleMinimum, hours: float) -> None:
    assert found.device_hours() == hours


@pytest.mark.parametrize("seed", range(20))
def test_cost_is_what_a_meter_would_count(seed: int) -> None:
    """In any week in which no clock is changed, where all windows have one time zone."""
    rng = random.Random(seed)
    zone = rng.choice(["UTC", BERLIN, "Asia/Kolkata"])
    windows = [{"from": f"{rng.randrange(24):02}:{rng.choice([0, 15, 30]):02}", "to": f"{rng.randrange(24):02}:45",
                "idle": rng.randint(0, 9), "days": rng.sample(DAYS, rng.randint(1, 7)), "timezone": zone}
               for _unused in range(rng.randint(1, 4))]
    found = floor(*windows, idle=rng.randint(0, 5))
    since = int(at("2026-06-01 00:00"))
    assert found.device_hours() == sum(found.idle_at(now) for now in range(since, since + 7 * 86400, 900)) / 4


def test_cost_is_counted_once() -> None:
    device_hours.cache_clear()
    assert (floor(WORK).device_hours(), floor(WORK).device_hours()) == (636, 636)
    assert device_hours.cache_info().misses == 1


def test_cost_is_told_in_a_sentence() -> None:
    found = settings(prewarm=[{"model": A100, "idle": 2, "node_selector": {"team": "vision"}, "schedule": [WORK]},
                              {"model": "T4", "idle": 1}]).idle_minimums
    assert costs(found) == [
        "prewarm keeps 2 to 8 x A100 40G idle on nodes with team=vision: at most 636 idle device-hours a week",
        "prewarm keeps 1 x T4 idle on any node: at most 168 idle device-hours a week"]


def test_defaults_are_every_day_and_utc() -> None:
    (found,) = read_schedule([{"from": "00:00", "to": "24:00", "idle": 0}], "schedule")
    assert (found.days, found.begin, found.end, found.zone) == (frozenset(range(7)), 0, 1440, UTC)


TIMES = "must be a time of day in quotes, from '00:00' to "
REFUSED = [
    ({"days": []}, "days: [] is not usable: must be a list with some of mon, tue, wed, thu, fri, sat, sun"),
    ({"days": "mon"}, "days: 'mon' is not usable: must be a list with some of mon, tue, wed, thu, fri, sat, sun"),
    ({"days": ["mon", "Tue"]}, "days: 'Tue' is not usable: must contain only mon, tue, wed, thu, fri, sat, sun"),
    ({"days": [["mon"]]}, "days: ['mon'] is not usable: must contain only mon, tue, wed, thu, fri, sat, sun"),
    ({"from": None}, f"from: None is not usable: {TIMES}'23:59'"),
    ({"from": "24:00"}, f"from: '24:00' is not usable: {TIMES}'23:59'"),
    ({"from": "8:00"}, f"from: '8:00' is not usable: {TIMES}'23:59'"),
    ({"from": "08:00\n"}, f"from: '08:00\\n' is not usable: {TIMES}'23:59'"),
    ({"to": 1080}, f"to: 1080 is not usable: {TIMES}'24:00'"),
    ({"to": "24:01"}, f"to: '24:01' is not usable: {TIMES}'24:00'"),
    ({"to": "18:60"}, f"to: '18:60' is not usable: {TIMES}'24:00'"),
    ({"to": "08:00"},
     "to: '08:00' is not usable: must differ from the time of from. For a whole day, set 00:00 to 24:00"),
    ({"idle": -1}, "idle: -1 is not usable: must be a whole number from 0 to 1000"),
    ({"idle": 1001}, "idle: 1001 is not usable: must be a whole number from 0 to 1000"),
    ({"idle": None}, "idle: None is not usable: must be a whole number from 0 to 1000"),
    ({"until": "18:00"}, "until: '18:00' is not usable: unknown key. Known keys are days, from, to, timezone, idle"),
    *[({"timezone": zone}, f"timezone: {zone!r} is not usable: must be the name of a time zone that this machine "
       "knows, such as Europe/Berlin or UTC")
      for zone in ("Mars/Olympus", "", "../etc/passwd", "/etc/passwd", "Europe", 1, None)],
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_window_is_refused(changes: dict[str, t.Any], said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        floor(WORK, {**WORK, **changes})
    assert str(refused.value) == f"prewarm[0].schedule[1].{said}"


@pytest.mark.parametrize(("value", "said"), [
    (WORK, "must be a list of at most 100 mappings with days, from, to, timezone, idle"),
    ([WORK] * 101, "must be a list of at most 100 mappings with days, from, to, timezone, idle"),
    (None, "must be a list of at most 100 mappings with days, from, to, timezone, idle"),
])
def test_schedule_is_refused(value: t.Any, said: str) -> None:
    with pytest.raises(BadSetting, match=r"^prewarm\[0\].schedule: ") as refused:
        settings(prewarm=[{"model": A100, "idle": 1, "schedule": value}])
    assert refused.value.allowed == said


def test_window_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"^prewarm\[0\].schedule\[0\]: 'always' is not usable: must be a mapping"):
        settings(prewarm=[{"model": A100, "idle": 1, "schedule": ["always"]}])


def test_example_of_the_page_costs_what_the_page_says() -> None:
    page = (ROOT / "docs" / "guides" / "prewarm.md").read_text(encoding="utf-8")
    (block,) = [found for found in re.findall(r"```yaml\n(prewarm:.*?)```", page, re.DOTALL) if "schedule" in found]
    (row,) = yaml.safe_load(block)["prewarm"]
    cost = floor(*row["schedule"], idle=row["idle"]).device_hours()
    assert f"that your entries can cost, {cost:g} for the example." in " ".join(page.split())
