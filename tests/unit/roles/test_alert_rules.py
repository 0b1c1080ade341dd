# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus itself, by promtool: it takes the rules, and each alert comes when it should and else does not."""

from __future__ import annotations

import re
import shutil
import subprocess
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.roles.alert_rules import rules

Json = dict[str, t.Any]
Series = dict[str, str]
WHEN = "40m"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@dataclass(frozen=True)
class Case:
    """Values by series, one a minute from the first minute on, as promtool writes them: with ``bad`` the alert is there
    after 40 minutes, with these labels, and with ``good`` it is not."""

    bad: Series
    good: Series
    labels: dict[str, str] = field(default_factory=dict)


def always(value: float) -> str:
    return f"{value}+0x60"


def rising(step: float) -> str:
    return f"0+{step}x60"


def average(name: str, seconds: float) -> Series:
    """One a minute, each of so many seconds."""
    return {f"{name}_sum": rising(seconds), f"{name}_count": rising(1)}


def waits(seconds: str) -> Series:
    """A histogram whose values are all between 0.1 s and ``seconds``."""
    name = "composable_queue_duration_seconds_bucket"
    return {f'{name}{{le="0.1"}}': always(0), f'{name}{{le="{seconds}"}}': rising(9), f'{name}{{le="+Inf"}}': rising(9)}


CASES = {
    "ComposableControllersDown": Case({}, {"composable_claims_waiting": always(0)}),
    "ComposableClaimsWait": Case({"composable_claims_waiting": always(1)},
                                 {"composable_claims_waiting": "1+0x38 0+0x20"}),
    "ComposablePodsGated": Case({"composable_gated_pods": always(2)}, {"composable_gated_pods": "2+0x38 0+0x20"}),
    "ComposableGateMisjudged": Case({'composable_gate_misjudged_total{reason="volume"}': rising(1)},
                                    {'composable_gate_misjudged_total{reason="volume"}': always(7)},
                                    {"reason": "volume"}),
    "ComposableAttachSlow": Case(average("composable_attach_duration_seconds", 130),
                                 average("composable_attach_duration_seconds", 110)),
    "ComposableRemovalHung": Case({'composable_agent_hung_removals{pod="a",node="n"}': always(1)},
                                  {'composable_agent_hung_removals{pod="a",node="n"}': always(0)},
                                  {"pod": "a", "node": "n"}),
    "ComposableGpuXid": Case({'composable_agent_xids_total{node="n",xid="79",pod="a"}': rising(1)},
                             {'composable_agent_xids_total{node="n",xid="13",pod="a"}': rising(1)},
                             {"node": "n", "xid": "79"}),
    "ComposableNodeProblem": Case({'composable_agent_problems_total{node="n",reason="RemovalHung"}': rising(1)},
                                  {'composable_agent_problems_total{node="n",reason="OpenOnNode"}': rising(1)},
                                  {"node": "n", "reason": "RemovalHung"}),
    "ComposableAgentDown": Case(
        {'kube_daemonset_status_number_unavailable{daemonset="composable-infra-agent"}': always(1)},
        {'kube_daemonset_status_number_unavailable{daemonset="composable-infra-agent"}': "0+0x38 1+0x20"},
        {"daemonset": "composable-infra-agent"}),
    "ComposableNoLeader": Case({'composable_leader{component="c",pod="a"}': always(0),
                                'composable_leader{component="c",pod="b"}': always(0)},
                               {'composable_leader{component="c",pod="a"}': always(0),
                                'composable_leader{component="c",pod="b"}': always(1)}, {"component": "c"}),
    "ComposableManagerDown": Case({"composable_fabric_up": always(0)}, {"composable_fabric_up": "1+0x38 0+0x20"}),
    "ComposableInventoryOld": Case(
        {'composable_fabric_poll_age_seconds{pod="a"}': always(301),
         'composable_fabric_poll_age_seconds{pod="b"}': always(1)},
        {'composable_fabric_poll_age_seconds{pod="a"}': always(300)}),
    "ComposableAttachFails": Case(
        {'composable_attaches_total{outcome="failed",manager="fm",model="m",reason="refused"}': rising(1)},
        {'composable_attaches_total{outcome="failed",manager="fm",model="m",reason="exhausted"}': rising(1)},
        {"manager": "fm", "model": "m", "reason": "refused"}),
    "ComposableDetachRefused": Case(
        {'composable_detaches_total{outcome="refused",model="m",reason="open"}': rising(1)},
        {'composable_detaches_total{outcome="refused",model="m",reason="claimed"}': rising(1)},
        {"model": "m", "reason": "open"}),
    "ComposableOrphans": Case({'composable_orphans{kind="device"}': always(1)},
                              {'composable_orphans{kind="device"}': "0+0x20 1+0x40"}, {"kind": "device"}),
    "ComposablePoolsRefused": Case({"composable_pools_refused": always(1)}, {"composable_pools_refused": always(0)}),
    "ComposableQueueSlow": Case(waits("10"), waits("1")),
    "ComposableWatchRestarts": Case({'composable_watch_restarts_total{resource="pods"}': rising(1)},
                                    {'composable_watch_restarts_total{resource="pods"}': rising(0.5)},
                                    {"resource": "pods"}),
    "ComposableAutoscalerDown": Case(
        {'kube_deployment_status_replicas_unavailable{deployment="composable-infra-autoscaler"}': always(1)},
        {'kube_deployment_status_replicas_unavailable{deployment="composable-infra-autoscaler"}': always(0)},
        {"deployment": "composable-infra-autoscaler"}),
    "ComposableAutoscalerNotAsked": Case({'composable_infra_autoscaler_requests_total{code="OK"}': always(5)},
                                         {'composable_infra_autoscaler_requests_total{code="OK"}': rising(6)}),
    "ComposableAutoscalerCallsFail": Case({'composable_infra_autoscaler_requests_total{code="INTERNAL"}': rising(1)},
                                          {'composable_infra_autoscaler_requests_total{code="OK"}': rising(1)},
                                          {"code": "INTERNAL"}),
    "ComposableAutoscalerRefuses": Case({'composable_infra_autoscaler_calls_total{result="refused"}': rising(1)},
                                        {'composable_infra_autoscaler_calls_total{result="done"}': rising(1)}),
    "ComposableScaleUpFails": Case({'composable_infra_autoscaler_failures_total{reason="late"}': rising(1)},
                                   {'composable_infra_autoscaler_failures_total{reason="late"}': always(4)},
                                   {"reason": "late"}),
    "ComposableScaleUpSlow": Case(average("composable_infra_autoscaler_serve_seconds", 310),
                                  average("composable_infra_autoscaler_serve_seconds", 290)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where promtool finds the rules."""
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules()}]}), "utf-8")
    return tmp_path


def expected(rule: Json, case: Case) -> Json:
    """The alert with its labels in its sentences."""
    def filled(text: str) -> str:
        return re.sub(r"{{ \$labels\.(\w+) }}", lambda found: case.labels[found[1]], text)

    return {"exp_labels": {**rule["labels"], **case.labels},
            "exp_annotations": {name: filled(text) for name, text in rule["annotations"].items()}}


def judged(alert: str, series: Series, alerts: list[Json]) -> Json:
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": inputs,
            "alert_rule_test": [{"eval_time": WHEN, "alertname": alert, "exp_alerts": alerts}]}


def promtool(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules(folder: Path) -> None:
    promtool(folder, "check", "rules", "rules.yml")


def test_each_alert_comes_when_it_should_and_else_does_not(folder: Path) -> None:
    found = {rule["alert"]: rule for rule in rules()}
    assert sorted(CASES) == sorted(found)
    cases = [judged(name, case.bad, [expected(found[name], case)]) for name, case in CASES.items()]
    cases += [judged(name, case.good, []) for name, case in CASES.items()]
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": cases}
    (folder / "tests.yml").write_text(yaml.safe_dump(document), "utf-8")
    promtool(folder, "test", "rules", "tests.yml")
