# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and dashboard speak of metrics that controllers and node agents have, and Grafana could show every panel."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.controller.ui.insight.device_states import FREE
from ansible_collections.composable.infra.controller.ui.insight.metrics import ATTACHES, COUNTERS, IDLE, USED
from ansible_collections.composable.infra.controller.ui.rows import STATES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import PREFIX
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.roles.alert_rules import ROLE, rules
from ansible_collections.composable.infra.tools.metrics_page import PAGE, names, page

DASHBOARD = json.loads((ROLE / "files" / "dashboard.json").read_text(encoding="utf-8"))
METRIC = re.compile(rf"{PREFIX}[a-z_]+")
VARIABLES = {f"${variable['name']}" for variable in DASHBOARD["templating"]["list"]}
WORDS = (ROOT / "controller" / "ui" / "static" / "format.js").read_text(encoding="utf-8")


def expressions() -> list[str]:
    """Every query of rules and dashboard."""
    return [*(rule["expr"] for rule in rules()),
            *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])]


def test_every_metric_is_one_that_there_is() -> None:
    asked = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert asked <= set(names())


@pytest.mark.parametrize("name", ["claims_waiting", "gated_pods", "gate_released_total", "gate_misjudged_total",
                                  "attach_duration_seconds_sum", "detach_duration_seconds_sum",
                                  "queue_duration_seconds_bucket", "reconcile_duration_seconds_bucket",
                                  "step_duration_seconds_bucket", "gate_pass_duration_seconds_bucket",
                                  "attaches_total", "detaches_total", "leader", "fabric_up", "fabric_free_devices",
                                  "attached_devices", "pool_devices", "pools_refused", "orphans", "queue_depth",
                                  "watch_restarts_total", "devices{", "used_seconds_total", "idle_seconds_total",
                                  "namespace_attaches_total", "infra_autoscaler_calls_total",
                                  "infra_autoscaler_decisions_total", "infra_autoscaler_failures_total",
                                  "infra_autoscaler_scale_down_total", "infra_autoscaler_requests_total",
                                  "infra_autoscaler_serve_seconds_bucket", "infra_autoscaler_target_size"])
def test_every_metric_that_matters_is_shown(name: str) -> None:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert [expression for expression in panels if PREFIX + name in expression]


def test_states_have_the_order_and_the_words_of_the_page() -> None:
    words = {state: f"{sign} {word}" for state, sign, word in re.findall(r'"?([\w-]+)"?: \["(.)", "([^"]+)"\]', WORDS)}
    (order,) = re.findall(r"ORDER = \[(.*?)\]", WORDS)
    (panel,) = [panel for panel in DASHBOARD["panels"] if panel.get("repeat") == "model"]
    shown = [(re.findall(r'state="([^"]+)"', each["expr"]), each["legendFormat"]) for each in panel["targets"]]
    assert shown == [([state], words[state]) for state in re.findall(r'"([\w-]+)"', order)]
    assert {state for (state,), _words in shown} == {FREE, *STATES}


@pytest.mark.parametrize("name", [USED, IDLE, ATTACHES])
def test_stored_sums_are_taken_once_of_all_pods(name: str) -> None:
    """Every pod reports the same sums, so a sum over pods would be twice what was used."""
    asked = [expression for expression in expressions() if PREFIX + name in expression]
    assert asked
    assert [each for each in asked if not re.search(rf"increase\(max by \([^)]*\) \({PREFIX}{name}\{{", each)] == []
    labels = ", ".join(COUNTERS[name].labels)
    assert [each for each in asked if f"max by ({labels}) (" not in each] == []


def test_brackets_of_every_query_are_closed() -> None:
    for expression in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression


def test_alerts_have_what_people_read() -> None:
    alerts = [rule["alert"] for rule in rules()]
    assert len(set(alerts)) == len(alerts) > 9
    for rule in rules():
        assert {"summary", "description"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in ("warning", "critical")
    readme = (ROLE / "README.md").read_text(encoding="utf-8")
    assert [name for name in alerts if f"| {name} |" not in readme] == []


def runbooks() -> dict[str, str]:
    """The parts of the runbook about alerts, by their headings."""
    page = (ROOT / "docs" / "guides" / "alerts.md").read_text(encoding="utf-8")
    parts = page.partition("\n## Alerts\n")[2].split("\n### ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_every_alert_has_its_runbook_and_no_runbook_is_about_nothing() -> None:
    assert sorted(runbooks()) == sorted(rule["alert"] for rule in rules())


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_runbook_says_what_it_means_and_what_to_do(rule: dict[str, t.Any]) -> None:
    means, _blank, what_to_do = runbooks()[rule["alert"]].strip().partition("\n\n")
    assert len(means.split()) > 8
    assert re.match(r"- \S", what_to_do)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_leads_to_its_runbook(rule: dict[str, t.Any]) -> None:
    """The part of the address after # is what GitHub and other pages make of the heading."""
    repository = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
    assert rule["annotations"]["runbook_url"] == f"{repository}/docs/guides/alerts.md#{rule['alert'].lower()}"


def test_runbooks_speak_of_metrics_that_there_are() -> None:
    known = {*names(), *(name.removesuffix("_sum") for name in names())}
    assert {name for text in runbooks().values() for name in METRIC.findall(text)} <= known


def test_labels_that_a_rule_asks_for_are_labels_of_its_metric() -> None:
    """A selector of a label or value that a metric never has would be an alert that never comes."""
    text = PAGE.read_text(encoding="utf-8")
    for name, selector in re.findall(rf"({PREFIX}[a-z_]+)\{{([^}}]*)\}}", " ".join(expressions())):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        for label, values in re.findall(r'(\w+)[!=~]+"([^"]*)"', selector):
            assert f"`{label}`" in row
            assert [value for value in values.split("|") if f"`{value}`" not in row and value not in VARIABLES] == []


def test_the_page_about_metrics_is_as_the_code() -> None:
    """``python -m tools.metrics_page`` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text


def test_a_page_that_is_not_as_the_code_is_noticed() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("composable_gate_opened_total", "composable_gates_total")
    assert page(text) != text


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [(x, y) for p in panels for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _y in cells) < 24
