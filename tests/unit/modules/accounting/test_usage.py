# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module usage: it reads sums, and what it cannot use is one sentence."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CONFIG_MAPS
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import (
    FIELD,
    HOUR,
    NAME,
    Place,
    Stored,
    Sum,
)
from ansible_collections.composable.infra.plugins.modules import usage
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

RunModule = Callable[..., dict[str, t.Any]]
HOURS = 500_000 * HOUR
STORED = Stored({Place(HOURS, HOUR, "red", "a100", "x"): Sum(1800.0, 0.0, 1),
                 Place(HOURS, HOUR, "", "a100", ""): Sum(0.0, 900.0)}, float(HOURS), HOURS + 3600.0)


@pytest.fixture
def stored(api: FakeApi) -> FakeApi:
    """An hour of one claim, in the controllers' namespace."""
    api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": "composable-infra"}, "data": {FIELD: STORED.text()}})
    return api


def test_usage_of_the_last_day_with_costs(run_module: RunModule, stored: FakeApi) -> None:
    found = run_module(usage, rates={"a100": "2.5"}, currency="EUR")
    assert (found.get("changed", False), found["from"], found["to"]) == (
        False, HOURS, HOURS + 3600)
    assert [(row["namespace"], row["gpu_hours"], row["idle_gpu_hours"], row["cost"]) for row in found["rows"]] == [
        ("", 0, 0.25, 0.625), ("red", 0.5, 0, 1.25)]
    assert found["totals"][0]["cost"] == 1.875
    assert found["csv"].splitlines()[2] == "red,a100,x,0.5,0.0,1.25,EUR,1"
    assert not stored.writes()


def test_rows_of_a_namespace_by_model(run_module: RunModule, stored: FakeApi) -> None:
    found = run_module(usage, by=["model"], namespace="red", **{"from": "2027-01-15", "to": "2027-01-16"})
    assert [(row["model"], row["label"], row["gpu_hours"], row["cost"]) for row in found["rows"]] == [
        ("a100", "", 0.5, None)]


@pytest.mark.parametrize(("options", "said"), [
    ({"from": "soon"}, "from: 'soon' is not usable: must be a number of seconds since 1970, or a time such as"),
    ({"from": "2027-01-16", "to": "2027-01-15"}, "from: 1800057600 is not usable: must be earlier than to"),
    ({"rates": {"a100": -1}}, "rates.a100: -1 is not usable: must be a number from 0 to 1000000"),
    ({"rates": {"a100": "much"}}, "rates.a100: 'much' is not usable: must be a number from 0 to 1000000"),
    ({"by": ["pod"]}, "value of by must be one or more of: namespace, model, label"),
    ({"controllers_namespace": "none"}, "not found")])
def test_options_that_are_not_usable(run_module: RunModule, stored: FakeApi, options: dict[str, t.Any],
                                     said: str) -> None:
    found = run_module(usage, **options)
    assert found["failed"]
    assert said in found["msg"]


def test_damaged_sums_are_one_sentence(run_module: RunModule, api: FakeApi) -> None:
    api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": "composable-infra"}, "data": {FIELD: "?"}})
    found = run_module(usage)
    assert found["msg"].startswith(f"ConfigMap composable-infra/{NAME} cannot be used: it has no sums of usage")


def test_controllers_that_have_not_counted_yet(run_module: RunModule, api: FakeApi) -> None:
    api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": "composable-infra"}})
    found = run_module(usage)
    assert (found["rows"], found["since"], found["until"]) == ([], 0, 0)
