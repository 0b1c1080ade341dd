# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of the playbook as a page: everybody can read it, on a phone and in the dark, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from ansible_collections.composable.infra.plugins.filter.claim_timelines import claim_timelines
from ansible_collections.composable.infra.plugins.filter.fabric_report import fabric_report
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    Span,
    Timeline,
    dump,
)
from ansible_collections.composable.infra.tests.browser.window import Browser, opened
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

MACHINE = "3c1f5d4e-8f6a-4b1c-9d3e-4f505a2b4a1e"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """One window for all tests."""
    with opened() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, made by the playbook's template from its filters."""
    node = {"metadata": {"name": "worker-0000.cluster.example.com"}, "spec": {"providerID": f"fsas-cdi://{MACHINE}"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    device = {"uid": "d1", "model": "A100 40G", "fabric": 1, "state": "attached"}
    fabric = {"machines": [{"uid": MACHINE, "name": "m", "fabric": 1, "devices": [device]}],
              "free": [{"model": "A100 40G", "fabric": 1, "free": 4}], "problems": {}}
    says = "1 x A100 40G: 0/2 nodes: 2 had no free A100 40G on fabric 1; pool a100-fabric1 has 0 free"
    claims = [{"claim": "default/train", "waits_for": says, "refused": "", "since": 1.0}]
    spans = (Span("attach", 1000.0, 1002.0), Span("handover", 1002.0, 4602.0))
    raw = {"metadata": {"annotations": {ANNOTATION: dump([Timeline("default/x", "u", "n", 999.0, spans)])}}}
    values = {"tables": fabric_report([], nodes=[node], fabric=fabric, claims=claims),
              "lines": claim_timelines([raw], now=5000.0), "report_time": "26 November 2026, 17:40 UTC"}
    loader = FileSystemLoader(ROOT / "playbooks" / "templates")
    text = Environment(loader=loader, autoescape=False).get_template("report.html.j2").render(**values)
    made = tmp_path_factory.mktemp("report") / "report.html"
    made.write_text(text, encoding="utf-8")
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_report_is_for_everybody(window: Browser, report: Path, width: int, scheme: str) -> None:
    window.prefer(prefers_color_scheme=scheme)
    window.size(width, 900)
    window.driver.get(report.as_uri())
    assert window.violations() == []
    assert window.script("return document.documentElement.scrollWidth") <= width
    back = window.script("return getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") == (scheme == "light")


def test_numbers_are_aligned_and_durations_have_their_unit(window: Browser, report: Path) -> None:
    window.driver.get(report.as_uri())
    aligned = window.script(
        "return [...document.querySelectorAll('td')].filter((each) => /^[0-9.]+$/.test(each.innerText))"
        ".map((each) => getComputedStyle(each).textAlign)")
    assert aligned
    assert set(aligned) == {"right"}
    rows = [each.text for each in window.all("table tr")]
    assert "Step Claims Median p95 Longest" in rows
    assert "reallocated by the scheduler 1 1 h 00 min 1 h 00 min 1 h 00 min" in rows
    assert "attached by the fabric 1 2.00 s 2.00 s 2.00 s" in rows
