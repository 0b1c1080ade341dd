# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine measures, as Prometheus reads it."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import typing as t

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    READ_COUNTERS,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

MODELS = ("A100 40G", "H100 80G")


@pytest.fixture
def metrics() -> PrometheusMetrics:
    """Nothing measured yet."""
    return PrometheusMetrics("fm", MODELS)


def value(metrics: PrometheusMetrics, name: str, **labels: str) -> float | None:
    """One sample."""
    return metrics.registry.get_sample_value(f"composable_{name}", labels)


def series(metrics: PrometheusMetrics) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Every series that there is."""
    return {(sample.name, tuple(sorted(sample.labels.items())))
            for family in metrics.registry.collect() for sample in family.samples}


def test_counted_by_label(metrics: PrometheusMetrics) -> None:
    metrics.count("gate_misjudged_total", reason="elsewhere")
    metrics.count("gate_misjudged_total", reason="elsewhere")
    metrics.count("gate_misjudged_total", reason="unschedulable")
    assert value(metrics, "gate_misjudged_total", reason="elsewhere") == 2
    lines = metrics.text().decode().splitlines()
    assert 'composable_gate_misjudged_total{reason="elsewhere"} 2.0' in lines
    assert 'composable_gate_misjudged_total{reason="unschedulable"} 1.0' in lines


def test_counted_without_a_label(metrics: PrometheusMetrics) -> None:
    metrics.count("gate_opened_total")
    assert value(metrics, "gate_opened_total") == 1


def test_histogram(metrics: PrometheusMetrics) -> None:
    metrics.observe("attach_duration_seconds", 1.5)
    metrics.observe("attach_duration_seconds", 0.5)
    assert value(metrics, "attach_duration_seconds_count") == 2
    assert value(metrics, "attach_duration_seconds_sum") == 2
    assert value(metrics, "attach_duration_seconds_bucket", le="0.5") == 1
    assert value(metrics, "attach_duration_seconds_bucket", le="2.0") == 2


@pytest.mark.parametrize("name", ["attach", "detach"])
def test_older_names_are_kept_and_say_that_they_go(metrics: PrometheusMetrics, name: str) -> None:
    metrics.observe(f"{name}_duration_seconds", 1.5)
    metrics.observe(f"{name}_duration_seconds", 0.5)
    lines = metrics.text().decode().splitlines()
    samples = [line for line in lines if line.startswith((f"composable_{name}_seconds_count",
                                                          f"composable_{name}_seconds_sum"))]
    assert f"# TYPE composable_{name}_seconds summary" in lines
    assert samples == [f"composable_{name}_seconds_count 2.0", f"composable_{name}_seconds_sum 2.0"]
    (said,) = [line for line in lines if line.startswith(f"# HELP composable_{name}_seconds ")]
    assert f"Deprecated. Use composable_{name}_duration_seconds." in said


def test_former_name_of_a_histogram_has_the_former_label(metrics: PrometheusMetrics) -> None:
    metrics.observe("step_duration_seconds", 0.3, step="attach", handover="gated")
    for name, label in (("step_duration_seconds", "step"), ("hop_duration_seconds", "hop")):
        found = {ending: value(metrics, f"{name}_{ending}", **{label: "attach", "handover": "gated"})
                 for ending in ("count", "sum")}
        assert found == {"count": 1, "sum": 0.3}
    (said,) = [line for line in metrics.text().decode().splitlines()
               if line.startswith("# HELP composable_hop_duration_seconds ")]
    assert "Deprecated. Use composable_step_duration_seconds." in said


def test_histogram_with_a_label(metrics: PrometheusMetrics) -> None:
    metrics.observe("queue_duration_seconds", 0.003, controller="node")
    assert value(metrics, "queue_duration_seconds_bucket", controller="node", le="0.005") == 1
    assert value(metrics, "queue_duration_seconds_count", controller="pool") == 0


def test_labels_make_no_series_without_end(metrics: PrometheusMetrics) -> None:
    for number in range(100):
        metrics.count("gate_misjudged_total", reason=f"pod {number}")
    assert value(metrics, "gate_misjudged_total", reason="other") == 100
    assert len([line for line in metrics.text().decode().splitlines()
                if line.startswith("composable_gate_misjudged_total{")]) == 3


HOSTILE = ['gpu"} 1\ncomposable_leader{component="', "a" * 5000, "\\", "\n", "", "A100 40G ", "other", "\ud800", "💥"]


def test_no_tenant_and_no_manager_can_make_a_series_of_its_own(metrics: PrometheusMetrics) -> None:
    """A model is what a tenant writes into a ComposabilityRequest, and what a manager says; all of it is ``other``."""
    now: dict[str, dict[str, float]] = {}
    metrics.ask(lambda: now)
    metrics.count("attaches_total", manager="fm", model="other", outcome="failed", reason="refused")
    before = series(metrics)
    models = [*HOSTILE, *(f"model {number}" for number in range(500))]
    for model in models:
        metrics.count("attaches_total", manager="fm", model=model, outcome="failed", reason="refused")
        metrics.count("attaches_total", manager="fm", model=model, outcome="failed", reason="refused")
    now.update({name: dict.fromkeys(models, 1.0) for name in ("fabric_free_devices", "pool_devices",
                                                              "attached_devices", "queue_depth", "orphans", "leader")})
    now["watch_restarts_total"] = dict.fromkeys(models, 1.0)
    added = series(metrics) - before
    assert len(added) == 7
    assert {text for _name, labels in added for _label, text in labels} == {"other"}
    assert value(metrics, "attached_devices", model="other") == len(set(models))
    assert value(metrics, "attaches_total", manager="fm", model="other", outcome="failed", reason="refused") == (
        1 + 2 * len(models))
    parsed = list(text_string_to_metric_families(metrics.text().decode()))
    assert {family.name for family in parsed} >= {"composable_attaches", "composable_leader"}


def test_what_the_configuration_names_has_series_of_its_own(metrics: PrometheusMetrics) -> None:
    metrics.count("attaches_total", manager="fm", model=MODELS[1], outcome="failed", reason="exhausted")
    labels = {"manager": "fm", "model": MODELS[1]}
    assert value(metrics, "attaches_total", **labels, outcome="failed", reason="exhausted") == 1
    assert value(metrics, "attaches_total", **labels, outcome="succeeded", reason="none") == 0
    metrics.count("attaches_total", manager="another", model=MODELS[1], outcome="succeeded", reason="none")
    assert value(metrics, "attaches_total", manager="other", model=MODELS[1], outcome="succeeded", reason="none") == 1


def test_gauges_are_what_is_true_now_and_are_asked_once_for_each_scrape(metrics: PrometheusMetrics) -> None:
    now: dict[str, t.Any] = {"gated_pods": 3, "claims_waiting": 1, "leader": {"scaler": 1.0}}
    asked: list[None] = []

    def observed() -> dict[str, t.Any]:
        asked.append(None)
        return now

    metrics.ask(observed)
    assert asked == []
    metrics.text()
    assert len(asked) == 1
    assert value(metrics, "gated_pods") == 3
    assert [value(metrics, "leader", component=one) for one in ("publisher", "scaler")] == [None, 1]
    now["gated_pods"] = 0
    assert value(metrics, "gated_pods") == 0


def test_a_counter_that_is_read_is_one_for_prometheus(metrics: PrometheusMetrics) -> None:
    metrics.ask(lambda: {"watch_restarts_total": {"pods": 2}})
    lines = metrics.text().decode().splitlines()
    assert "# TYPE composable_watch_restarts_total counter" in lines
    assert 'composable_watch_restarts_total{resource="pods"} 2.0' in lines


def test_everything_is_shown_from_the_beginning(metrics: PrometheusMetrics) -> None:
    metrics.ask(lambda: dict.fromkeys(GAUGES, 0.0))
    text = metrics.text().decode()
    for kind, table in (("counter", {**COUNTERS, **READ_COUNTERS}), ("histogram", HISTOGRAMS), ("gauge", GAUGES)):
        for name in table:
            assert f"# TYPE composable_{name} {kind}" in text
    assert "composable_gate_opened_total 0.0" in text
    assert "composable_attach_seconds_sum 0.0" in text
    for name, metric in COUNTERS.items():
        if all(metric.labels.values()):
            for label, values in metric.labels.items():
                assert all(f'composable_{name}{{{label}="{one}"}} 0.0' in text for one in values)


def test_build_info(metrics: PrometheusMetrics) -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    assert value(metrics, "build_info", version=version, python=platform.python_version()) == 1


@pytest.mark.parametrize("name", [*COUNTERS, *HISTOGRAMS, *GAUGES, *READ_COUNTERS])
def test_names_are_as_prometheus_wants_them(name: str) -> None:
    """Source: prometheus.io/docs/practices/naming: base units as a suffix, ``_total`` for counters only."""
    assert re.fullmatch(r"[a-z][a-z_]*[a-z]", name)
    assert name.endswith("_total") == (name in COUNTERS or name in READ_COUNTERS)
    assert name.endswith("_seconds") or name not in HISTOGRAMS
    assert not name.endswith("_seconds") or name in HISTOGRAMS or name in GAUGES
    assert not re.search(r"_(ms|minutes|milliseconds|percent|count|sum|bucket)(_|$)", name)


def test_two_engines_do_not_share(metrics: PrometheusMetrics) -> None:
    metrics.count("gate_opened_total")
    assert value(PrometheusMetrics(), "gate_opened_total") == 0


def test_prometheus_can_read_it(metrics: PrometheusMetrics) -> None:
    metrics.observe("reconcile_duration_seconds", 0.1, controller="gates")
    assert {"composable_reconcile_duration_seconds", "composable_gate_opened"} <= {
        family.name for family in text_string_to_metric_families(metrics.text().decode())}


def test_modules_and_the_rulebook_do_without_the_library() -> None:
    """Their code is loaded where prometheus_client cannot be."""
    base = "ansible_collections.composable.infra"
    names = [f"{base}.plugins.modules.scale", f"{base}.plugins.modules.claim_info",
             f"{base}.extensions.eda.plugins.event_source.claims",
             f"{base}.plugins.module_utils.reconcile.manager.controller_manager"]
    code = ("import importlib, sys; sys.modules['prometheus_client'] = None; "
            f"[importlib.import_module(name) for name in {names}]")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
