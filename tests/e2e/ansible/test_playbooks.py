# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks for daily work, by their full names: plan, report, detach, drain_and_detach."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage, device_name
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, PODS
from ansible_collections.composable.infra.tests.e2e.support.cluster_state import stored_versions
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, well
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    allocated,
    attached,
    await_served,
    delete_all,
    mark,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 2, H100: 2}, "hold": 600.0}
Run = t.Callable[..., Played]


@pytest.fixture(scope="module")
def run(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("plan", "--check", timeout=5)``: a shipped playbook with the stage's configuration."""
    folder = tmp_path_factory.mktemp("playbooks")

    def start(name: str, *options: str, **variables: t.Any) -> Played:
        given = {"config_path": str(stage.config_path), "kubeconfig": str(stage.lab.kubeconfig), **variables}
        given = {f"composable_{key}": value for key, value in given.items()}
        return play(folder, f"composable.infra.{name}", given, *options)

    return start


@pytest.fixture(scope="module")
def busy(stage: Stage, run: Run) -> Iterator[str]:
    """One device in use by a pod and one idle on the same node; the name of the node."""
    well(run("attach"))
    line = Timeline(stage)
    stage.pod("works", A100, node="node-0")
    stage.pod("leaves", H100, node="node-0")
    assert line.wait(lambda: allocated(line, "works", "leaves"), PATIENCE)
    well(run("attach"))
    await_served(stage, line, "works", "leaves")
    line.stop()
    stage.delete_pod("leaves")
    well(run("attach"))
    yield "node-0"
    delete_all(stage)


def limit(stage: Stage, node: str) -> str | None:
    labels = stage.client.get(NODES, node)["metadata"]["labels"]
    return t.cast("str | None", labels.get(f"cohdi.io/{device_name(H100)}-size-max"))


def test_plan_says_what_it_would_do_and_writes_nothing(stage: Stage, run: Run) -> None:
    before = stored_versions(stage)
    planned = well(run("plan"))
    assert planned.changed == []
    assert stored_versions(stage) == before
    assert "WritePool" in {a["action"] for a in planned.result("Plan")["actions"]}


class Text(HTMLParser):
    """The text of a page, and whether every element was closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_report_shows_the_fabric_in_both_formats(stage: Stage, busy: str, run: Run, tmp_path: Path) -> None:
    before = stored_versions(stage)
    reported = well(run("report", report_dir=str(tmp_path / "report")))
    page = Text((tmp_path / "report" / "report.html").read_text(encoding="utf-8"))
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert page.open == []
    assert {"node-0", "node-1", A100, H100} <= set(page.words)
    assert "| 2 | 2 | 2 | 1 | 2 | 0 |" in text
    idle = text.partition("## Idle devices")[2].partition("##")[0]
    assert idle.count("\n- ") == 1
    assert f"- {H100} " in idle
    assert stored_versions(stage) == before
    secret = str(stage.config()["fabric"].get("password"))
    assert secret not in text + reported.output
    said = reported.result("Report the summary")["msg"]
    assert said.startswith(f"report.md and report.html are in {tmp_path}/report: ")


def test_report_in_check_mode_writes_no_file(stage: Stage, busy: str, run: Run, tmp_path: Path) -> None:
    well(run("report", "--check", report_dir=str(tmp_path / "report")))
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(("name", "variables", "words"), [
    ("detach", {}, "detach_nodes: is missing"),
    ("drain_and_detach", {"detach_nodes": " "}, "detach_nodes: is missing"),
    ("detach", {"detach_nodes": ["node-0"], "detach_models": ["b200"]}, "detach_models: b200 is not usable")])
def test_bad_input_is_named_and_changes_nothing(stage: Stage, run: Run, name: str, variables: Json, words: str) -> None:
    before = stored_versions(stage)
    refused = run(name, **variables)
    assert refused.status != 0
    assert words in "".join(refused.failures)
    assert stored_versions(stage) == before


def test_detach_in_check_mode_lists_and_writes_nothing(stage: Stage, busy: str, run: Run) -> None:
    before, since = stored_versions(stage), mark(stage)
    check = well(run("detach", "--check", detach_nodes=[busy]))
    said = " ".join(str(r.get("msg")) for _name, r in check.tasks)
    assert "idle" in said
    assert "used by a claim" in said
    assert stored_versions(stage) == before
    assert [e for e in stage.emulator.log(since) if e["method"] in ("PATCH", "DELETE")] == []


def test_what_does_not_leave_in_time_is_named(stage: Stage, busy: str, run: Run) -> None:
    stage.lab.stop_agents()
    try:
        done = run("detach", detach_nodes=[busy], detach_timeout=4)
    finally:
        stage.lab.start_agents()
    assert done.status != 0
    assert "Some devices were not returned. " in "".join(done.failures)
    assert f"{H100} " in "".join(done.failures)
    assert sorted(d["model"] for d in attached(stage).values()) == sorted([A100, H100])


def test_detach_returns_what_is_idle_and_names_what_is_used(stage: Stage, busy: str, run: Run) -> None:
    assert sorted(d["model"] for d in attached(stage).values()) == sorted([A100, H100])
    done = run("detach", detach_nodes=busy, detach_timeout=60)
    assert done.status != 0
    assert f"{A100} " in "".join(done.failures)
    assert "used by a claim" in "".join(done.failures)
    assert [d["model"] for d in attached(stage).values()] == [A100]
    assert limit(stage, busy) is None
    assert stage.client.get(PODS, "works", namespace="default")["status"]["phase"] == "Running"


def test_drain_empties_the_node_keeps_it_closed_and_opens_it_again(stage: Stage, busy: str, run: Run) -> None:
    well(run("drain_and_detach", detach_nodes=[busy], detach_timeout=60, drain_force=True))
    assert attached(stage) == {}
    assert stage.client.get(NODES, busy)["spec"]["unschedulable"]
    assert limit(stage, busy) == "0"
    again = well(run("drain_and_detach", detach_nodes=[busy], detach_timeout=60, drain_force=True))
    assert [name for name in again.changed if "scale" not in name] == []
    well(run("drain_and_detach", detach_nodes=[busy], drain_state="uncordon"))
    assert not stage.client.get(NODES, busy)["spec"].get("unschedulable")
    assert limit(stage, busy) is None
