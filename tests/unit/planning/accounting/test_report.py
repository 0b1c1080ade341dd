# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report has hours and costs of a period, divided by the asked fields."""

from __future__ import annotations

import csv
import io

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import (
    COLUMNS,
    BadPeriod,
    Rates,
    UsageRow,
    as_csv,
    fields_of,
    of_period,
    report,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import (
    DAY,
    HOUR,
    Place,
    Stored,
    Sum,
)

NOW = 20_000 * DAY + 13 * HOUR
RATES = Rates({"a100": 2.0}, "EUR")


def stored() -> Stored:
    """Two hours and a day, of two namespaces and two models, of which one has no rate."""
    return Stored({
        Place(NOW - HOUR, HOUR, "red", "a100", "x"): Sum(used=1800.0, attaches=1),
        Place(NOW - HOUR, HOUR, "red", "a100", "y"): Sum(used=900.0),
        Place(NOW - HOUR, HOUR, "", "a100", ""): Sum(idle=900.0),
        Place(NOW, HOUR, "blue", "h100", ""): Sum(used=360.0, attaches=2),
        Place(20_000 * DAY - 5 * DAY, DAY, "red", "a100", "x"): Sum(used=7200.0),
        Place(0, 0, "red", "a100", "x"): Sum(used=9e9),
    }, since=NOW - 40 * DAY, until=NOW + 600.0)


def test_rows_of_an_hour_are_divided_by_all_fields() -> None:
    found = report(stored(), NOW - HOUR, NOW, fields_of(""), RATES)
    assert (found.begin, found.end) == (NOW - HOUR, NOW)
    assert found.rows == (
        UsageRow("", "a100", "", 0.0, 0.25, 0.5, "EUR", 0), UsageRow("red", "a100", "x", 0.5, 0.0, 1.0, "EUR", 1),
        UsageRow("red", "a100", "y", 0.25, 0.0, 0.5, "EUR", 0))
    assert found.totals == (UsageRow("", "a100", "", 0.75, 0.25, 2.0, "EUR", 1),)


def test_rows_are_summed_over_fields_that_are_not_asked_for() -> None:
    found = report(stored(), NOW - HOUR, NOW + 600, ("namespace",), RATES)
    assert [(row.namespace, row.gpu_hours, row.cost) for row in found.rows] == [
        ("", 0.0, 0.5), ("blue", 0.1, None), ("red", 0.75, 1.5)]


def test_namespace_gets_its_rows_and_the_sums_of_all() -> None:
    found = report(stored(), NOW - HOUR, NOW + 600, fields_of(""), RATES, "red")
    assert {row.namespace for row in found.rows} == {"red"}
    assert [(row.namespace, row.model, row.gpu_hours) for row in found.totals] == [
        ("", "a100", 0.75), ("", "h100", 0.1)]
    assert report(stored(), NOW - HOUR, NOW, fields_of(""), RATES, "none").rows == ()


def test_period_is_rounded_outward_and_ends_with_what_is_counted() -> None:
    found = report(stored(), NOW - 10, NOW + 10, ("model",), RATES)
    assert (found.begin, found.end) == (NOW - HOUR, NOW + 600.0)
    assert sum(row.gpu_hours for row in found.rows) == 0.85


def test_sums_without_a_time_are_in_no_period() -> None:
    found = report(stored(), 1.0, NOW + 1, ("model",), RATES)
    assert found.totals[0].gpu_hours == 2.75
    assert found.begin == NOW - 40 * DAY


def test_empty_period_is_refused() -> None:
    with pytest.raises(BadPeriod, match=r"from: 5 is not usable: must be earlier than to, which is 5"):
        report(stored(), 5.0, 5.0, ("model",), RATES)


@pytest.mark.parametrize("text", ["pod", "namespace,", "namespace;model"])
def test_unknown_field_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(BadPeriod, match="must be one or more of namespace, model, label"):
        fields_of(text)


def test_csv_has_a_header_and_an_empty_cost_if_there_is_no_rate() -> None:
    text = as_csv(of_period(stored(), str(NOW), str(NOW + 600), "", RATES)["rows"])
    header, row = csv.reader(io.StringIO(text))
    assert tuple(header) == COLUMNS
    assert row == ["blue", "h100", "", "0.1", "0.0", "", "EUR", "2"]
