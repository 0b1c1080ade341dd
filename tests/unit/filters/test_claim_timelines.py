# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's timelines are those that the devices keep."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jinja2
import pytest

from ansible_collections.composable.infra.plugins.filter.claim_timelines import FilterModule
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import (
    Stored,
    counted,
    together,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    Span,
    Timeline,
    dump,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects

NOW = 1_000_000.0
TEMPLATES = Path(__file__).parents[3] / "playbooks" / "templates"
claim_timelines = FilterModule().filters()["claim_timelines"]


def resource(name: str, *timelines: Timeline) -> dict[str, t.Any]:
    """A ComposableResource that keeps these."""
    raw = objects.resource(name)
    raw["metadata"]["annotations"][ANNOTATION] = dump(timelines)
    return raw


def served(name: str, ago: float, seconds: float = 2.0) -> Timeline:
    """A claim that was served so many seconds before NOW."""
    ended = NOW - ago
    return Timeline(f"default/{name}", name, "node-0", ended - seconds, (Span("attach", ended - seconds, ended),))


def test_claims_and_waits() -> None:
    found = claim_timelines([resource("a", served("one", 60.0), served("two", 30.0, 4.0)), objects.resource("b")],
                            now=NOW)
    assert found["claims"] == [
        {"claim": "default/two", "node": "node-0", "seconds": 4.0, "steps": {"attach": 4.0}, "hops": {"attach": 4.0}},
        {"claim": "default/one", "node": "node-0", "seconds": 2.0, "steps": {"attach": 2.0}, "hops": {"attach": 2.0}}]
    assert found["waits"] == [
        {"step": step, "hop": step, "words": words, "count": 2, "median": 2.0, "p95": 4.0, "longest": 4.0,
         "said": {"median": "2.00 s", "p95": "4.00 s", "longest": "4.00 s"}}
        for step, words in (("attach", "attached by the fabric"), ("total", "total"))]
    assert found["svg"].startswith("<svg")
    assert found["waits_svg"].startswith("<svg")


@pytest.mark.parametrize(("hours", "names"), [(1.0, ["default/new"]), (48.0, ["default/new", "default/old"])])
def test_only_the_last_hours(hours: float, names: list[str]) -> None:
    resources = [resource("a", served("old", 90_000.0)), resource("b", served("new", 60.0))]
    assert [row["claim"] for row in claim_timelines(resources, hours, NOW)["claims"]] == names


def text(*timelines: Timeline) -> str:
    """The ConfigMap's."""
    return Stored(together(*map(counted, timelines)), "writer", 1).text()


def test_waits_of_all_claims_are_those_that_were_counted() -> None:
    """Two of three devices are back on the fabric."""
    all_of_them = text(served("one", 60.0), served("two", 30.0, 4.0), served("three", 7200.0, 9.0),
                       served("old", 90_000.0))
    found = claim_timelines([resource("a", served("one", 60.0))], now=NOW, counted=all_of_them)
    assert [row["claim"] for row in found["claims"]] == ["default/one"]
    assert (found["all_claims"], found["waits"][0]) == (True, {
        "step": "attach", "hop": "attach", "words": "attached by the fabric", "count": 3, "median": 4.0,
        "p95": 9.0, "longest": 9.0,
        "said": {"median": "4.00 s", "p95": "9.00 s", "longest": "9.00 s"}})
    assert "Of all claims that were served." in rendered("md", found)
    lately = claim_timelines([], 1.0, NOW, all_of_them)
    assert lately["waits"][0]["count"] == 2


@pytest.mark.parametrize("unread", ["", "what?"], ids=["may not be read", "damaged"])
def test_without_them_the_waits_are_those_of_attached_devices(unread: str) -> None:
    found = claim_timelines([resource("a", served("one", 60.0))], now=NOW, counted=unread)
    assert (found["all_claims"], found["waits"][0]["count"]) == (False, 1)
    assert "Of claims whose devices are still attached." in rendered("html", found)


def test_claim_that_several_devices_keep_counts_once() -> None:
    found = claim_timelines([resource("a", served("one", 60.0)), resource("b", served("one", 60.0))], now=NOW)
    assert found["waits"][0]["count"] == 1


def test_nothing_is_kept() -> None:
    assert claim_timelines([objects.resource("a")], now=NOW) == {
        "claims": [], "waits": [], "all_claims": False, "svg": "", "waits_svg": ""}


@pytest.mark.parametrize("kind", ["md", "html"])
def test_report_shows_them(kind: str) -> None:
    page = rendered(kind, claim_timelines([resource("a", served("one", 60.0))], now=NOW))
    assert "attached by the fabric" in page
    assert "Waits in the last day" in page
    assert ("<svg" in page) == (kind == "html")
    assert "None." in rendered(kind, claim_timelines([]))


def rendered(kind: str, lines: dict[str, t.Any]) -> str:
    """A report about nothing else."""
    summary = dict.fromkeys(("machines", "nodes", "attached", "idle", "free", "waiting"), 0)
    empty: dict[str, list[str]] = {name: [] for name in ("models", "nodes", "claims", "idle", "strangers", "problems")}
    tables = {"summary": summary, **empty}
    source = (TEMPLATES / f"report.{kind}.j2").read_text(encoding="utf-8")
    template = jinja2.Environment(trim_blocks=True, autoescape=kind == "none").from_string(source)
    return template.render(tables=tables, lines=lines, report_time="now")
