# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role that has everything watched: what the cluster knows of Prometheus decides what is made."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.played import (
    Json,
    Played,
    definition,
    play,
    role,
    stored,
    well,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

PROMETHEUS = "/apis/monitoring.coreos.com/v1/namespaces/composable-monitoring"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {"prometheusrules": "PrometheusRule", "servicemonitors": "ServiceMonitor"}
Run = t.Callable[..., Played]


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """A lab of the file's own."""
    return stage_factory(nodes=1).lab


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("--check", monitoring_state="absent")``."""
    folder = tmp_path_factory.mktemp("monitoring")

    def start(*options: str, **variables: t.Any) -> Played:
        given = {"composable_kubeconfig": str(lab.kubeconfig), "composable_wait_timeout": 60,
                 "composable_helm_binary": str(Path(sys.executable).parent / "helm"),
                 "composable_chart_mirror": str(ROOT / "tests" / "charts"),
                 "composable_registry_mirror": "mirror.example.com:5000"}
        return play(folder, role("monitoring", **variables), given, *options)

    return start


@pytest.fixture(scope="module")
def bare(lab: Lab) -> dict[str, str]:
    """What is stored before anything was done."""
    return stored(lab)


@pytest.fixture(scope="module")
def plain(bare: dict[str, str], run: Run) -> Played:
    """The role has run in a cluster that knows nothing of Prometheus."""
    return well(run())


@pytest.fixture(scope="module")
def whole(lab: Lab, plain: Played, run: Run) -> Played:
    """The cluster has learnt the kinds, and the exporter is asked for."""
    for plural, kind in KINDS.items():
        lab.api.request("POST", DEFINITIONS, definition(plural, kind))
    lab.processes.wait_until("the kinds", lambda: lab.api.exists(f"{PROMETHEUS}/servicemonitors"), 30)
    return well(run(monitoring_dcgm_exporter=True, monitoring_rules_labels={"release": "stack"}))


def test_check_mode_writes_nothing(lab: Lab, bare: dict[str, str], run: Run) -> None:
    assert well(run("--check")).changed
    assert stored(lab) == bare


def test_without_prometheus_there_is_a_dashboard_only(lab: Lab, plain: Played, run: Run) -> None:
    dashboard = lab.api.get("/api/v1/namespaces/composable-monitoring/configmaps/composable-infra-dashboard")
    assert dashboard["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert json.loads(dashboard["data"]["composable-infra.json"])["panels"]
    assert well(run()).changed == []


def test_with_prometheus_there_are_rules_and_the_exporter_watches(lab: Lab, whole: Played) -> None:
    rules = lab.api.get(f"{PROMETHEUS}/prometheusrules/composable-infra")
    assert rules["metadata"]["labels"]["release"] == "stack"
    assert rules["spec"]["groups"][0]["rules"]
    assert lab.api.exists(f"{PROMETHEUS}/servicemonitors/dcgm-exporter")
    exporter = lab.api.get("/apis/apps/v1/namespaces/composable-monitoring/daemonsets/dcgm-exporter")
    (container,) = exporter["spec"]["template"]["spec"]["containers"]
    assert {"name": "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", "value": "true"} in container["env"]
    assert container["image"].startswith("mirror.example.com:5000/nvidia/k8s/dcgm-exporter:")


def test_a_second_run_changes_nothing(lab: Lab, whole: Played, run: Run) -> None:
    given: Json = {"monitoring_dcgm_exporter": True, "monitoring_rules_labels": {"release": "stack"}}
    assert well(run(**given)).changed == []
    assert well(run("--check", **given)).changed == []


def test_rules_can_be_refused(lab: Lab, whole: Played, run: Run) -> None:
    well(run(monitoring_rules="never", monitoring_dcgm_exporter=True))
    assert not lab.api.exists(f"{PROMETHEUS}/prometheusrules/composable-infra")


def test_a_namespace_of_others_stays(lab: Lab, whole: Played, run: Run) -> None:
    space = "/api/v1/namespaces/theirs"
    lab.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "theirs", "labels": {"team": "training"}}})
    before = {name for name in stored(lab) if name != "serviceaccounts theirs/default" and "kube-root-ca" not in name}
    well(run(monitoring_namespace="theirs"))
    assert lab.api.exists(f"{space}/configmaps/composable-infra-dashboard")
    assert lab.api.get(space)["metadata"]["labels"] == {"team": "training", "kubernetes.io/metadata.name": "theirs"}
    gone = well(run(monitoring_namespace="theirs", monitoring_state="absent"))
    told = gone.result("Remove the namespace unless it has objects of others")
    assert "another user created it" in told["msg"]
    assert before <= set(stored(lab))
    assert not lab.api.exists(f"{space}/configmaps/composable-infra-dashboard")
    lab.api.request("DELETE", space)


def test_our_namespace_stays_while_others_use_it(lab: Lab, whole: Played, run: Run) -> None:
    settings = "/api/v1/namespaces/composable-monitoring/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    lab.api.request("POST", settings, body)
    check = well(run("--check", monitoring_state="absent", monitoring_dcgm_exporter=True))
    apply = well(run(monitoring_state="absent", monitoring_dcgm_exporter=True))
    for played in (check, apply):
        told = played.result("Remove the namespace unless it has objects of others")
        assert (told["left"], told["changed"]) == (["ConfigMap settings"], False)
    assert {item["metadata"]["name"] for item in lab.api.get(settings)["items"]} == {"settings", "kube-root-ca.crt"}
    lab.api.request("DELETE", f"{settings}/settings")
    assert well(run(monitoring_dcgm_exporter=True)).changed


def test_absent_leaves_the_api_server_as_it_was(lab: Lab, bare: dict[str, str], whole: Played, run: Run) -> None:
    check = well(run("--check", monitoring_state="absent", monitoring_dcgm_exporter=True))
    apply = well(run(monitoring_state="absent", monitoring_dcgm_exporter=True))
    assert check.changed == apply.changed
    for plural in KINDS:
        lab.api.request("DELETE", f"{DEFINITIONS}/{plural}.monitoring.coreos.com")
    lab.processes.wait_until("the kinds are gone", lambda: "monitoring.coreos.com" not in {
        group["name"] for group in lab.api.get("/apis")["groups"]}, 60)
    assert set(stored(lab)) == set(bare)
    assert well(run(monitoring_state="absent")).changed == []
