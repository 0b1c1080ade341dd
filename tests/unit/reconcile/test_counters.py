# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is counted, and how Prometheus reads it."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.counters import HELP, Counters


@pytest.fixture
def counters() -> Counters:
    """Nothing counted yet."""
    return Counters()


def test_counted_by_label(counters: Counters) -> None:
    counters.add("gate_misjudged_total", reason="elsewhere")
    counters.add("gate_misjudged_total", reason="elsewhere")
    counters.add("gate_misjudged_total", reason="unschedulable")
    assert counters.get("gate_misjudged_total", reason="elsewhere") == 2
    lines = counters.text({}).splitlines()
    assert 'composable_gate_misjudged_total{reason="elsewhere"} 2' in lines
    assert 'composable_gate_misjudged_total{reason="unschedulable"} 1' in lines


def test_summary(counters: Counters) -> None:
    counters.observe("attach_seconds", 1.5)
    counters.observe("attach_seconds", 0.5)
    lines = counters.text({}).splitlines()
    assert lines[lines.index("# TYPE composable_attach_seconds summary") + 1:][:2] == [
        "composable_attach_seconds_count 2", "composable_attach_seconds_sum 2"]


def test_gauges_are_what_is_true_now(counters: Counters) -> None:
    assert "composable_gated_pods 3" in counters.text({"gated_pods": 3})
    assert "composable_gated_pods 0" in counters.text({"gated_pods": 0})


def test_everything_is_shown_from_the_beginning(counters: Counters) -> None:
    text = counters.text({})
    for name, (kind, _text) in HELP.items():
        assert f"# TYPE composable_{name} {kind}" in text
    assert "composable_gate_opened_total 0" in text
    assert "composable_attach_seconds_sum 0" in text
