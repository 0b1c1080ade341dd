# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Usage over HTTP: who may see it, what is refused, and its metrics."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ansible_collections.composable.infra.controller.ui.insight.metrics import InsightMetrics
from ansible_collections.composable.infra.controller.ui.insight.span import BadQuery
from ansible_collections.composable.infra.controller.ui.insight.usage import UsageAnswers
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import Rates
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import (
    HOUR,
    Place,
    Stored,
    Sum,
)
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE

NOW = 500_000 * HOUR
STORED = Stored({Place(NOW - HOUR, HOUR, "mine", "a100", "red"): Sum(1800.0, 0.0, 1),
                 Place(NOW - HOUR, HOUR, "rival-team", "a100", "blue"): Sum(900.0, 0.0, 1),
                 Place(NOW - HOUR, HOUR, "", "a100", ""): Sum(0.0, 900.0)}, NOW - HOUR, float(NOW))


@pytest.fixture
def usage() -> UsageAnswers:
    """Two namespaces, and a problem that names a node."""
    return UsageAnswers(lambda: STORED, lambda: "node-7 of rival-team is down", Rates({"a100": 2.0}, "EUR"), "team")


def test_everything_is_shown_to_who_may_see_everything(usage: UsageAnswers) -> None:
    kind, found = usage.answer(EVERYTHING, {})
    assert kind == "json"
    assert isinstance(found, dict)
    assert [row["namespace"] for row in found["rows"]] == ["", "mine", "rival-team"]
    assert (found["currency"], found["label"], found["until"]) == ("EUR", "team", NOW)
    assert found["problem"] == "node-7 of rival-team is down"


@pytest.mark.parametrize("query", [{}, {"format": "csv"}, {"by": "label"}, {"by": "model"}])
def test_namespace_sees_no_name_of_another(usage: UsageAnswers, query: dict[str, str]) -> None:
    _kind, found = usage.answer(MINE, query)
    text = json.dumps(found)
    assert not any(word in text for word in ("rival", "blue", "node-7"))
    if isinstance(found, dict):
        assert found["totals"][0]["gpu_hours"] == 0.75
        assert sum(row["gpu_hours"] for row in found["rows"]) == 0.5


@pytest.mark.parametrize(("query", "said"), [
    ({"from": "yesterday"},
     "from: 'yesterday' is not usable: must be a number of seconds since 1970, or a time such as"),
    ({"to": "1e99"}, "to: '1e99' is not usable"), ({"to": "nan"}, "to: 'nan' is not usable"),
    ({"from": "9", "to": "8"}, "from: 9 is not usable: must be earlier than to, which is 8"),
    ({"by": "pod"}, "by: 'pod' is not usable: must be one or more of namespace, model, label"),
    ({"format": "xml"}, "format: 'xml' is not allowed. It must be json or csv")])
def test_query_that_is_not_usable_is_one_sentence(usage: UsageAnswers, query: dict[str, str], said: str) -> None:
    with pytest.raises(BadQuery) as caught:
        usage.answer(EVERYTHING, query)
    assert str(caught.value).startswith(said)


def test_period_may_be_given_as_times(usage: UsageAnswers) -> None:
    _kind, found = usage.answer(EVERYTHING, {"from": "2027-01-15T05:00:00Z", "to": "2027-01-15T05:30:00Z"})
    assert isinstance(found, dict)
    assert found["rows"] == []


def test_metrics_are_the_sums_of_all_time() -> None:
    registry = CollectorRegistry()
    asked: list[int] = []

    def known() -> Stored:
        asked.append(1)
        return STORED

    registry.register(InsightMetrics(lambda: {("idle", "a100", 1): 2}, known, lambda: 100.0))
    text = [generate_latest(registry).decode() for _each in range(2)][1]
    assert len(asked) == 1, "the sums are not read at each scrape"
    for line in ('composable_devices{fabric="1",model="a100",state="idle"} 2.0',
                 'composable_used_seconds_total{label="red",model="a100",namespace="mine"} 1800.0',
                 'composable_idle_seconds_total{model="a100"} 900.0',
                 'composable_namespace_attaches_total{model="a100",namespace="mine"} 1.0'):
        assert line in text
