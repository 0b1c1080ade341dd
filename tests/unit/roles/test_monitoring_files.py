# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and dashboard speak of metrics that controllers and node agents have, and Grafana could show every panel."""

from __future__ import annotations

import json
import re
import typing as t

import jinja2
import pytest
import yaml

from ansible_collections.composable.infra.controller.agent.metrics import AgentMetrics
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    PREFIX,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

ROLE = ROOT / "roles" / "monitoring"
DASHBOARD = json.loads((ROLE / "files" / "dashboard.json").read_text(encoding="utf-8"))
METRIC = re.compile(rf"{PREFIX}[a-z_]+")


def rules() -> list[dict[str, t.Any]]:
    """The alerts as the role writes them."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # it makes YAML, not HTML
    environment.filters["combine"] = lambda one, other: {**one, **other}
    environment.filters["to_json"] = json.dumps
    text = (ROLE / "templates" / "prometheusrule.yaml.j2").read_text(encoding="utf-8")
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    document = yaml.safe_load(environment.from_string(text).render(defaults))
    found: list[dict[str, t.Any]] = document["spec"]["groups"][0]["rules"]
    return found


def expressions() -> list[str]:
    """Every query of rules and dashboard."""
    return [*(rule["expr"] for rule in rules()),
            *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])]


def known() -> set[str]:
    """Names that the /metrics of controllers and node agents show."""
    agent = AgentMetrics()
    agent.ask(dict, int)
    return {sample.name for family in agent.registry.collect() for sample in family.samples} | {
        PREFIX + name for name in (*COUNTERS, *GAUGES)} | {
        f"{PREFIX}{name}{end}" for name in HISTOGRAMS for end in ("_sum", "_count", "_bucket")}


def test_every_metric_is_one_that_there_is() -> None:
    asked = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert asked <= known()


@pytest.mark.parametrize("name", ["claims_waiting", "gated_pods", "gate_released_total", "gate_misjudged_total",
                                  "attach_duration_seconds_sum", "detach_duration_seconds_sum",
                                  "queue_duration_seconds_bucket", "reconcile_duration_seconds_bucket"])
def test_every_metric_that_matters_is_shown(name: str) -> None:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert [expression for expression in panels if PREFIX + name in expression]


def test_brackets_of_every_query_are_closed() -> None:
    for expression in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression


def test_alerts_have_what_people_read() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) == 9
    for rule in rules():
        assert {"summary", "description"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in ("warning", "critical")
    readme = (ROLE / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"| {name} |" not in readme] == []


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [(x, y) for p in panels for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _y in cells) < 24
